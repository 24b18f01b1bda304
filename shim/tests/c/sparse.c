/* cuSPARSE's products and conversions, declared here by hand from its documentation, with numbers worked out by hand. The matrix of
 * most of them is A = [1 0 2; 0 3 0]. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>

#include "check.h"

typedef void *Handle;
int cusparseCreate(Handle *), cusparseDestroy(Handle), cusparseSetStream(Handle, cudaStream_t), cusparseSetPointerMode(Handle, int);
int cusparseCreateCsr(Handle *, int64_t, int64_t, int64_t, void *, void *, void *, int, int, int, int);
int cusparseCreateCsc(Handle *, int64_t, int64_t, int64_t, void *, void *, void *, int, int, int, int);
int cusparseCreateCoo(Handle *, int64_t, int64_t, int64_t, void *, void *, void *, int, int, int);
int cusparseDestroySpMat(Handle), cusparseSpMatGetSize(Handle, int64_t *, int64_t *, int64_t *), cusparseCsrSetPointers(Handle, void *, void *, void *);
int cusparseCreateDnVec(Handle *, int64_t, void *, int), cusparseDestroyDnVec(Handle), cusparseCreateDnMat(Handle *, int64_t, int64_t, int64_t, void *, int, int), cusparseDestroyDnMat(Handle);
int cusparseCreateSpVec(Handle *, int64_t, int64_t, void *, void *, int, int, int), cusparseDestroySpVec(Handle);
int cusparseSpMV_bufferSize(Handle, int, const void *, Handle, Handle, const void *, Handle, int, int, size_t *);
int cusparseSpMV(Handle, int, const void *, Handle, Handle, const void *, Handle, int, int, void *);
int cusparseSpMM(Handle, int, int, const void *, Handle, Handle, const void *, Handle, int, int, void *);
int cusparseSpGEMM_createDescr(Handle *), cusparseSpGEMM_destroyDescr(Handle);
int cusparseSpGEMM_compute(Handle, int, int, const void *, Handle, Handle, const void *, Handle, int, int, Handle, size_t *, void *);
int cusparseSpGEMM_copy(Handle, int, int, const void *, Handle, Handle, const void *, Handle, int, int, Handle);
int cusparseSparseToDense(Handle, Handle, Handle, int, void *), cusparseDenseToSparse_analysis(Handle, Handle, Handle, int, void *), cusparseDenseToSparse_convert(Handle, Handle, Handle, int, void *);
int cusparseCsr2cscEx2(Handle, int, int, int, void *, int *, int *, void *, int *, int *, int, int, int, int, void *);
int cusparseXcoo2csr(Handle, int *, int, int, int *, int), cusparseXcsr2coo(Handle, int *, int, int, int *, int);
int cusparseXcoosortByRow(Handle, int, int, int, int *, int *, int *, void *), cusparseXcsrsort(Handle, int, int, int, Handle, int *, int *, int *, void *);
int cusparseGather(Handle, Handle, Handle), cusparseScatter(Handle, Handle, Handle);

enum { INVALID_VALUE = 3, NOT_SUPPORTED = 10, EXECUTION_FAILED = 6, NO = 0, TRANSPOSE = 1, I32 = 2, I64 = 3, R_32F = 0, R_64F = 1, R_16F = 2, COLUMNS = 1, ROWS = 2 };

static Handle handle;

static void *device(const void *from, size_t bytes) {
    void *to = NULL;
    SAME(cudaMalloc(&to, bytes), 0);
    SAME(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), 0);
    return to;
}
#define DEVICE(...) device((__VA_ARGS__), sizeof(__VA_ARGS__))

static void numbers(const void *at, const double *wanted, int count) {
    double got[16];
    SAME(cudaMemcpy(got, at, (size_t)count * sizeof *got, cudaMemcpyDeviceToHost), 0);
    for (int index = 0; index < count; index++) EXPECT(fabs(got[index] - wanted[index]) < 1e-12);
}
static void integers(const void *at, const int *wanted, int count) {
    int got[16];
    SAME(cudaMemcpy(got, at, (size_t)count * sizeof *got, cudaMemcpyDeviceToHost), 0);
    for (int index = 0; index < count; index++) SAME(got[index], wanted[index]);
}
#define NUMBERS(at, ...) numbers(at, (const double[])__VA_ARGS__, sizeof((const double[])__VA_ARGS__) / sizeof(double))
#define INTEGERS(at, ...) integers(at, (const int[])__VA_ARGS__, sizeof((const int[])__VA_ARGS__) / sizeof(int))

static void with_vectors(Handle a) {
    double one = 1, two = 2, zero = 0;
    void *x_at = DEVICE((double[]){1, 10, 100}), *y_at = DEVICE((double[]){5, NAN});
    Handle x, y;
    size_t bytes = 0;
    SAME(cusparseCreateDnVec(&x, 3, x_at, R_64F), 0);
    SAME(cusparseCreateDnVec(&y, 2, y_at, R_64F), 0);
    SAME(cusparseSpMV_bufferSize(handle, NO, &one, a, x, &zero, y, R_64F, 0, &bytes), 0);
    EXPECT(bytes > 0);
    /* Beta 0 does not look at what was there. */
    SAME(cusparseSpMV(handle, NO, &one, a, x, &zero, y, R_64F, 0, NULL), 0);
    NUMBERS(y_at, {201, 30});
    SAME(cusparseSpMV(handle, NO, &two, a, x, &one, y, R_64F, 0, NULL), 0);
    NUMBERS(y_at, {603, 90});
    /* A^T (603, 90). */
    SAME(cusparseSpMV(handle, TRANSPOSE, &one, a, y, &zero, x, R_64F, 0, NULL), 0);
    NUMBERS(x_at, {603, 270, 1206});
    SAME(cusparseSpMV(handle, TRANSPOSE, &one, a, x, &zero, y, R_64F, 0, NULL), INVALID_VALUE);
    SAME(cusparseSpMV(handle, NO, &one, a, x, &zero, y, R_32F, 0, NULL), NOT_SUPPORTED);
    SAME(cusparseSpMV(handle, 3, &one, a, x, &zero, y, R_64F, 0, NULL), INVALID_VALUE);
    SAME(cusparseDestroyDnVec(x), 0);
    SAME(cusparseSpMV(handle, NO, &one, a, x, &zero, y, R_64F, 0, NULL), INVALID_VALUE);
    SAME(cusparseDestroyDnVec(y), 0);
}

