/* Calls whose whole effect is on the host: cuBLAS's transfers, channel formats, stream attributes, managed memory given to a
 * stream, and occupancy against NVIDIA's own arithmetic (cuda_occupancy.h). */
#include <cuda.h>
#include <cuda_occupancy.h>
#include <cuda_runtime_api.h>

#include "check.h"

enum { INVALID_VALUE = 7, MAPPING_ERROR = 11 };

int cublasCreate_v2(void **), cublasDestroy_v2(void *), cublasGetVersion_v2(void *, int *);
int cublasSetVector(int, int, const void *, int, void *, int), cublasGetVector(int, int, const void *, int, void *, int);
int cublasSetVector_64(int64_t, int64_t, const void *, int64_t, void *, int64_t);
int cublasSetMatrix(int, int, int, const void *, int, void *, int), cublasGetMatrix(int, int, int, const void *, int, void *, int);
int cublasSetVectorAsync(int, int, const void *, int, void *, int, cudaStream_t);
int cublasGetMatrixAsync(int, int, int, const void *, int, void *, int, cudaStream_t);

static void transfers(void) {
    float host[12], back[12], *device;
    cudaStream_t stream;
    for (int i = 0; i < 12; i++) host[i] = (float)i;
    SAME(cudaMalloc((void **)&device, sizeof host), cudaSuccess);
    SAME(cudaStreamCreate(&stream), cudaSuccess);

    /* Every second one of the host to every third place of the device, and back one after another. */
    SAME(cudaMemset(device, 0, sizeof host), cudaSuccess);
    SAME(cublasSetVector(4, sizeof(float), host, 2, device, 3), 0);
    SAME(cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < 12; i++) SAME(back[i], i % 3 == 0 ? i / 3 * 2 : 0);
    memset(back, 0, sizeof back);
    SAME(cublasGetVector(4, sizeof(float), device, 3, back, 1), 0);
    for (int i = 0; i < 4; i++) SAME(back[i], i * 2);
    SAME(cublasSetVector_64(3, sizeof(float), host + 5, 1, device, 1), 0);
    SAME(cudaMemcpy(back, device, 3 * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < 3; i++) SAME(back[i], 5 + i);

    /* 2 x 3 of a matrix with 4 rows into one with 2, and back into one with 3. */
    SAME(cublasSetMatrix(2, 3, sizeof(float), host, 4, device, 2), 0);
    SAME(cudaMemcpy(back, device, 6 * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
    float columns[] = {0, 1, 4, 5, 8, 9};
    for (int i = 0; i < 6; i++) SAME(back[i], columns[i]);
    memset(back, 0, sizeof back);
    SAME(cublasGetMatrixAsync(2, 3, sizeof(float), device, 2, back, 3, stream), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    float spread[] = {0, 1, 0, 4, 5, 0, 8, 9, 0};
    for (int i = 0; i < 9; i++) SAME(back[i], spread[i]);
    SAME(cublasSetVectorAsync(1, sizeof(float), host + 7, 100, device, 100, stream), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    SAME(cublasGetMatrix(1, 1, sizeof(float), device, 1, back, 1), 0);
    SAME(back[0], 7);

    SAME(cublasSetVector(4, 0, host, 1, device, 1), INVALID_VALUE);
    SAME(cublasSetVector(4, sizeof(float), host, 0, device, 1), INVALID_VALUE);
    SAME(cublasSetMatrix(2, 3, sizeof(float), host, 4, device, 0), INVALID_VALUE);
    SAME(cublasSetMatrix(-1, 3, sizeof(float), host, 4, device, 2), INVALID_VALUE);
    SAME(cublasSetVector(0, sizeof(float), host, 1, device, 1), 0);
    SAME(cublasSetVector(13, sizeof(float), host, 1, device, 1), MAPPING_ERROR); /* beyond the allocation */

    int version = 0, other = 0;
    void *handle = NULL;
    SAME(cublasGetVersion_v2(NULL, &version), 0); /* as JAX asks */
    SAME(cublasCreate_v2(&handle), 0);
    SAME(cublasGetVersion_v2(handle, &other), 0);
    SAME(version, other);
    EXPECT(version >= 12000);
    SAME(cublasDestroy_v2(handle), 0);
    SAME(cublasGetVersion_v2(handle, &other), 1);
    SAME(cudaStreamDestroy(stream), cudaSuccess);
    SAME(cudaFree(device), cudaSuccess);
}

static void stream_attributes(void) {
    cudaStream_t stream, other;
    cudaStreamAttrValue value, got;
    void *managed = NULL, *plain = NULL;
    SAME(cudaStreamCreate(&stream), cudaSuccess);
    SAME(cudaStreamCreate(&other), cudaSuccess);
    SAME(cudaStreamGetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, &got), cudaSuccess);
    SAME(got.syncPolicy, cudaSyncPolicyAuto);
    memset(&value, 0, sizeof value);
    value.syncPolicy = cudaSyncPolicyYield;
    SAME(cudaStreamSetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, &value), cudaSuccess);
    SAME(cudaStreamGetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, &got), cudaSuccess);
    SAME(got.syncPolicy, cudaSyncPolicyYield);
    SAME(cudaStreamGetAttribute(other, cudaLaunchAttributeSynchronizationPolicy, &got), cudaSuccess);
    SAME(got.syncPolicy, cudaSyncPolicyAuto);
    SAME(cudaStreamCopyAttributes(other, stream), cudaSuccess);
    SAME(cudaStreamGetAttribute(other, cudaLaunchAttributeSynchronizationPolicy, &got), cudaSuccess);
    SAME(got.syncPolicy, cudaSyncPolicyYield);

    int most = 0, priority = 7;
    SAME(cudaDeviceGetAttribute(&most, cudaDevAttrMaxAccessPolicyWindowSize, 0), cudaSuccess);
    EXPECT(most > 0);
    memset(&value, 0, sizeof value);
    value.accessPolicyWindow.num_bytes = (size_t)most;
    value.accessPolicyWindow.hitRatio = 0.5f;
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    SAME(cudaStreamSetAttribute(stream, cudaLaunchAttributeAccessPolicyWindow, &value), cudaSuccess);
    SAME(cudaStreamGetAttribute(stream, cudaLaunchAttributeAccessPolicyWindow, &got), cudaSuccess);
    SAME(got.accessPolicyWindow.num_bytes, most);
    SAME(got.accessPolicyWindow.hitProp, cudaAccessPropertyPersisting);
    value.accessPolicyWindow.num_bytes = (size_t)most + 1;
    SAME(cudaStreamSetAttribute(stream, cudaLaunchAttributeAccessPolicyWindow, &value), cudaErrorInvalidValue);
    value.accessPolicyWindow.num_bytes = 1;
    value.accessPolicyWindow.hitRatio = 1.5f;
    SAME(cudaStreamSetAttribute(stream, cudaLaunchAttributeAccessPolicyWindow, &value), cudaErrorInvalidValue);
    SAME(cudaStreamSetAttribute(stream, cudaLaunchAttributeCooperative, &value), cudaErrorInvalidValue);
    SAME(cudaStreamGetAttribute(stream, cudaLaunchAttributeCooperative, &value), cudaErrorInvalidValue);
    SAME(cudaStreamSetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, NULL), cudaErrorInvalidValue);
    memset(&value, 0, sizeof value);
    value.priority = -3;
    SAME(cudaStreamSetAttribute(stream, cudaLaunchAttributePriority, &value), cudaSuccess);
    SAME(cudaStreamGetPriority(stream, &priority), cudaSuccess);
    SAME(priority, -3);

    SAME(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal), cudaSuccess);
    SAME(cudaMalloc(&plain, 4096), cudaSuccess);
    SAME(cudaStreamAttachMemAsync(stream, managed, 0, cudaMemAttachSingle), cudaSuccess);
    SAME(cudaStreamAttachMemAsync(stream, managed, 4096, cudaMemAttachHost), cudaSuccess);
    SAME(cudaStreamAttachMemAsync(0, managed, 0, cudaMemAttachGlobal), cudaSuccess);
    SAME(cudaStreamAttachMemAsync(0, managed, 0, cudaMemAttachSingle), cudaErrorInvalidValue);
    SAME(cudaStreamAttachMemAsync(stream, managed, 8, cudaMemAttachSingle), cudaErrorInvalidValue);
    SAME(cudaStreamAttachMemAsync(stream, plain, 0, cudaMemAttachSingle), cudaErrorInvalidValue);
    SAME(cudaStreamAttachMemAsync(stream, managed, 0, 9), cudaErrorInvalidValue);
    SAME(cuStreamAttachMemAsync(stream, (CUdeviceptr)managed, 0, CU_MEM_ATTACH_SINGLE), CUDA_SUCCESS);
    SAME(cudaFree(managed), cudaSuccess);
    SAME(cudaFree(plain), cudaSuccess);
    SAME(cudaStreamDestroy(stream), cudaSuccess);
    SAME(cudaStreamDestroy(other), cudaSuccess);
}

