/* A machine with GPUs: the simulated libcuda under the real one's name. Its own environment says which GPUs it has; what the
   program asks for is not for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

__attribute__((constructor)) static void start(void) {
    const char *gpus = getenv("MACHINE_GPUS");
    setenv("FAKEGPU_PROFILES", gpus ? gpus : "test-512m", 1);
    unsetenv("FAKEGPU_MODE");
    unsetenv("FTEST_GPUS"); /* what other processes hold there is of the devices that the program sees */
    unsetenv("FAKEGPU_REPORT_PATH");
}

/* With MACHINE_HOST_NUMA, the GPU has no physical memory left for cuMemCreate, and the host has it in NUMA node 0. */
typedef struct { unsigned type, handles, kind; int id; void *win32; unsigned char flags[8]; } Properties;

int cuDeviceGetAttribute(int *value, int number, int device) {
    int (*next)(int *, int, int) = (int (*)(int *, int, int))dlsym(RTLD_NEXT, "cuDeviceGetAttribute");
    int code = next(value, number, device);
    if (code == 0 && number == 141 && getenv("MACHINE_HOST_NUMA"))
        *value = 1; /* HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    return code;
}

int cuMemCreate(unsigned long long *handle, size_t size, const Properties *wanted, unsigned long long flags) {
    int (*next)(unsigned long long *, size_t, const Properties *, unsigned long long) =
        (int (*)(unsigned long long *, size_t, const Properties *, unsigned long long))dlsym(RTLD_NEXT, "cuMemCreate");
    Properties given = *wanted;
    if (!getenv("MACHINE_HOST_NUMA"))
        return next(handle, size, wanted, flags);
    if (given.kind == 1)
        return 2;
    if (given.kind != 3 || given.id != 0)
        return 1;
    given.kind = 1;
    return next(handle, size, &given, flags);
}