/* A times [1 4; 2 5; 3 6] is [7 16; 6 15]. */
static void with_matrices(Handle a) {
    double scales[] = {1, 0};
    double *scale = DEVICE(scales);
    void *by_columns = DEVICE((double[]){1, 2, 3, 4, 5, 6}), *by_rows = DEVICE((double[]){1, 4, 2, 5, 3, 6});
    void *to = DEVICE((double[]){9, 9, 9, 9, 9, 9});
    Handle b, c;
    for (int order = COLUMNS; order <= ROWS; order++) {
        SAME(cusparseCreateDnMat(&b, 3, 2, order == ROWS ? 2 : 3, order == ROWS ? by_rows : by_columns, R_64F, order), 0);
        SAME(cusparseCreateDnMat(&c, 2, 2, 3, to, R_64F, order), 0);
        SAME(cusparseSetPointerMode(handle, order == ROWS), 0);
        double *from = order == ROWS ? scale : scales;
        SAME(cusparseSpMM(handle, NO, NO, from, a, b, from + 1, c, R_64F, 0, NULL), 0);
        if (order == ROWS)
            NUMBERS(to, {7, 16, 9, 6, 15, 9});
        else
            NUMBERS(to, {7, 6, 9, 16, 15, 9});
        SAME(cusparseSpMM(handle, TRANSPOSE, NO, from, a, b, from + 1, c, R_64F, 0, NULL), INVALID_VALUE);
        SAME(cusparseDestroyDnMat(b), 0);
        SAME(cusparseDestroyDnMat(c), 0);
    }
    SAME(cusparseSetPointerMode(handle, 0), 0);
}

