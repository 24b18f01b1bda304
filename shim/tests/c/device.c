/* Devices: count, names and numbers of the data sheet, attributes, the current device, bad ordinals. Two A100. */
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>

#include "check.h"

int main(void) {
    int count = 0, value = 0, current = -1, runtime = 0, driver = 0;
    SAME(cudaGetDeviceCount(&count), cudaSuccess);
    SAME(count, 2);
    SAME(cudaRuntimeGetVersion(&runtime), cudaSuccess);
    SAME(cudaDriverGetVersion(&driver), cudaSuccess);
    SAME(runtime / 1000, CUDART_VERSION / 1000);
    EXPECT(driver >= runtime);

    struct cudaDeviceProp properties;
    memset(&properties, 0xee, sizeof properties);
    SAME(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    EXPECT(strcmp(properties.name, "NVIDIA A100-SXM4-80GB") == 0);
    SAME(properties.major, 8);
    SAME(properties.minor, 0);
    SAME(properties.multiProcessorCount, 108);
    SAME(properties.totalGlobalMem, 80LL << 30);
    SAME(properties.warpSize, 32);
    SAME(properties.maxThreadsPerBlock, 1024);
    SAME(properties.sharedMemPerBlock, 48 << 10);
    SAME(properties.sharedMemPerMultiprocessor, 164 << 10);
    SAME(properties.regsPerBlock, 65536);
    SAME(properties.maxThreadsPerMultiProcessor, 2048);
    SAME(properties.l2CacheSize, 40 << 20);
    SAME(properties.memoryBusWidth, 5120);
    SAME(properties.unifiedAddressing, 1);
    SAME(properties.concurrentKernels, 1);
    SAME(properties.integrated, 0);

    struct {
        enum cudaDeviceAttr attribute;
        int value;
    } attributes[] = {
        {cudaDevAttrMultiProcessorCount, 108},  {cudaDevAttrComputeCapabilityMajor, 8},
        {cudaDevAttrComputeCapabilityMinor, 0}, {cudaDevAttrMaxThreadsPerBlock, 1024},
        {cudaDevAttrWarpSize, 32},              {cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10},
        {cudaDevAttrClockRate, 1410000},        {cudaDevAttrGlobalMemoryBusWidth, 5120},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        SAME(cudaDeviceGetAttribute(&value, attributes[i].attribute, 1), cudaSuccess);
        SAME(value, attributes[i].value);
    }
    SAME(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)100000, 0), cudaErrorInvalidValue);

    SAME(cudaGetDevice(&current), cudaSuccess);
    SAME(current, 0);
    SAME(cudaSetDevice(1), cudaSuccess);
    SAME(cudaGetDevice(&current), cudaSuccess);
    SAME(current, 1);
    SAME(cudaSetDevice(2), cudaErrorInvalidDevice);
    SAME(cudaSetDevice(-1), cudaErrorInvalidDevice);
    SAME(cudaGetDevice(&current), cudaSuccess);
    SAME(current, 1);
    SAME(cudaDeviceCanAccessPeer(&value, 0, 1), cudaSuccess);
    SAME(value, 1);

    char first[32], second[32];
    SAME(cudaDeviceGetPCIBusId(first, sizeof first, 0), cudaSuccess);
    SAME(cudaDeviceGetPCIBusId(second, sizeof second, 1), cudaSuccess);
    EXPECT(strcmp(first, second) != 0);

    CUdevice device;
    CUcontext context = NULL;
    CUuuid uuid[2];
    char name[64];
    size_t bytes = 0;
    SAME(cuInit(0), CUDA_SUCCESS);
    SAME(cuDeviceGetCount(&count), CUDA_SUCCESS);
    SAME(count, 2);
    SAME(cuDeviceGet(&device, 1), CUDA_SUCCESS);
    SAME(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
    SAME(cuDeviceGetName(name, sizeof name, 0), CUDA_SUCCESS);
    EXPECT(strcmp(name, properties.name) == 0);
    SAME(cuDeviceTotalMem(&bytes, 0), CUDA_SUCCESS);
    SAME(bytes, 80LL << 30);
    SAME(cuDeviceGetUuid(&uuid[0], 0), CUDA_SUCCESS);
    SAME(cuDeviceGetUuid(&uuid[1], 1), CUDA_SUCCESS);
    EXPECT(memcmp(&uuid[0], &uuid[1], sizeof uuid[0]) != 0);
    EXPECT(memcmp(&uuid[0], &properties.uuid, sizeof uuid[0]) == 0);
    SAME(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    EXPECT(context != NULL);
    SAME(cuCtxSetCurrent(context), CUDA_SUCCESS);
    SAME(cuCtxGetDevice(&device), CUDA_SUCCESS);
    SAME(device, 1);
    /* An event knows its context: none has to be current. */
    CUevent event;
    SAME(cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    SAME(cuEventRecord(event, NULL), CUDA_SUCCESS);
    SAME(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    SAME(cuEventSynchronize(event), CUDA_SUCCESS);
    SAME(cuEventQuery(event), CUDA_SUCCESS);
    SAME(cuEventDestroy(event), CUDA_SUCCESS);
    SAME(cuCtxSetCurrent(context), CUDA_SUCCESS);
    /* The name without a version is that of CUDA 11's runtime. */
#undef cuDevicePrimaryCtxRelease
    CUresult cuDevicePrimaryCtxRelease(CUdevice device);
    SAME(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    /* Without a profiler there is nothing to start. */
    SAME(cuProfilerStart(), CUDA_SUCCESS);
    SAME(cuProfilerStop(), CUDA_SUCCESS);
    return failures();
}
