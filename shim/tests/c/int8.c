/* Products of 8-bit integers, as bitsandbytes asks cuBLASLt for them: C = A^T B with 32-bit sums, or scaled back to 8 bits by one
   number or by a number per row; the same sums by cublasGemmEx. The numbers come from a triple loop over 64-bit integers here.
   Declared by hand from NVIDIA's documentation. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

int cublasCreate_v2(void **), cublasDestroy_v2(void *);
int cublasGemmEx(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int, int,
                 int, int);
int cublasLtCreate(void **), cublasLtDestroy(void *);
int cublasLtMatmulDescCreate(void **, int, int), cublasLtMatmulDescSetAttribute(void *, int, const void *, size_t);
int cublasLtMatrixLayoutCreate(void **, int, uint64_t, uint64_t, int64_t);
int cublasLtMatmul(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *, void *, void *,
                   const void *, void *, size_t, void *);

enum { I8 = 3, I32 = 10, F32 = 0, COMPUTE_32I = 72, TRANSPOSE_A = 3, POINTER_MODE = 2, VECTOR_OF_ALPHA = 3 };
enum { M = 8, N = 5, K = 12 };

static int8_t a[M * K], b[K * N]; /* A^T is stored: column i is row i of A. */
static int64_t sums[M * N];

static void *on_device(const void *data, size_t bytes) {
    void *pointer = NULL;
    SAME(cudaMalloc(&pointer, bytes), cudaSuccess);
    SAME(cudaMemcpy(pointer, data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return pointer;
}

/* cublasLtMatmul of a (stored with `rows` rows) and b. */
static int product(int scale, int out, int transposed, const void *alpha, const void *beta, int mode, const void *left, const void *right, void *c,
                   int rows) {
    static void *handle;
    void *descriptor = NULL, *of_a = NULL, *of_b = NULL, *of_c = NULL;
    if (!handle) SAME(cublasLtCreate(&handle), 0);
    SAME(cublasLtMatmulDescCreate(&descriptor, COMPUTE_32I, scale), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, TRANSPOSE_A, &transposed, sizeof transposed), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, POINTER_MODE, &mode, sizeof mode), 0);
    SAME(cublasLtMatrixLayoutCreate(&of_a, I8, transposed ? rows : M, transposed ? M : rows, transposed ? K : M), 0);
    SAME(cublasLtMatrixLayoutCreate(&of_b, I8, rows, N, K), 0);
    SAME(cublasLtMatrixLayoutCreate(&of_c, out, M, N, M), 0);
    int code = cublasLtMatmul(handle, descriptor, alpha, left, of_a, right, of_b, beta, c, of_c, c, of_c, NULL, NULL, 0, NULL);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    return code;
}

