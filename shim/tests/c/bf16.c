/* Products of bfloat16 by cuBLAS: Ampere has tensor cores for them, Volta and Turing compute them without (PyTorch multiplies bfloat16 on
   V100 and T4), Pascal refuses them (it gets CUBLAS_STATUS_NOT_SUPPORTED on P100). */
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "check.h"

int cublasCreate_v2(void **), cublasDestroy_v2(void *);
int cublasGemmEx(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int, int,
                 int, int);

enum { BF16 = 14, COMPUTE_32F = 68, NOT_SUPPORTED = 15 };

/* By columns: A = [1 2 3; 4 5 6], B = [7 8; 9 10; 11 12], AB = [58 64; 139 154]: all are exact in 8 bits of mantissa. */
static const float A[] = {1, 4, 2, 5, 3, 6}, B[] = {7, 9, 11, 8, 10, 12}, AB[] = {58, 139, 64, 154};

static uint16_t *upload(const float *values, int count) {
    uint16_t rounded[8], *device = NULL;
    for (int i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        rounded[i] = (uint16_t)(bits >> 16);
    }
    SAME(cudaMalloc((void **)&device, sizeof rounded), cudaSuccess);
    SAME(cudaMemcpy(device, rounded, sizeof *device * count, cudaMemcpyHostToDevice), cudaSuccess);
    return device;
}

int main(void) {
    void *handle = NULL;
    float one = 1, zero = 0;
    int major = 0;
    uint16_t *a = upload(A, 6), *b = upload(B, 6), *c = upload(B, 4), got[4];
    SAME(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
    SAME(cublasCreate_v2(&handle), 0);
    SAME(cublasGemmEx(handle, 0, 0, 2, 2, 3, &one, a, BF16, 2, b, BF16, 3, &zero, c, BF16, 2, COMPUTE_32F, -1), major < 7 ? NOT_SUPPORTED : 0);
    SAME(cudaMemcpy(got, c, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < 4 && major >= 7; i++) {
        uint32_t bits = (uint32_t)got[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        SAME(value, AB[i]);
    }
    SAME(cublasDestroy_v2(handle), 0);
    return failures();
}
