/* Virtual memory management of host memory: what may be asked for, and what a mapping is to the host, copies and CUDA. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "check.h"

static CUmemAllocationProp at(CUmemLocationType type, int id) {
    CUmemAllocationProp wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = type;
    wanted.location.id = id;
    return wanted;
}

/* As the driver's manual says of cuMemCreate; the machine has one NUMA node. */
static void requests(size_t size) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp wanted = at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 1), got;
    SAME(cuMemCreate(&handle, size, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
    wanted = at(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
    SAME(cuMemCreate(&handle, size, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
    wanted = at(CU_MEM_LOCATION_TYPE_HOST, 0);
    SAME(cuMemCreate(&handle, size / 2, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
    wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    SAME(cuMemCreate(&handle, size, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
    /* The id says nothing. */
    wanted = at(CU_MEM_LOCATION_TYPE_HOST, 77);
    SAME(cuMemCreate(&handle, size, &wanted, 0), CUDA_SUCCESS);
    SAME(cuMemGetAllocationPropertiesFromHandle(&got, handle), CUDA_SUCCESS);
    SAME(got.type, CU_MEM_ALLOCATION_TYPE_PINNED);
    SAME(got.location.type, CU_MEM_LOCATION_TYPE_HOST);
    SAME(cuMemRelease(handle), CUDA_SUCCESS);
    SAME(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

static void mappings(size_t size) {
    CUmemGenericAllocationHandle handle, same;
    CUmemAllocationProp wanted = at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), got;
    CUmemAccessDesc access[2];
    struct cudaPointerAttributes known;
    unsigned long long allowed = 0;
    size_t free_before, free_after, total;
    CUdeviceptr base;
    void *device;
    unsigned char back[64];
    access[0].location = wanted.location;
    access[1].location = at(CU_MEM_LOCATION_TYPE_DEVICE, 0).location;
    access[0].flags = access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    SAME(cudaMalloc(&device, size), cudaSuccess);
    SAME(cudaMemGetInfo(&free_before, &total), cudaSuccess);
    SAME(cuMemCreate(&handle, 2 * size, &wanted, 0), CUDA_SUCCESS);
    SAME(cudaMemGetInfo(&free_after, &total), cudaSuccess);
    SAME(free_after, free_before);
    SAME(cuMemAddressReserve(&base, 4 * size, 0, 0, 0), CUDA_SUCCESS);
    SAME(cuMemMap(base, 2 * size, 0, handle, 0), CUDA_SUCCESS);
    SAME(cuMemSetAccess(base, 2 * size, access, 2), CUDA_SUCCESS);
    SAME(cuMemGetAccess(&allowed, &access[1].location, base), CUDA_SUCCESS);
    SAME(allowed, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    SAME(cuMemGetAccess(&allowed, &access[1].location, base + 2 * size), CUDA_ERROR_INVALID_VALUE);

    /* The host writes, the device gets it and sends it back to the second half. */
    unsigned char *host = (unsigned char *)base;
    memset(host, 0x5a, size);
    SAME(cudaMemcpy(device, host, size, cudaMemcpyDefault), cudaSuccess);
    SAME(cudaMemset(device, 0x3c, 16), cudaSuccess);
    SAME(cudaMemcpy(host + size, device, size, cudaMemcpyDefault), cudaSuccess);
    SAME(host[size + 15], 0x3c);
    SAME(host[size + 16], 0x5a);
    SAME(cudaMemcpy(host + 2 * size, device, 16, cudaMemcpyDefault), cudaErrorInvalidValue);
    (void)cudaGetLastError();

    SAME(cudaPointerGetAttributes(&known, host + 5), cudaSuccess);
    SAME(known.type, cudaMemoryTypeHost);
    EXPECT(known.hostPointer == host + 5 && known.devicePointer == host + 5);
    SAME(cudaFreeHost(host), cudaErrorInvalidValue);
    (void)cudaGetLastError();

    SAME(cuMemRetainAllocationHandle(&same, host + 5), CUDA_SUCCESS);
    SAME(cuMemGetAllocationPropertiesFromHandle(&got, same), CUDA_SUCCESS);
    SAME(got.location.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
    SAME(cuMemRelease(same), CUDA_SUCCESS);

    /* What was written stays with the memory, wherever it is mapped. */
    SAME(cuMemUnmap(base, 2 * size), CUDA_SUCCESS);
    SAME(cudaMemcpy(device, host, 16, cudaMemcpyDefault), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    SAME(cuMemMap(base + 2 * size, size, size, handle, 0), CUDA_SUCCESS);
    SAME(cuMemRelease(handle), CUDA_SUCCESS);
    SAME(cudaMemcpy(back, host + 2 * size, sizeof back, cudaMemcpyDefault), cudaSuccess);
    SAME(back[15], 0x3c);
    SAME(back[16], 0x5a);
    SAME(cuMemUnmap(base + 2 * size, size), CUDA_SUCCESS);
    SAME(cuMemAddressFree(base, 4 * size), CUDA_SUCCESS);
    SAME(cudaFree(device), cudaSuccess);
}

int main(void) {
    size_t size = 0;
    CUmemAllocationProp host = at(CU_MEM_LOCATION_TYPE_HOST, 0);
    SAME(cudaFree(NULL), cudaSuccess);
    SAME(cuMemGetAllocationGranularity(&size, &host, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    EXPECT(size > 0);
    requests(size);
    mappings(size);
    return failures();
}
