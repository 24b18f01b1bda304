/* Every function that the real library has is found by name, here, and is this library's. */
#define _GNU_SOURCE
#include "cuda.h"
#include <dlfcn.h>

static const char *file_of(void *address) {
    Dl_info info;
    IS(dladdr(address, &info) != 0, 1);
    return info.dli_fname;
}

static void *find(const char *name, int version, int flags) {
    void *found = NULL;
    int status = -1;
    OK(cuGetProcAddress_v2(name, &found, version, flags, &status));
    IS(status, found ? 0 : status);
    return found;
}

int main(void) {
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found;
    int status, count;
    const char *text;
    IS(self != NULL, 1);
    OK(cuInit(0));
    IS(find("cuMemAlloc", 12000, 0) == dlsym(self, "cuMemAlloc_v2"), 1);
    IS(find("cuMemAllocAsync", 12000, 2) == dlsym(self, "cuMemAllocAsync_ptsz"), 1);
    IS(find("cuMemcpyHtoD", 12000, 2) == dlsym(self, "cuMemcpyHtoD_v2_ptds"), 1);
    IS(find("cuCtxCreate", 11040, 0) == dlsym(self, "cuCtxCreate_v3"), 1);
    IS(find("cuGetProcAddress", 12000, 0) == dlsym(self, "cuGetProcAddress_v2"), 1);
    IS(find("cuStreamQuery", 12000, 0) == dlsym(self, "cuStreamQuery"), 1);
    IS(strstr(file_of(find("cuStreamQuery", 12000, 0)), "libfakegpu_cuda.so") != NULL, 1);
    OK(cuGetProcAddress_v2("cuNoSuchFunction", &found, 12000, 0, &status));
    IS(status * 10 + (found == NULL), 11);
    OK(cuGetProcAddress_v2("cuMemCreate", &found, 9000, 0, &status)); /* not in CUDA 9 */
    IS(status * 10 + (found == NULL), 21);
    IS(cuGetProcAddress("cuNoSuchFunction", &found, 12000, 0), 500);
    OK(cuGetProcAddress("cuDeviceGetCount", &found, 12000, 0));
    OK(((int (*)(int *))found)(&count));
    IS(count, 2);
    IS(cuGetProcAddress_v2("cuInit", &found, 99000, 0, &status), 1); /* newer than the driver */
    IS(cuGetProcAddress_v2(NULL, &found, 12000, 0, &status), 1);
    OK(cuGetErrorName(2, &text));
    IS(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY"), 0);
    puts("entry points: ok");
    return 0;
}