/* A A^T is [5 0; 0 9], of which two numbers are stored. */
static void with_sparse(Handle a) {
    double one = 1, zero = 0;
    Handle turned, c, descriptor;
    int64_t rows, columns, nonzeros;
    size_t bytes = 0;
    int *starts = DEVICE((int[]){0, 0, 0});
    SAME(cusparseCreateCsr(&turned, 3, 2, 3, DEVICE((int[]){0, 1, 2, 3}), DEVICE((int[]){0, 1, 0}), DEVICE((double[]){1, 3, 2}), I32, I32, 0, R_64F), 0);
    SAME(cusparseCreateCsr(&c, 2, 2, 0, NULL, NULL, NULL, I32, I32, 0, R_64F), 0);
    SAME(cusparseSpGEMM_createDescr(&descriptor), 0);
    SAME(cusparseSpGEMM_copy(handle, NO, NO, &one, a, turned, &zero, c, R_64F, 0, descriptor), INVALID_VALUE);
    SAME(cusparseSpGEMM_compute(handle, NO, NO, &one, a, turned, &zero, c, R_64F, 0, descriptor, &bytes, NULL), 0);
    EXPECT(bytes > 0);
    SAME(cusparseSpGEMM_compute(handle, NO, NO, &one, a, turned, &zero, c, R_64F, 0, descriptor, &bytes, starts), 0);
    SAME(cusparseSpMatGetSize(c, &rows, &columns, &nonzeros), 0);
    EXPECT(rows == 2 && columns == 2 && nonzeros == 2);
    int *indices = DEVICE((int[]){7, 7});
    double *values = DEVICE((double[]){7, 7});
    SAME(cusparseCsrSetPointers(c, starts, indices, values), 0);
    SAME(cusparseSpGEMM_copy(handle, NO, NO, &one, a, turned, &zero, c, R_64F, 0, descriptor), 0);
    INTEGERS(starts, {0, 1, 2});
    INTEGERS(indices, {0, 1});
    NUMBERS(values, {5, 9});
    SAME(cusparseSpGEMM_compute(handle, NO, NO, &one, a, a, &zero, c, R_64F, 0, descriptor, &bytes, starts), INVALID_VALUE);
    SAME(cusparseSpGEMM_destroyDescr(descriptor), 0);
    SAME(cusparseDestroySpMat(turned), 0);
    SAME(cusparseDestroySpMat(c), 0);
}

static void formats(Handle a) {
    Handle dense, csc, coo, wrong;
    int64_t rows, columns, nonzeros;
    void *to = DEVICE((double[]){9, 9, 9, 9, 9, 9});
    SAME(cusparseCreateDnMat(&dense, 2, 3, 2, to, R_64F, COLUMNS), 0);
    SAME(cusparseSparseToDense(handle, a, dense, 0, NULL), 0);
    NUMBERS(to, {1, 0, 0, 3, 2, 0});
    /* From 1, and with indices of 64 bits. */
    int64_t wide[4];
    void *starts = DEVICE((int[]){7, 7, 7, 7}), *indices = DEVICE((int[]){7, 7, 7}), *values = DEVICE((double[]){7, 7, 7});
    void *wide_rows = DEVICE((int64_t[]){7, 7, 7}), *wide_columns = DEVICE((int64_t[]){7, 7, 7});
    SAME(cusparseCreateCsc(&csc, 2, 3, 3, starts, indices, values, I32, I32, 1, R_64F), 0);
    SAME(cusparseDenseToSparse_analysis(handle, dense, csc, 0, NULL), 0);
    SAME(cusparseSpMatGetSize(csc, &rows, &columns, &nonzeros), 0);
    EXPECT(nonzeros == 3);
    SAME(cusparseDenseToSparse_convert(handle, dense, csc, 0, NULL), 0);
    INTEGERS(starts, {1, 2, 3, 4});
    INTEGERS(indices, {1, 2, 1});
    NUMBERS(values, {1, 3, 2});
    SAME(cusparseCreateCoo(&coo, 2, 3, 3, wide_rows, wide_columns, values, I64, 0, R_64F), 0);
    SAME(cusparseDenseToSparse_convert(handle, dense, coo, 0, NULL), 0);
    SAME(cudaMemcpy(wide, wide_columns, 24, cudaMemcpyDeviceToHost), 0);
    EXPECT(wide[0] == 0 && wide[1] == 2 && wide[2] == 1);
    NUMBERS(values, {1, 2, 3});
    SAME(cusparseSparseToDense(handle, coo, dense, 0, NULL), 0);
    NUMBERS(to, {1, 0, 0, 3, 2, 0});
    SAME(cusparseCreateCsr(&wrong, 2, 3, 3, starts, indices, values, I32, I32, 2, R_64F), INVALID_VALUE);
    SAME(cusparseCreateCsr(&wrong, 2, 3, -3, starts, indices, values, I32, I32, 0, R_64F), INVALID_VALUE);
    SAME(cusparseCreateCsr(&wrong, 2, 3, 3, starts, indices, values, I32, I32, 0, R_16F), NOT_SUPPORTED);
    SAME(cusparseDestroyDnMat(dense), 0);
    SAME(cusparseDestroySpMat(csc), 0);
    SAME(cusparseDestroySpMat(coo), 0);
}

