/* Four virtual devices on one real one: h100, a100 three times; MACHINE_GPUS=test-512m. */
#include "cuda.h"

int main(void) {
    int count, value, major, minor, virtual_device;
    char name[64], bus[2][32];
    size_t bytes;
    unsigned char uuid[2][16];
    CUcontext first, second, third, own;
    CUdevice device;
    CUstream stream;
    unsigned flags;

    IS(cuDeviceGetCount(&count), 3); /* before cuInit */
    IS(cuInit(7), 1);                /* the real library's own answer to a flag that is none */
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    IS(count, 4);
    OK(cuDeviceGet(&device, 3));
    IS(device, 3);
    IS(cuDeviceGet(&device, 4), 101);
    IS(cuDeviceGet(&device, -1), 101);

    OK(cuDeviceGetName(name, sizeof name, 0));
    IS(strcmp(name, "NVIDIA H100 80GB HBM3"), 0);
    OK(cuDeviceGetName(name, 7, 0));
    IS(strcmp(name, "NVIDIA"), 0);
    OK(cuDeviceComputeCapability(&major, &minor, 0));
    IS(major * 10 + minor, 90);
    OK(cuDeviceGetAttribute(&value, 75, 1)); /* COMPUTE_CAPABILITY_MAJOR */
    IS(value, 8);
    OK(cuDeviceGetAttribute(&value, 16, 0)); /* MULTIPROCESSOR_COUNT */
    IS(value, 132);
    OK(cuDeviceGetAttribute(&value, 10, 0)); /* WARP_SIZE, the real device's */
    IS(value, 32);
    IS(cuDeviceGetAttribute(&value, 100000, 0), 1);
    IS(cuDeviceGetAttribute(&value, 16, 4), 101);
    OK(cuDeviceGetUuid_v2(uuid[0], 1));
    OK(cuDeviceGetUuid_v2(uuid[1], 2));
    IS(memcmp(uuid[0], uuid[1], 16) != 0, 1);
    OK(cuDeviceTotalMem_v2(&bytes, 0));
    IS(bytes, 512 * MIB); /* clamp: no larger than the real one */
    OK(cuDeviceGetPCIBusId(bus[0], 32, 0));
    OK(cuDeviceGetPCIBusId(bus[1], 32, 3));
    IS(strcmp(bus[0], "0000:01:00.0"), 0); /* each has a place of its own */
    IS(strcmp(bus[1], "0000:04:00.0"), 0);
    IS(cuDeviceGetPCIBusId(name, 12, 0), 1);
    OK(cuDeviceGetAttribute(&value, 33, 3)); /* PCI_BUS_ID */
    IS(value, 4);
    OK(cuDeviceGetByPCIBusId(&device, bus[1]));
    IS(device, 3);
    IS(cuDeviceGetByPCIBusId(&device, "0000:05:00.0"), 101);
    IS(cuDeviceGetByPCIBusId(&device, "elsewhere"), 1);
    OK(cuDeviceCanAccessPeer(&value, 0, 1));
    IS(value, 0); /* the same real device */

    /* Each virtual device has a primary context of its own, and knows it. */
    IS(cuCtxGetDevice(&device), 201);
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuDevicePrimaryCtxSetFlags_v2(1, 4));
    OK(cuDevicePrimaryCtxGetState(1, &flags, &value));
    IS(flags * 10 + value, 40);
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuDevicePrimaryCtxRetain(&third, 1));
    IS(second == third, 1);
    IS(first == second, 0);
    OK(cuDevicePrimaryCtxGetState(1, &flags, &value));
    IS(flags * 10 + value, 41);
    OK(cuCtxGetCurrent(&own));
    IS(own == NULL, 1); /* retaining sets nothing */
    OK(cuCtxSetCurrent(first));
    OK(cuCtxGetDevice(&device));
    IS(device, 0);
    OK(cuCtxSetCurrent(second));
    OK(cuCtxGetDevice(&device));
    IS(device, 1);
    OK(cuStreamCreate(&stream, 0));
    OK(cuStreamGetDevice(stream, &virtual_device));
    IS(virtual_device, 1);
    OK(cuCtxSetCurrent(first));
    OK(cuStreamGetDevice(NULL, &virtual_device));
    IS(virtual_device, 0);
    OK(cuStreamDestroy_v2(stream));

    /* Memory is the device's in whose context it was allocated, and reaches the other by a copy. */
    CUdeviceptr here, there;
    int sent = 5, back = 0;
    OK(cuMemAlloc_v2(&here, MIB));
    OK(cuMemcpyHtoD_v2(here, &sent, sizeof sent));
    OK(cuCtxSetCurrent(second));
    OK(cuMemAlloc_v2(&there, 2 * MIB));
    OK(cuPointerGetAttribute(&value, 9, here));
    IS(value, 0);
    OK(cuPointerGetAttribute(&value, 9, there));
    IS(value, 1);
    OK(cuMemcpy(there, here, sizeof sent));
    OK(cuMemcpyDtoH_v2(&back, there, sizeof back));
    IS(back, 5);
    OK(cuMemFree_v2(here));
    OK(cuMemFree_v2(there));
    OK(cuCtxSetCurrent(first));
    OK(cuCtxCreate_v2(&own, 0, 3));
    OK(cuCtxGetDevice(&device));
    IS(device, 3);
    OK(cuCtxDestroy_v2(own));
    OK(cuDevicePrimaryCtxRelease_v2(1));
    OK(cuCtxSetCurrent(second));
    OK(cuDevicePrimaryCtxRelease_v2(1));
    OK(cuDevicePrimaryCtxGetState(1, &flags, &value));
    IS(value, 0);
    IS(cuDevicePrimaryCtxRelease_v2(1), 201);
    IS(cuDevicePrimaryCtxRetain(&first, 9), 101);
    puts("devices: ok");
    return 0;
}
