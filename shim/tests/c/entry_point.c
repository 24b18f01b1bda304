/* Functions by name, and errors in words. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "check.h"

typedef CUresult (*get_count)(int *);
typedef CUresult (*allocate)(CUdeviceptr *, size_t);
typedef CUresult (*release)(CUdeviceptr);

int main(void) {
    void *function = NULL;
    CUdriverProcAddressQueryResult result;
    int count = 0;
    CUdeviceptr pointer = 0;
    SAME(cuInit(0), CUDA_SUCCESS);
    SAME(cudaFree(NULL), cudaSuccess);

    SAME(cuGetProcAddress("cuDeviceGetCount", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &result), CUDA_SUCCESS);
    EXPECT(function != NULL);
    SAME(((get_count)function)(&count), CUDA_SUCCESS);
    SAME(count, 2);

    /* The version picks the variant: cuMemAlloc means cuMemAlloc_v2 since CUDA 3.2. */
    SAME(cuGetProcAddress("cuMemAlloc", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &result), CUDA_SUCCESS);
    SAME(((allocate)function)(&pointer, 4096), CUDA_SUCCESS);
    EXPECT(pointer != 0);
    SAME(cuGetProcAddress("cuMemFree", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &result), CUDA_SUCCESS);
    SAME(((release)function)(pointer), CUDA_SUCCESS);

    function = (void *)1;
    cuGetProcAddress("cuNoSuchFunction", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &result);
    SAME(result, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT(function == NULL);

    enum cudaDriverEntryPointQueryResult found;
    SAME(cudaGetDriverEntryPointByVersion("cuDeviceGetCount", &function, 12000, cudaEnableDefault, &found), cudaSuccess);
    SAME(found, cudaDriverEntryPointSuccess);
    SAME(((get_count)function)(&count), CUDA_SUCCESS);

    const char *text = NULL;
    EXPECT(strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
    EXPECT(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
    EXPECT(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
    SAME(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
    EXPECT(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    SAME(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
    EXPECT(strcmp(text, "out of memory") == 0);
    SAME(cuGetErrorName((CUresult)123456, &text), CUDA_ERROR_INVALID_VALUE);
    return failures();
}