static size_t per_thread(int threads) { return (size_t)threads * 40; }

static void occupancy(void) {
    CUmodule module;
    CUfunction function;
    struct cudaDeviceProp device;
    SAME(cuModuleLoadData(&module, "\x7f" "ELF"), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&function, module, "kernel"), CUDA_SUCCESS);
    SAME(cudaGetDeviceProperties(&device, 0), cudaSuccess);
    struct cudaOccDeviceProp properties = {
        .computeMajor = device.major,
        .computeMinor = device.minor,
        .maxThreadsPerBlock = device.maxThreadsPerBlock,
        .maxThreadsPerMultiprocessor = device.maxThreadsPerMultiProcessor,
        .regsPerBlock = device.regsPerBlock,
        .regsPerMultiprocessor = device.regsPerMultiprocessor,
        .warpSize = device.warpSize,
        .sharedMemPerBlock = device.sharedMemPerBlock,
        .sharedMemPerMultiprocessor = device.sharedMemPerMultiprocessor,
        .numSms = device.multiProcessorCount,
        .sharedMemPerBlockOptin = device.sharedMemPerBlockOptin,
        .reservedSharedMemPerBlock = device.reservedSharedMemPerBlock,
    };
    /* Registers are what the shim assumes of a kernel that it does not read. */
    struct cudaOccFuncAttributes attributes = {
        .maxThreadsPerBlock = 1024, .numRegs = 32, .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, .maxDynamicSharedSizeBytes = device.sharedMemPerBlock};
    struct cudaOccDeviceState state = {.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT};
    for (int limit = 0; limit <= 1024; limit += 37) {
        for (size_t dynamic = 0; dynamic <= 48 << 10; dynamic += 6000) {
            int grid = -1, block = -1, wanted_grid = -1, wanted_block = -1;
            attributes.maxThreadsPerBlock = limit ? limit : 1024;
            SAME(cudaOccMaxPotentialOccupancyBlockSize(&wanted_grid, &wanted_block, &properties, &attributes, &state, NULL, dynamic),
                 CUDA_OCC_SUCCESS);
            SAME(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, dynamic, limit), CUDA_SUCCESS);
            SAME(grid, wanted_grid);
            SAME(block, wanted_block);
        }
        int grid = -1, block = -1, wanted_grid = -1, wanted_block = -1;
        SAME(cudaOccMaxPotentialOccupancyBlockSize(&wanted_grid, &wanted_block, &properties, &attributes, &state, per_thread, 0), CUDA_OCC_SUCCESS);
        SAME(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function, per_thread, 0, limit, 0), CUDA_SUCCESS);
        SAME(grid, wanted_grid);
        SAME(block, wanted_block);
    }
    attributes.maxThreadsPerBlock = 1024;
    for (int threads = 32; threads <= 1024; threads += 96) {
        for (int blocks = 1; blocks * threads <= 2048 && blocks <= 32; blocks++) {
            size_t bytes = 1;
            int most = 0;
            SAME(cuOccupancyMaxActiveBlocksPerMultiprocessor(&most, function, threads, 0), CUDA_SUCCESS);
            if (most < blocks) {
                SAME(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, blocks, threads), CUDA_ERROR_INVALID_VALUE);
                continue;
            }
            /* So much that they fit, and with one step more they would not. */
            SAME(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, blocks, threads), CUDA_SUCCESS);
            SAME(cuOccupancyMaxActiveBlocksPerMultiprocessor(&most, function, threads, bytes), CUDA_SUCCESS);
            EXPECT(most >= blocks);
            if (bytes < device.sharedMemPerBlock) {
                SAME(cuOccupancyMaxActiveBlocksPerMultiprocessor(&most, function, threads, bytes + 128), CUDA_SUCCESS);
                EXPECT(most < blocks);
            }
        }
    }
    int number = 0;
    SAME(cuOccupancyMaxPotentialBlockSize(NULL, &number, function, NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuOccupancyMaxPotentialBlockSize(&number, &number, function, NULL, 0, -1), CUDA_ERROR_INVALID_VALUE);
    SAME(cuOccupancyMaxPotentialBlockSize(&number, &number, NULL, NULL, 0, 0), CUDA_ERROR_INVALID_HANDLE);
}

int main(void) {
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 16, 8, 0, cudaChannelFormatKindFloat);
    SAME(format.x, 32);
    SAME(format.y, 16);
    SAME(format.z, 8);
    SAME(format.w, 0);
    SAME(format.f, cudaChannelFormatKindFloat);
    transfers();
    stream_attributes();
    occupancy();
    return failures();
}
