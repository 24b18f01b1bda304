/* cuBLASLt's epilogues by hand: the identity times B = [1 -2; 3 -4], so that D is what the epilogue makes of B. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>

#include "check.h"

int cublasLtCreate(void **), cublasLtMatmulDescCreate(void **, int, int), cublasLtMatrixLayoutCreate(void **, int, uint64_t, uint64_t, int64_t);
int cublasLtMatmulDescSetAttribute(void *, int, const void *, size_t);
int cublasLtMatmul(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *, void *, void *,
                   const void *, void *, size_t, cudaStream_t);

int cublasLtMatmulAlgoGetHeuristic(void *, void *, void *, void *, void *, void *, void *, int, void *, int *);

static void *lt, *plain, *eights;
static float *a, *b, *d, *bias, *aux;

static void *device(const void *data, size_t bytes) {
    void *pointer = NULL;
    SAME(cudaMalloc(&pointer, bytes), cudaSuccess);
    SAME(cudaMemcpy(pointer, data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return pointer;
}

static void same(int line, const float *at, int count, const float *wanted) {
    float got[8] = {0};
    SAME(cudaMemcpy(got, at, sizeof *got * count, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < count; i++)
        if (!(fabsf(got[i] - wanted[i]) < 1e-5f)) failed++, fprintf(stderr, "line %d: element %d is %g, not %g\n", line, i, got[i], wanted[i]);
}

static void run(int epilogue, int64_t leading) {
    float one = 1, zero = 0;
    void *descriptor = NULL;
    SAME(cublasLtMatmulDescCreate(&descriptor, 68, 0), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 7, &epilogue, 4), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 8, &bias, 8), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 11, &aux, 8), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 12, &leading, 8), 0);
    SAME(cublasLtMatmul(lt, descriptor, &one, a, plain, b, plain, &zero, d, plain, d, plain, NULL, NULL, 0, 0), 0);
}

/* A product is planned before its bias and auxiliary matrix have addresses, as XLA does. */
static void plan(int epilogue, int64_t leading) {
    char result[96];
    int found = 0;
    void *descriptor = NULL;
    SAME(cublasLtMatmulDescCreate(&descriptor, 68, 0), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 7, &epilogue, 4), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 12, &leading, 8), 0);
    SAME(cublasLtMatmulAlgoGetHeuristic(lt, descriptor, plain, plain, plain, plain, NULL, 1, result, &found), 0);
    SAME(found, 1);
}

#define D(...) same(__LINE__, d, 4, (float[]){__VA_ARGS__})
#define BIAS(...) same(__LINE__, bias, 2, (float[]){__VA_ARGS__})

int main(void) {
    const float identity[] = {1, 0, 0, 1}, numbers[] = {1, 3, -2, -4}, rows[] = {1, 5}, nothing[64] = {0};
    SAME(cublasLtCreate(&lt), 0);
    SAME(cublasLtMatrixLayoutCreate(&plain, 0, 2, 2, 2), 0);
    a = device(identity, 16), b = device(numbers, 16), d = device(nothing, 16), bias = device(rows, 8), aux = device(nothing, 256);
    plan(2 | 128 | 4, 128);
    run(2 | 128 | 4, 128); /* ReLU, its bits and a bias: 2 8; -1 1 */
    D(2, 8, 0, 1);
    unsigned char bits[32];
    SAME(cudaMemcpy(bits, aux, sizeof bits, cudaMemcpyDeviceToHost), cudaSuccess);
    SAME(bits[0], 3);
    SAME(bits[16], 2);
    run(8 | 128 | 16, 128); /* the gradient by these bits, and the sums of its rows */
    D(1, 3, 0, -4);
    BIAS(1, -1);
    run(32 | 128, 2); /* GELU keeps B; x = 1: 0.841192, 3: 2.996363, -2: -0.045402, -4: -0.000070 */
    D(0.841192f, 2.996363f, -0.045402f, -0.000070f);
    same(__LINE__, aux, 4, numbers);
    run(64 | 128, 2); /* times the slope there, by central differences: 1.082964, 1.011584, -0.086099, -0.000335 */
    D(1.082964f, 3 * 1.011584f, -2 * -0.086099f, -4 * -0.000335f);
    run(256, 2); /* sums of A's rows */
    BIAS(1, 1);
    run(512, 2); /* sums of B's columns */
    BIAS(4, -6);
    /* e4m3 by scales 2 and 4: 8 times B; the largest is 32 before D's scale of 0.5. */
    unsigned char one8[] = {0x38, 0, 0, 0x38}, b8[] = {0x38, 0x44, 0xc0, 0xc8};
    float scales[] = {2, 4, 0.5f, 0}, alpha = 1, beta = 0, largest = 0;
    float *s = device(scales, sizeof scales);
    void *descriptor = NULL, *a8 = device(one8, 4), *b8s = device(b8, 4);
    SAME(cublasLtMatrixLayoutCreate(&eights, 28, 2, 2, 2), 0);
    SAME(cublasLtMatmulDescCreate(&descriptor, 68, 0), 0);
    int transposed = 1;
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 3, &transposed, 4), 0);
    const int attributes[] = {17, 18, 20, 21};
    for (int i = 0; i < 4; i++) {
        float *at = s + i;
        SAME(cublasLtMatmulDescSetAttribute(descriptor, attributes[i], &at, 8), 0);
    }
    SAME(cublasLtMatmul(lt, descriptor, &alpha, a8, eights, b8s, eights, &beta, d, plain, d, plain, NULL, NULL, 0, 0), 0);
    D(4, 12, -8, -16);
    SAME(cudaMemcpy(&largest, s + 3, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(largest == 32);
    return failures();
}