static int8_t rounded(double value) {
    volatile double shifted = value + 0x1.8p52; /* a double of that size has no fraction: to the nearest, ties to even */
    value = shifted - 0x1.8p52;
    return (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
}

int main(void) {
    srand(5);
    for (int i = 0; i < M * K; i++) a[i] = (int8_t)(rand() % 256 - 128);
    for (int i = 0; i < K * N; i++) b[i] = (int8_t)(rand() % 256 - 128);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++)
            for (int p = 0; p < K; p++) sums[j * M + i] += (int64_t)a[i * K + p] * b[j * K + p];
    void *left = on_device(a, sizeof a), *right = on_device(b, sizeof b), *c = on_device(sums, sizeof sums);
    int32_t wide[M * N];
    int8_t narrow[M * N];

    int one = 1, zero = 0, two = 2;
    SAME(product(I32, I32, 1, &one, &zero, 0, left, right, c, K), 0);
    SAME(cudaMemcpy(wide, c, sizeof wide, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < M * N; i++) SAME(wide[i], sums[i]);
    SAME(product(I32, I32, 1, &one, &two, 0, left, right, c, K), 0);
    SAME(cudaMemcpy(wide, c, sizeof wide, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < M * N; i++) SAME(wide[i], 3 * sums[i]);

    /* Back to 8 bits: halves go to the even number, and what is too large stays at the end of the range. */
    float half = 0.5f / 64, large = 4, none = 0;
    SAME(product(F32, I8, 1, &half, &none, 0, left, right, c, K), 0);
    SAME(cudaMemcpy(narrow, c, sizeof narrow, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < M * N; i++) SAME(narrow[i], rounded(half * (double)sums[i]));
    SAME(product(F32, I8, 1, &large, &none, 0, left, right, c, K), 0);
    SAME(cudaMemcpy(narrow, c, sizeof narrow, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < M * N; i++) SAME(narrow[i], rounded(large * (double)sums[i]));

    /* A factor per row, in device memory; beta is zero, wherever its pointer leads. */
    float factors[M];
    for (int i = 0; i < M; i++) factors[i] = (i % 2 ? -1.f : 1.f) / (64 << i % 3);
    float *on_rows = on_device(factors, sizeof factors);
    SAME(product(F32, I8, 1, on_rows, NULL, VECTOR_OF_ALPHA, left, right, c, K), 0);
    SAME(cudaMemcpy(narrow, c, sizeof narrow, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < M * N; i++) SAME(narrow[i], rounded(factors[i % M] * (double)sums[i]));
    SAME(product(F32, I8, 1, factors, NULL, VECTOR_OF_ALPHA, left, right, c, K), 13); /* not device memory */

    /* What tensor cores for integers do not take, NVIDIA refuses: A as it is, and sizes that are not a multiple of 4. */
    SAME(product(I32, I32, 0, &one, &zero, 0, left, right, c, K), 15);
    SAME(product(I32, I32, 1, &one, &zero, 0, left, right, c, K - 2), 15);
    /* Sums of 32 bits into 8 without a factor: not one of cuBLASLt's combinations. */
    SAME(product(I32, I8, 1, &one, &zero, 0, left, right, c, K), 15);

    void *handle = NULL;
    SAME(cublasCreate_v2(&handle), 0);
    SAME(cublasGemmEx(handle, 1, 0, M, N, K, &one, left, I8, K, right, I8, K, &zero, c, I32, M, COMPUTE_32I, -1), 0);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(cudaMemcpy(wide, c, sizeof wide, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < M * N; i++) SAME(wide[i], sums[i]);
    SAME(cublasDestroy_v2(handle), 0);

    /* Sums wrap, as 32-bit integers do: 2^17 + 4 times (-128)^2 is 2^31 + 2^16. */
    enum { LONG = (1 << 17) + 4 };
    int8_t *line = malloc(4 * LONG);
    memset(line, -128, 4 * LONG);
    void *lines = on_device(line, 4 * LONG), *descriptor = NULL, *of_a = NULL, *of_b = NULL, *of_c = NULL, *lt = NULL;
    int transposed = 1;
    SAME(cublasLtCreate(&lt), 0);
    SAME(cublasLtMatmulDescCreate(&descriptor, COMPUTE_32I, I32), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, TRANSPOSE_A, &transposed, sizeof transposed), 0);
    SAME(cublasLtMatrixLayoutCreate(&of_a, I8, LONG, 4, LONG), 0);
    SAME(cublasLtMatrixLayoutCreate(&of_b, I8, LONG, 1, LONG), 0);
    SAME(cublasLtMatrixLayoutCreate(&of_c, I32, 4, 1, 4), 0);
    SAME(cublasLtMatmul(lt, descriptor, &one, lines, of_a, lines, of_b, &zero, c, of_c, c, of_c, NULL, NULL, 0, NULL), 0);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(cudaMemcpy(wide, c, 16, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < 4; i++) SAME(wide[i], (int32_t)(uint32_t)((int64_t)LONG * 128 * 128));
    free(line);
    return failures();
}