static void arrays(void) {
    int *starts = DEVICE((int[]){0, 2, 3}), *columns = DEVICE((int[]){0, 2, 1}), *to = DEVICE((int[]){7, 7, 7, 7}), *rows = DEVICE((int[]){7, 7, 7});
    double *values = DEVICE((double[]){1, 2, 3}), *moved = DEVICE((double[]){7, 7, 7});
    SAME(cusparseCsr2cscEx2(handle, 2, 3, 3, values, starts, columns, moved, to, rows, R_64F, 1, 0, 1, NULL), 0);
    INTEGERS(to, {0, 1, 2, 3});
    INTEGERS(rows, {0, 1, 0});
    NUMBERS(moved, {1, 3, 2});
    SAME(cusparseXcsr2coo(handle, starts, 3, 2, rows, 0), 0);
    INTEGERS(rows, {0, 0, 1});
    SAME(cusparseXcoo2csr(handle, rows, 3, 2, to, 0), 0);
    INTEGERS(to, {0, 2, 3, 3});
    int *unsorted = DEVICE((int[]){2, 0, 2}), *beside = DEVICE((int[]){1, 3, 0}), *order = DEVICE((int[]){0, 1, 2});
    SAME(cusparseXcoosortByRow(handle, 3, 4, 3, unsorted, beside, order, NULL), 0);
    INTEGERS(unsorted, {0, 2, 2});
    INTEGERS(beside, {3, 0, 1});
    INTEGERS(order, {1, 2, 0});
    int *mixed = DEVICE((int[]){2, 0, 1});
    SAME(cusparseXcsrsort(handle, 2, 3, 3, NULL, starts, mixed, NULL, NULL), 0);
    INTEGERS(mixed, {0, 2, 1});
    SAME(cusparseXcoo2csr(handle, rows, -1, 2, to, 0), INVALID_VALUE);
    SAME(cusparseXcoo2csr(handle, NULL, 3, 2, to, 0), EXECUTION_FAILED);

    Handle dense, sparse;
    double *whole = DEVICE((double[]){10, 20, 30, 40}), *few = DEVICE((double[]){7, 7});
    SAME(cusparseCreateDnVec(&dense, 4, whole, R_64F), 0);
    SAME(cusparseCreateSpVec(&sparse, 4, 2, DEVICE((int[]){3, 1}), few, I32, 0, R_64F), 0);
    SAME(cusparseGather(handle, dense, sparse), 0);
    NUMBERS(few, {40, 20});
    SAME(cudaMemcpy(few, (double[]){-1, -2}, 16, cudaMemcpyHostToDevice), 0);
    SAME(cusparseScatter(handle, sparse, dense), 0);
    NUMBERS(whole, {10, -2, 30, -1});
    SAME(cusparseDestroyDnVec(dense), 0);
    SAME(cusparseDestroySpVec(sparse), 0);
}

int main(void) {
    Handle a;
    cudaStream_t stream;
    SAME(cudaStreamCreate(&stream), 0);
    SAME(cusparseCreate(&handle), 0);
    SAME(cusparseSetStream(handle, stream), 0);
    SAME(cusparseCreateCsr(&a, 2, 3, 3, DEVICE((int[]){0, 2, 3}), DEVICE((int[]){0, 2, 1}), DEVICE((double[]){1, 2, 3}), I32, I32, 0, R_64F), 0);
    with_vectors(a);
    with_matrices(a);
    with_sparse(a);
    formats(a);
    arrays();
    SAME(cusparseDestroySpMat(a), 0);
    SAME(cusparseDestroy(handle), 0);
    return failures();
}
