/* cuBLAS against plain loops written here in double precision: products of every type, transposition, leading dimension and
   batch, of random sizes; gemv and ger; the vectors of level 1 in both pointer modes; and numbers worked out by hand. The
   functions are declared from NVIDIA's documentation. */
#include <math.h>
#include <stdint.h>

#include "blas.h"

int cublasCreate_v2(Handle *), cublasDestroy_v2(Handle), cublasSetPointerMode_v2(Handle, int);
int cublasSaxpy_v2(Handle, int, const float *, const float *, int, float *, int), cublasIsamax_v2(Handle, int, const float *, int, int *);
int cublasIdamin_v2_64(Handle, int64_t, const double *, int64_t, int64_t *);
int cublasZdotc_v2(Handle, int, const void *, int, const void *, int, void *), cublasZdotu_v2(Handle, int, const void *, int, const void *, int, void *);
int cublasDnrm2_v2(Handle, int, const double *, int, double *), cublasDzasum_v2(Handle, int, const void *, int, double *);
int cublasZdscal_v2(Handle, int, const double *, void *, int), cublasDrotg_v2(Handle, double *, double *, double *, double *);
int cublasDrot_v2(Handle, int, double *, int, double *, int, const double *, const double *);
int cublasDswap_v2(Handle, int, double *, int, double *, int), cublasDcopy_v2(Handle, int, const double *, int, double *, int);
int cublasDrotm_v2(Handle, int, double *, int, double *, int, const double *);
int cublasDrotmg_v2(Handle, double *, double *, double *, const double *, double *);
int cublasDotEx(Handle, int, const void *, int, int, const void *, int, int, void *, int, int);
typedef int Gemm(Handle, int, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
Gemm cublasSgemm_v2, cublasDgemm_v2, cublasCgemm_v2, cublasZgemm_v2;
int cublasZgemm_v2_64(Handle, int, int, int64_t, int64_t, int64_t, const void *, const void *, int64_t, const void *, int64_t, const void *, void *, int64_t);
typedef int Gemv(Handle, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
Gemv cublasSgemv_v2, cublasDgemv_v2, cublasCgemv_v2, cublasZgemv_v2;
int cublasZgerc_v2(Handle, int, int, const void *, const void *, int, const void *, int, void *, int);
int cublasDgemmBatched(Handle, int, int, int, int, int, const double *, double *const[], int, double *const[], int, const double *, double *const[], int, int);
int cublasDgemmGroupedBatched(Handle, const int[], const int[], const int[], const int[], const int[], const double[], double *const[],
                              const int[], double *const[], const int[], const double[], double *const[], const int[], int, const int[]);
int cublasZgemmStridedBatched(Handle, int, int, int, int, int, const void *, const void *, int, long long, const void *, int, long long,
                              const void *, void *, int, long long, int);

static void products(Handle handle) {
    static Gemm *const GEMM[] = {cublasSgemm_v2, cublasDgemm_v2, cublasCgemm_v2, cublasZgemm_v2};
    for (int round = 0; round < 160; round++) {
        int type = round % 4, left = below(3), right = below(3), m = 1 + below(40), n = 1 + below(40), k = below(round == 9 ? 900 : 50);
        int lda = (left ? k : m) + 1 + below(5), ldb = (right ? n : k) + 1 + below(5), ldc = m + below(5), wide = round % 8 == 7;
        int a_columns = left ? m : k, b_columns = right ? k : n;
        void *a = numbers(type, lda * a_columns + 1), *b = numbers(type, ldb * b_columns + 1), *c = numbers(type, ldc * n);
        double complex scalars[2];
        put(type, &scalars[0], 0, next() + next() * I);
        put(type, &scalars[1], 0, round % 3 ? next() + next() * I : 0);
        void *da = device(a, SIZE[type] * (lda * a_columns + 1)), *db = device(b, SIZE[type] * (ldb * b_columns + 1));
        void *dc = device(c, SIZE[type] * ldc * n), *got = malloc(SIZE[type] * ldc * n);
        if (wide && type == Z)
            SAME(cublasZgemm_v2_64(handle, left, right, m, n, k, &scalars[0], da, lda, db, ldb, &scalars[1], dc, ldc), 0);
        else
            SAME(GEMM[type](handle, left, right, m, n, k, &scalars[0], da, lda, db, ldb, &scalars[1], dc, ldc), 0);
        SAME(cudaMemcpy(got, dc, SIZE[type] * ldc * n, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < ldc; i++) {
                double complex sum = 0, before = get(type, c, j * ldc + i);
                for (int p = 0; p < k && i < m; p++) sum += element(type, a, lda, left, i, p) * element(type, b, ldb, right, p, j);
                double complex wanted = get(type, scalars, 0) * sum + get(type, &scalars[1], 0) * before;
                near(type, get(type, got, j * ldc + i), i < m ? wanted : before, k + 4, __LINE__);
            }
        }
        cudaFree(da), cudaFree(db), cudaFree(dc), free(a), free(b), free(c), free(got);
    }
}

static void vectors_by_matrices(Handle handle) {
    static Gemv *const GEMV[] = {cublasSgemv_v2, cublasDgemv_v2, cublasCgemv_v2, cublasZgemv_v2};
    for (int round = 0; round < 80; round++) {
        int type = round % 4, operation = below(3), m = 1 + below(30), n = 1 + below(30), lda = m + below(4);
        int sx = (1 + below(3)) * (round & 8 ? -1 : 1), sy = (1 + below(3)) * (round & 16 ? -1 : 1);
        int inner = operation ? m : n, outer = operation ? n : m, ax = abs(sx), ay = abs(sy);
        void *a = numbers(type, lda * n), *x = numbers(type, inner * ax), *y = numbers(type, outer * ay), *got = malloc(SIZE[type] * outer * ay);
        double complex scalars[2];
        put(type, &scalars[0], 0, next() + next() * I);
        put(type, &scalars[1], 0, round % 3 ? next() + next() * I : 0);
        void *da = device(a, SIZE[type] * lda * n), *dx = device(x, SIZE[type] * inner * ax), *dy = device(y, SIZE[type] * outer * ay);
        SAME(GEMV[type](handle, operation, m, n, &scalars[0], da, lda, dx, sx, &scalars[1], dy, sy), 0);
        SAME(cudaMemcpy(got, dy, SIZE[type] * outer * ay, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int i = 0; i < outer; i++) {
            double complex sum = 0;
            for (int p = 0; p < inner; p++)
                sum += element(type, a, lda, operation, i, p) * get(type, x, sx > 0 ? p * sx : (inner - 1 - p) * ax);
            int at = sy > 0 ? i * sy : (outer - 1 - i) * ay;
            double complex wanted = get(type, scalars, 0) * sum + get(type, &scalars[1], 0) * get(type, y, at);
            near(type, get(type, got, at), wanted, inner + 4, __LINE__);
        }
        cudaFree(da), cudaFree(dx), cudaFree(dy), free(a), free(x), free(y), free(got);
    }
    /* A = 2 x conj(y)^T on paper: x = (1, i), y = (i): conj(i) = -i. */
    double complex x[] = {1, I}, y[] = {I}, zero[] = {0, 0}, two = 2, got[2];
    void *dx = device(x, sizeof x), *dy = device(y, sizeof y), *da = device(zero, sizeof zero);
    SAME(cublasZgerc_v2(handle, 2, 1, &two, dx, 1, dy, 1, da, 2), 0);
    SAME(cudaMemcpy(got, da, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == -2 * I && got[1] == 2);
    SAME(cublasZgerc_v2(handle, 2, 1, &two, dx, 1, dy, 1, da, 1), 7);
    SAME(cublasZgerc_v2(handle, 2, 1, &two, dx, 0, dy, 1, da, 2), 7);
}

static void batches(Handle handle) {
    /* Two products by pointers, and two groups, one of 1x1 and one of 2x2. */
    double one = 1, zero = 0, got[4], data[] = {1, 2, 3, 4, 5, 6, 7, 8};
    double *m = device(data, sizeof data), *out = device(data, sizeof data);
    double *lists[][2] = {{m, m + 4}, {m + 4, m}, {out, out + 4}};
    double **a = device(lists[0], 16), **b = device(lists[1], 16), **c = device(lists[2], 16);
    SAME(cublasDgemmBatched(handle, 0, 0, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2, 2), 0);
    SAME(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    /* [1 3; 2 4] [5 7; 6 8] = [23 31; 34 46]; [5 7; 6 8] [1 3; 2 4] = [19 43; 22 50]. */
    EXPECT(got[0] == 23 && got[1] == 34 && got[2] == 31 && got[3] == 46);
    SAME(cudaMemcpy(got, out + 4, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 19 && got[1] == 22 && got[2] == 43 && got[3] == 50);
    SAME(cublasDgemmBatched(handle, 0, 0, 2, 2, 2, &one, a, 1, b, 2, &zero, c, 2, 2), 7);
    SAME(cublasDgemmBatched(handle, 0, 0, 2, 2, 2, &one, a, 2, b, 2, &zero, c, 2, -1), 7);
    const int no[] = {0, 0}, size[] = {1, 2}, count[] = {1, 1};
    const double ones[] = {1, 2}, zeros[] = {0, 0};
    SAME(cublasDgemmGroupedBatched(handle, no, no, size, size, size, ones, a, size, b, size, zeros, c, size, 2, count), 0);
    SAME(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 5 && got[1] == 34);
    SAME(cudaMemcpy(got, out + 4, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 38 && got[1] == 44 && got[2] == 86 && got[3] == 100);
    /* i i = -1, and conj(i) i = 1 with the second matrix. */
    double complex i[] = {I, I, 0, 0}, unit = 1, none = 0, result[2];
    double complex *complexes = device(i, sizeof i);
    SAME(cublasZgemmStridedBatched(handle, 2, 0, 1, 1, 1, &unit, complexes, 1, 1, complexes, 1, 1, &none, complexes + 2, 1, 1, 2), 0);
    SAME(cudaMemcpy(result, complexes + 2, sizeof result, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(result[0] == 1 && result[1] == 1);
}

static void vectors(Handle handle) {
    float alpha = 2, x[] = {1, -5, 3, 5}, y[] = {10, 20, 30, 40}, got[4];
    float *dx = device(x, sizeof x), *dy = device(y, sizeof y);
    SAME(cublasSaxpy_v2(handle, 2, &alpha, dx, 2, dy, -1), 0);
    SAME(cudaMemcpy(got, dy, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 16 && got[1] == 22 && got[2] == 30);
    SAME(cublasSaxpy_v2(handle, 2, NULL, dx, 2, dy, -1), 7);
    SAME(cublasSaxpy_v2(handle, 5, &alpha, dx, 1, dy, 1), 13); /* leaves its allocation */
    int index = 7, *device_index = device(&index, sizeof index);
    SAME(cublasIsamax_v2(handle, 4, dx, 1, &index), 0);
    SAME(index, 2); /* the first of two */
    SAME(cublasIsamax_v2(handle, 0, dx, 1, &index), 0);
    SAME(index, 0);
    SAME(cublasSetPointerMode_v2(handle, 1), 0);
    SAME(cublasIsamax_v2(handle, 3, dx + 1, 1, device_index), 0);
    SAME(cublasSetPointerMode_v2(handle, 0), 0);
    SAME(cudaMemcpy(&index, device_index, sizeof index, cudaMemcpyDeviceToHost), cudaSuccess);
    SAME(index, 1);
    double d[] = {3, -4, 1e200, 1e-200}, value = 0, c, s;
    double *dd = device(d, sizeof d);
    int64_t wide = 0;
    SAME(cublasIdamin_v2_64(handle, 4, dd, 1, &wide), 0);
    SAME(wide, 4);
    SAME(cublasDnrm2_v2(handle, 2, dd, 1, &value), 0);
    EXPECT(value == 5);
    SAME(cublasDnrm2_v2(handle, 3, dd, 1, &value), 0); /* its square has no double */
    EXPECT(fabs(value - 1e200) < 1e185);
    SAME(cublasDnrm2_v2(handle, 1, dd + 3, 1, &value), 0);
    EXPECT(fabs(value - 1e-200) < 1e-215);
    double complex z[] = {1 + 2 * I, 3 - I}, w[] = {I, 2}, dot;
    double complex *dz = device(z, sizeof z), *dw = device(w, sizeof w);
    SAME(cublasZdotu_v2(handle, 2, dz, 1, dw, 1, &dot), 0); /* i - 2 + 6 - 2i */
    EXPECT(dot == 4 - I);
    SAME(cublasZdotc_v2(handle, 2, dz, 1, dw, 1, &dot), 0); /* i + 2 + 6 + 2i */
    EXPECT(dot == 8 + 3 * I);
    SAME(cublasDzasum_v2(handle, 2, dz, 1, &value), 0);
    EXPECT(value == 7);
    value = 2;
    SAME(cublasZdscal_v2(handle, 2, &value, dz, 1), 0);
    SAME(cudaMemcpy(&dot, dz + 1, sizeof dot, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(dot == 6 - 2 * I);
    double a = 3, b = 4;
    SAME(cublasDrotg_v2(handle, &a, &b, &c, &s), 0);
    EXPECT(fabs(a - 5) < 1e-15 && fabs(c - 0.6) < 1e-15 && fabs(s - 0.8) < 1e-15 && fabs(b - 1 / 0.6) < 1e-14);
    double p[] = {3, 4}, q[] = {4, -3}, both[2];
    double *dp = device(p, sizeof p), *dq = device(q, sizeof q);
    SAME(cublasDrot_v2(handle, 1, dp, 1, dq, 1, &c, &s), 0);
    SAME(cublasDswap_v2(handle, 2, dp, 1, dq, -1), 0);
    SAME(cudaMemcpy(both, dq, sizeof both, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(both[0] == 4 && fabs(both[1] - 5) < 1e-15);
    SAME(cublasDcopy_v2(handle, 2, dq, 1, dp, 1), 0);
    const double parameters[] = {-1, 1, 2, 3, 4}; /* x = 1x + 3y, y = 2x + 4y */
    SAME(cudaMemcpy(dp, p, sizeof p, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cudaMemcpy(dq, q, sizeof q, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cublasDrotm_v2(handle, 2, dp, 1, dq, 1, parameters), 0);
    SAME(cudaMemcpy(both, dp, sizeof both, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(both[0] == 15 && both[1] == -5);
    SAME(cudaMemcpy(both, dq, sizeof both, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(both[0] == 22 && both[1] == -4);
    /* d1 = d2 = 1, x = 2, y = 1: q1 > q2, h21 = -1/2, h12 = 1/2, u = 5/4. */
    double d1 = 1, d2 = 1, x1 = 2, y1 = 1, made[5] = {9, 9, 9, 9, 9};
    SAME(cublasDrotmg_v2(handle, &d1, &d2, &x1, &y1, made), 0);
    EXPECT(made[0] == 0 && made[2] == -0.5 && made[3] == 0.5 && made[1] == 9 && made[4] == 9);
    EXPECT(d1 == 0.8 && d2 == 0.8 && x1 == 2.5);
    /* Halves, summed in f32: 2048 + 1 has no half. */
    uint16_t h[] = {0x6800, 0x3c00}, ones[] = {0x3c00, 0x3c00}, half = 0;
    SAME(cublasDotEx(handle, 2, device(h, sizeof h), 2, 1, device(ones, sizeof ones), 2, 1, &half, 2, 0), 0);
    SAME(half, 0x6800);
}

int main(void) {
    Handle handle = NULL;
    SAME(cublasSaxpy_v2(NULL, 0, NULL, NULL, 1, NULL, 1), 1);
    SAME(cublasCreate_v2(&handle), 0);
    products(handle);
    vectors_by_matrices(handle);
    batches(handle);
    vectors(handle);
    SAME(cublasDestroy_v2(handle), 0);
    return failures();
}
