/* What NVML and nvidia-smi show where two GPUs of the model a100-1g are in front of a real one of 512 MiB. The argument is
   FAKEGPU_OOM_POLICY. */
#define _GNU_SOURCE
#include "cuda.h"
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu, compute; } Process;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;

static void *library;

#define NVML(name, ...) ((int (*)())dlsym(library, #name))(__VA_ARGS__)

/* The environment at the start: the library that plays the machine has changed it for itself. */
static char *started_with[1024];

static void shell(char *command) {
    char *arguments[] = {"sh", "-c", command, NULL};
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execve("/bin/sh", arguments, started_with);
        _exit(127);
    }
    IS(waitpid(child, &status, 0), child);
    OK(status);
}

int main(int argc, char **argv) {
    size_t whole = !strcmp(argv[argc - 1], "clamp") ? 512 * MIB : 1024 * MIB, bytes;
    unsigned count, index, busy[2];
    int version, driver, device, status;
    unsigned char uuid[16];
    char text[96], expected[96], bus[32];
    Device gpu, same;
    Memory memory;
    Memory2 second = {.version = sizeof second | 2 << 24};
    Process processes[4];
    CUcontext context;
    CUdeviceptr at;
    Pci pci;

    for (int entry = 0; environ[entry] && entry < 1023; entry++)
        started_with[entry] = strdup(environ[entry]);
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    IS(library != NULL, 1);
    IS(NVML(nvmlDeviceGetCount_v2, &count), 1);
    IS(NVML(nvmlDeviceGetUtilizationRates, NULL, busy), 1);
    OK(NVML(nvmlInit_v2));
    OK(NVML(nvmlDeviceGetCount_v2, &count));
    IS(count, 2);
    OK(NVML(nvmlDeviceGetHandleByIndex_v2, 1, &gpu));
    OK(NVML(nvmlDeviceGetMemoryInfo, gpu, &memory));
    IS(memory.total, whole);
    IS(memory.used, 0);
    /* CUDA has not been initialized here, so a child can use it. */
    pid_t child = fork();
    if (child == 0)
        _exit(cuInit(0));
    IS(waitpid(child, &status, 0), child);
    OK(status);

    OK(cuInit(0));
    for (device = 0; device < 2; device++) {
        OK(cuDeviceGetUuid_v2(uuid, device));
        char *end = expected + sprintf(expected, "GPU-");
        for (int byte = 0; byte < 16; byte++)
            end += sprintf(end, "%s%02x", byte == 4 || byte == 6 || byte == 8 || byte == 10 ? "-" : "", uuid[byte]);
        OK(NVML(nvmlDeviceGetHandleByUUID, expected, &gpu));
        OK(NVML(nvmlDeviceGetIndex, gpu, &index));
        IS(index, device);
        OK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
        OK(NVML(nvmlDeviceGetHandleByPciBusId_v2, bus, &same));
        IS(gpu == same, 1);
        OK(NVML(nvmlDeviceGetPciInfo_v3, gpu, &pci));
        IS(strcmp(pci.legacy, bus), 0);
        OK(cuDeviceGetName(expected, sizeof expected, device));
        OK(NVML(nvmlDeviceGetName, gpu, text, sizeof text));
        IS(strcmp(text, expected), 0);
        OK(cuDeviceTotalMem_v2(&bytes, device));
        OK(NVML(nvmlDeviceGetMemoryInfo_v2, gpu, &second));
        IS(second.total, bytes);
        IS(second.total, whole);
    }
    OK(cuDriverGetVersion(&driver));
    OK(NVML(nvmlSystemGetCudaDriverVersion_v2, &version));
    IS(version, driver);

    /* This process is on device 1, with 3 MiB. */
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&at, 3 * MIB));
    OK(NVML(nvmlDeviceGetMemoryInfo, gpu, &memory));
    IS(memory.used, 3 * MIB);
    IS(memory.free, whole - 3 * MIB);
    count = 4;
    OK(NVML(nvmlDeviceGetComputeRunningProcesses_v3, gpu, &count, processes));
    IS(count, 1);
    IS(processes[0].pid, getpid());
    IS(processes[0].bytes, 3 * MIB);
    OK(NVML(nvmlDeviceGetHandleByIndex_v2, 0, &gpu));
    OK(NVML(nvmlDeviceGetComputeRunningProcesses_v3, gpu, &count, processes));
    IS(count, 0);

    /* What only the real GPU knows. */
    IS(NVML(nvmlDeviceGetUtilizationRates, gpu, busy), 3);
    IS(NVML(nvmlDeviceGetTemperature, gpu, 0, &count), 3);
    IS(NVML(nvmlDeviceGetPowerUsage, gpu, &count), 3);
    IS(NVML(nvmlDeviceGetNvLinkState, gpu, 0, &count), 3);
    shell("nvidia-smi -L");
    shell("nvidia-smi --query-gpu=pci.bus_id,memory.total,memory.used,utilization.gpu,temperature.gpu --format=csv,noheader");
    shell("nvidia-smi --query-compute-apps=gpu_bus_id,used_memory --format=csv,noheader");
    OK(cuMemFree_v2(at));
    OK(NVML(nvmlShutdown));
    puts("monitor: ok");
    return 0;
}
