/* cuBLAS products: the numbers of a 2x3 times 3x2 on paper, in every call that computes one; transposition, beta, batches,
   scalars in device memory, and what is refused. Declared by hand from NVIDIA's documentation. */
#include <cuda_runtime_api.h>

#include "check.h"

int cublasCreate_v2(void **), cublasDestroy_v2(void *), cublasSetPointerMode_v2(void *, int), cublasSetStream_v2(void *, void *);
int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);
int cublasDgemm_v2(void *, int, int, int, int, int, const double *, const double *, int, const double *, int, const double *, double *, int);
int cublasSgemmStridedBatched(void *, int, int, int, int, int, const float *, const float *, int, long long, const float *, int, long long,
                              const float *, float *, int, long long, int);
int cublasGemmEx(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, const void *, void *, int, int,
                 int, int);
int cublasSgemv_v2(void *, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);

/* By columns: A = [1 2 3; 4 5 6], B = [7 8; 9 10; 11 12], AB = [58 64; 139 154]. */
static const float A[] = {1, 4, 2, 5, 3, 6}, A_TRANSPOSED[] = {1, 2, 3, 4, 5, 6}, B[] = {7, 9, 11, 8, 10, 12};
static const float AB[] = {58, 139, 64, 154};

static void *upload(const void *data, size_t bytes) {
    void *pointer = NULL;
    SAME(cudaMalloc(&pointer, bytes), cudaSuccess);
    SAME(cudaMemcpy(pointer, data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return pointer;
}

static void same(const float *device, const float *wanted, int count, int line) {
    float got[16] = {0};
    SAME(cudaMemcpy(got, device, sizeof *got * count, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < count; i++) {
        if (got[i] != wanted[i]) {
            failed++;
            fprintf(stderr, "line %d: element %d is %g, not %g\n", line, i, got[i], wanted[i]);
        }
    }
}

int main(void) {
    void *handle = NULL;
    cudaStream_t stream;
    float one = 1, zero = 0, two = 2, nothing[8];
    memset(nothing, 0xff, sizeof nothing); /* NaN: C is not read where beta is 0. */
    SAME(cublasCreate_v2(&handle), 0);
    SAME(cudaStreamCreate(&stream), cudaSuccess);
    SAME(cublasSetStream_v2(handle, stream), 0);
    float *a = upload(A, sizeof A), *at = upload(A_TRANSPOSED, sizeof A), *b = upload(B, sizeof B), *c = upload(nothing, sizeof nothing);

    SAME(cublasSgemm_v2(handle, 0, 0, 2, 2, 3, &one, a, 2, b, 3, &zero, c, 2), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    same(c, AB, 4, __LINE__);
    SAME(cublasSgemm_v2(handle, 1, 0, 2, 2, 3, &one, at, 3, b, 3, &two, c, 2), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    same(c, (float[]){174, 417, 192, 462}, 4, __LINE__);
    SAME(cublasGemmEx(handle, 0, 0, 2, 2, 3, &one, a, 0, 2, b, 0, 3, &zero, c, 0, 2, 68, -1), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    same(c, AB, 4, __LINE__);

    /* The same A for both, B and then B again from its start. */
    SAME(cublasSgemmStridedBatched(handle, 0, 0, 2, 2, 3, &one, a, 2, 0, b, 3, 0, &zero, c, 2, 4, 2), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    same(c, AB, 4, __LINE__);
    same(c + 4, AB, 4, __LINE__);

    /* A times (7 9 11), and A's transpose times (58 139), with gaps between the elements of the result. */
    SAME(cublasSgemv_v2(handle, 0, 2, 3, &one, a, 2, b, 1, &zero, c, 1), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    same(c, (float[]){58, 139}, 2, __LINE__);
    SAME(cudaMemset(c + 2, 0, 5 * sizeof *c), cudaSuccess);
    SAME(cublasSgemv_v2(handle, 1, 2, 3, &one, a, 2, c, 1, &zero, c + 2, 2), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    same(c + 2, (float[]){614, 0, 811, 0, 1008}, 5, __LINE__);
    SAME(cublasSgemv_v2(handle, 0, 2, 3, &one, a, 2, b, 0, &zero, c, 1), 7);

    /* Scalars in device memory. */
    float *scalars = upload((float[]){2, 0}, 8);
    SAME(cublasSetPointerMode_v2(handle, 1), 0);
    SAME(cublasSgemm_v2(handle, 0, 0, 2, 2, 3, scalars, a, 2, b, 3, scalars + 1, c, 2), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    same(c, (float[]){116, 278, 128, 308}, 4, __LINE__);
    SAME(cublasSetPointerMode_v2(handle, 0), 0);

    double one64 = 1, zero64 = 0, result = 0, third[] = {1.0 / 3};
    double *x = upload(third, 8), *y = upload(&one64, 8);
    SAME(cublasDgemm_v2(handle, 0, 0, 1, 1, 1, &one64, x, 1, x, 1, &zero64, y, 1), 0);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    SAME(cudaMemcpy(&result, y, 8, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(result == third[0] * third[0]);

    SAME(cublasSgemm_v2(handle, 0, 0, 2, 2, 3, &one, a, 1, b, 3, &zero, c, 2), 7);  /* lda < m */
    SAME(cublasSgemm_v2(handle, 0, 0, -1, 2, 3, &one, a, 2, b, 3, &zero, c, 2), 7);
    SAME(cublasSgemm_v2(handle, 0, 0, 2, 2, 3, NULL, a, 2, b, 3, &zero, c, 2), 7);
    SAME(cublasSgemm_v2(handle, 9, 0, 2, 2, 3, &one, a, 2, b, 3, &zero, c, 2), 7);
    SAME(cublasSgemm_v2(handle, 0, 0, 2, 2, 3, &one, nothing, 2, b, 3, &zero, c, 2), 13); /* not device memory */
    SAME(cublasSgemm_v2(handle, 0, 0, 2, 2, 3, &one, a, 1 << 20, b, 3, &zero, c, 2), 13); /* leaves its allocation */
    SAME(cublasGemmEx(handle, 0, 0, 2, 2, 3, &one, a, 8, 2, b, 8, 3, &zero, c, 8, 2, 68, -1), 15); /* unsigned: a gap */
    SAME(cublasGemmEx(handle, 0, 0, 2, 2, 3, &one, a, 3, 2, b, 3, 3, &zero, c, 1, 2, 68, -1), 15); /* int8 to f64: a gap */
    SAME(cublasDestroy_v2(handle), 0);
    return failures();
}
