/* Physical memory of one process in another: this program starts itself with a descriptor of it as its argument. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static CUmemAccessDesc everything = {.location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static CUmemAllocationProp on_device(int handles) {
    CUmemAllocationProp wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wanted.requestedHandleTypes = handles;
    return wanted;
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle handle, size_t size) {
    CUdeviceptr base = 0;
    SAME(cuMemAddressReserve(&base, size, 0, 0, 0), CUDA_SUCCESS);
    SAME(cuMemMap(base, size, 0, handle, 0), CUDA_SUCCESS);
    SAME(cuMemSetAccess(base, size, &everything, 1), CUDA_SUCCESS);
    return base;
}

static size_t granularity(void) {
    size_t size = 0;
    CUmemAllocationProp wanted = on_device(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    SAME(cuMemGetAllocationGranularity(&size, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    return size;
}

static int receive(int descriptor) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp got;
    unsigned char bytes[16];
    SAME(cudaFree(NULL), cudaSuccess);
    size_t size = 2 * granularity();
    SAME(cuMemImportFromShareableHandle(&handle, (void *)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
         CUDA_ERROR_INVALID_VALUE);
    SAME(cuMemImportFromShareableHandle(&handle, (void *)(size_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
         CUDA_SUCCESS);
    /* The memory needs it no more. */
    close(descriptor);
    SAME(cuMemGetAllocationPropertiesFromHandle(&got, handle), CUDA_SUCCESS);
    SAME(got.location.id, 0);
    CUdeviceptr base = mapped(handle, size);
    SAME(cuMemcpyDtoH(bytes, base + size - 16, 16), CUDA_SUCCESS);
    SAME(bytes[3], 0x5a);
    SAME(cuMemsetD8(base, 0x77, 16), CUDA_SUCCESS);
    SAME(cuMemUnmap(base, size), CUDA_SUCCESS);
    SAME(cuMemRelease(handle), CUDA_SUCCESS);
    SAME(cuMemAddressFree(base, size), CUDA_SUCCESS);
    return failures();
}

int main(int count, char **arguments) {
    if (count == 2) return receive(atoi(arguments[1]));
    CUmemGenericAllocationHandle handle, alone;
    size_t free_before, free_now, total;
    int descriptor = -1, status = -1;
    unsigned char bytes[16];
    char text[16];
    SAME(cudaFree(NULL), cudaSuccess);
    size_t size = 2 * granularity();
    CUmemAllocationProp wanted = on_device(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), unshared = on_device(0);
    SAME(cuMemGetInfo(&free_before, &total), CUDA_SUCCESS);
    SAME(cuMemCreate(&handle, size, &wanted, 0), CUDA_SUCCESS);
    CUdeviceptr base = mapped(handle, size);
    SAME(cuMemsetD8(base, 0x5a, size), CUDA_SUCCESS);

    SAME(cuMemCreate(&alone, size, &unshared, 0), CUDA_SUCCESS);
    SAME(cuMemExportToShareableHandle(&descriptor, alone, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
         CUDA_ERROR_INVALID_VALUE);
    SAME(cuMemRelease(alone), CUDA_SUCCESS);
    SAME(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1),
         CUDA_ERROR_INVALID_VALUE);
    SAME(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
    EXPECT(descriptor > 2);
    /* It counts once, and has what was written before. */
    SAME(cuMemGetInfo(&free_now, &total), CUDA_SUCCESS);
    SAME(free_before - free_now, size);
    SAME(cuMemcpyDtoH(bytes, base + size / 2, 16), CUDA_SUCCESS);
    SAME(bytes[15], 0x5a);

    sprintf(text, "%d", dup(descriptor));
    close(descriptor);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "exported", text, NULL);
        _exit(127);
    }
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    SAME(cuMemcpyDtoH(bytes, base, 16), CUDA_SUCCESS);
    SAME(bytes[15], 0x77);
    SAME(cuMemcpyDtoH(bytes, base + 16, 16), CUDA_SUCCESS);
    SAME(bytes[0], 0x5a);

    SAME(cuMemUnmap(base, size), CUDA_SUCCESS);
    SAME(cuMemRelease(handle), CUDA_SUCCESS);
    SAME(cuMemAddressFree(base, size), CUDA_SUCCESS);
    SAME(cuMemGetInfo(&free_now, &total), CUDA_SUCCESS);
    SAME(free_now, free_before);
    return failures();
}
