/* cuSOLVER's dense functions, and cuBLAS's that are also in LAPACK, declared here by hand from their documentation. Expected numbers
 * are worked out by hand, or are identities of the decompositions. */
#include <complex.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

typedef void *Handle;
int cusolverDnCreate(Handle *), cusolverDnDestroy(Handle), cusolverDnSetStream(Handle, cudaStream_t);
int cusolverDnDpotrf_bufferSize(Handle, int, int, double *, int, int *), cusolverDnDpotrf(Handle, int, int, double *, int, double *, int, int *);
int cusolverDnZpotrf(Handle, int, int, void *, int, void *, int, int *);
int cusolverDnDpotrs(Handle, int, int, int, double *, int, double *, int, int *);
int cusolverDnSpotrfBatched(Handle, int, int, float **, int, int *, int);
int cusolverDnDgetrf(Handle, int, int, double *, int, double *, int *, int *);
int cusolverDnDgetrs(Handle, int, int, int, double *, int, int *, double *, int, int *);
int cusolverDnXgetrf_bufferSize(Handle, void *, int64_t, int64_t, int, void *, int64_t, int, size_t *, size_t *);
int cusolverDnXgetrf(Handle, void *, int64_t, int64_t, int, void *, int64_t, int64_t *, int, void *, size_t, void *, size_t, int *);
int cusolverDnDgeqrf(Handle, int, int, double *, int, double *, double *, int, int *);
int cusolverDnDorgqr(Handle, int, int, int, double *, int, double *, double *, int, int *);
int cusolverDnDormqr(Handle, int, int, int, int, int, double *, int, double *, double *, int, double *, int, int *);
int cusolverDnDsyevd(Handle, int, int, int, double *, int, double *, double *, int, int *);
int cusolverDnZheevd(Handle, int, int, int, void *, int, double *, void *, int, int *);
int cusolverDnDsytrd(Handle, int, int, double *, int, double *, double *, double *, double *, int, int *);
int cusolverDnDgesvd(Handle, signed char, signed char, int, int, double *, int, double *, double *, int, double *, int, double *, int, double *, int *);
int cusolverDnDgesvdj(Handle, int, int, int, int, double *, int, double *, double *, int, double *, int, double *, int, int *, void *);
int cublasCreate_v2(Handle *), cublasDestroy_v2(Handle);
int cublasDgetrfBatched(Handle, int, double **, int, int *, int *, int), cublasDgetriBatched(Handle, int, double **, int, int *, double **, int, int *, int);
int cublasDgetrsBatched(Handle, int, int, int, double **, int, int *, double **, int, int *, int);
int cublasDgeqrfBatched(Handle, int, int, double **, int, double **, int *, int);

enum { INVALID_VALUE = 3, NOT_INITIALIZED = 1, LOWER = 0, UPPER = 1, NO = 0, TRANSPOSE = 1, R_64F = 1 };

static Handle handle;
static double *a, *b, *c, *d, *work;
static int *info, *pivots;

static void put(void *to, const void *from, size_t bytes) { SAME(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), 0); }
static void get(void *to, const void *from, size_t bytes) { SAME(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), 0); }
static int outcome(void) {
    int value;
    get(&value, info, sizeof value);
    return value;
}
static int is_near(double got, double wanted) { return fabs(got - wanted) < 1e-12 * (1 + fabs(wanted)); }

/* A = [4 2; 2 5] = L L^T with L = [2 0; 1 2], in a matrix with room for three rows; what the half lacks is left alone. */
static void cholesky(void) {
    int size = 0;
    double stored[] = {4, 2, -7, 99, 5, -7}, got[6], right[] = {8, 9}, solution[2];
    SAME(cusolverDnDpotrf_bufferSize(handle, LOWER, 2, a, 3, &size), 0);
    EXPECT(size > 0);
    put(a, stored, sizeof stored);
    SAME(cusolverDnDpotrf(handle, LOWER, 2, a, 3, work, size, info), 0);
    SAME(outcome(), 0);
    get(got, a, sizeof got);
    EXPECT(is_near(got[0], 2) && is_near(got[1], 1) && is_near(got[4], 2));
    EXPECT(got[2] == -7 && got[3] == 99 && got[5] == -7);
    put(b, right, sizeof right);
    SAME(cusolverDnDpotrs(handle, LOWER, 2, 1, a, 3, b, 2, info), 0);
    get(solution, b, sizeof solution);
    /* 4 * 1.375 + 2 * 1.25 = 8, 2 * 1.375 + 5 * 1.25 = 9. */
    EXPECT(is_near(solution[0], 1.375) && is_near(solution[1], 1.25));

    double upper[] = {4, 99, 2, 5};
    put(a, upper, sizeof upper);
    SAME(cusolverDnDpotrf(handle, UPPER, 2, a, 2, work, size, info), 0);
    get(got, a, sizeof upper);
    EXPECT(is_near(got[0], 2) && got[1] == 99 && is_near(got[2], 1) && is_near(got[3], 2));

    double complex hermitian[] = {4, -2 * I, 99, 5}, factor[4];
    put(a, hermitian, sizeof hermitian);
    SAME(cusolverDnZpotrf(handle, LOWER, 2, a, 2, work, size, info), 0);
    get(factor, a, sizeof factor);
    EXPECT(cabs(factor[0] - 2) < 1e-12 && cabs(factor[1] + I) < 1e-12 && cabs(factor[3] - 2) < 1e-12);

    /* The second minor of [1 2; 2 1] is negative; NaN is not positive. */
    double indefinite[] = {1, 2, 2, 1}, nan_first[] = {NAN, 2, 2, 1};
    put(a, indefinite, sizeof indefinite);
    SAME(cusolverDnDpotrf(handle, LOWER, 2, a, 2, work, size, info), 0);
    SAME(outcome(), 2);
    put(a, nan_first, sizeof nan_first);
    SAME(cusolverDnDpotrf(handle, LOWER, 2, a, 2, work, size, info), 0);
    SAME(outcome(), 1);
    SAME(cusolverDnDpotrf(handle, LOWER, 0, a, 1, work, size, info), 0);
    SAME(outcome(), 0);

    float first[] = {9}, second[] = {-1}, three;
    float *list[2] = {(float *)b, (float *)c};
    int both[2];
    put(b, first, sizeof first);
    put(c, second, sizeof second);
    put(d, list, sizeof list);
    SAME(cusolverDnSpotrfBatched(handle, LOWER, 1, (float **)d, 1, info, 2), 0);
    get(both, info, sizeof both);
    get(&three, b, sizeof three);
    EXPECT(both[0] == 0 && both[1] == 1 && three == 3);

    SAME(cusolverDnDpotrf(handle, 2, 2, a, 2, work, size, info), INVALID_VALUE);
    SAME(cusolverDnDpotrf(handle, LOWER, -1, a, 2, work, size, info), INVALID_VALUE);
    SAME(cusolverDnDpotrf(handle, LOWER, 2, a, 1, work, size, info), INVALID_VALUE);
    SAME(cusolverDnDpotrf(handle, LOWER, 2, a, 2, work, size, NULL), INVALID_VALUE);
    SAME(cusolverDnDpotrf(NULL, LOWER, 2, a, 2, work, size, info), NOT_INITIALIZED);
}

/* [1 3; 2 4] by columns: rows are exchanged, then [2 4; .5 1]. */
static void lu(void) {
    double stored[] = {1, 2, 3, 4}, got[4], right[] = {5, 6}, solution[2];
    int rows[2];
    int64_t wide[2];
    size_t device, host;
    put(a, stored, sizeof stored);
    SAME(cusolverDnDgetrf(handle, 2, 2, a, 2, work, pivots, info), 0);
    SAME(outcome(), 0);
    get(got, a, sizeof got);
    get(rows, pivots, sizeof rows);
    EXPECT(is_near(got[0], 2) && is_near(got[1], .5) && is_near(got[2], 4) && is_near(got[3], 1));
    EXPECT(rows[0] == 2 && rows[1] == 2);
    /* x + 3 y = 5, 2 x + 4 y = 6; and with the transpose, x + 2 y = 5, 3 x + 4 y = 6. */
    put(b, right, sizeof right);
    SAME(cusolverDnDgetrs(handle, NO, 2, 1, a, 2, pivots, b, 2, info), 0);
    get(solution, b, sizeof solution);
    EXPECT(is_near(solution[0], -1) && is_near(solution[1], 2));
    put(b, right, sizeof right);
    SAME(cusolverDnDgetrs(handle, TRANSPOSE, 2, 1, a, 2, pivots, b, 2, info), 0);
    get(solution, b, sizeof solution);
    EXPECT(is_near(solution[0], -4) && is_near(solution[1], 4.5));

    SAME(cusolverDnXgetrf_bufferSize(handle, NULL, 2, 2, R_64F, a, 2, R_64F, &device, &host), 0);
    put(a, stored, sizeof stored);
    SAME(cusolverDnXgetrf(handle, NULL, 2, 2, R_64F, a, 2, (int64_t *)c, R_64F, work, device, NULL, 0, info), 0);
    get(wide, c, sizeof wide);
    EXPECT(wide[0] == 2 && wide[1] == 2);
    /* Without a place for pivots, rows stay: [1 3; 2 -2]. */
    put(a, stored, sizeof stored);
    SAME(cusolverDnDgetrf(handle, 2, 2, a, 2, work, NULL, info), 0);
    get(got, a, sizeof got);
    EXPECT(is_near(got[1], 2) && is_near(got[3], -2));
    double singular[] = {1, 2, 2, 4};
    put(a, singular, sizeof singular);
    SAME(cusolverDnDgetrf(handle, 2, 2, a, 2, work, pivots, info), 0);
    SAME(outcome(), 2);
}

/* A = [3 0; 4 5]: the first reflector has LAPACK's beta -5, tau 1.6 and v = (1, .5). */
static void qr(void) {
    double stored[] = {3, 4, 0, 5}, got[4], taus[2], q[4];
    put(a, stored, sizeof stored);
    SAME(cusolverDnDgeqrf(handle, 2, 2, a, 2, b, work, 4, info), 0);
    SAME(outcome(), 0);
    get(got, a, sizeof got);
    get(taus, b, sizeof taus);
    EXPECT(is_near(got[0], -5) && is_near(got[1], .5) && is_near(got[2], -4) && is_near(taus[0], 1.6) && taus[1] == 0);
    /* Q^T A = R. */
    put(c, stored, sizeof stored);
    SAME(cusolverDnDormqr(handle, 0, TRANSPOSE, 2, 2, 2, a, 2, b, c, 2, work, 4, info), 0);
    get(q, c, sizeof q);
    EXPECT(is_near(q[0], got[0]) && fabs(q[1]) < 1e-12 && is_near(q[2], got[2]) && is_near(q[3], got[3]));
    SAME(cusolverDnDorgqr(handle, 2, 2, 2, a, 2, b, work, 4, info), 0);
    get(q, a, sizeof q);
    EXPECT(is_near(q[0], -.6) && is_near(q[1], -.8) && is_near(q[0] * q[2] + q[1] * q[3] + 1, 1));
    SAME(cusolverDnDorgqr(handle, 2, 3, 2, a, 2, b, work, 4, info), INVALID_VALUE);
}

/* [2 1; 1 2] has 1 and 3, as the complex [2 i; -i 2] has. */
static void eigenvalues(void) {
    for (int uplo = LOWER; uplo <= UPPER; uplo++) {
        double stored[] = {2, uplo == LOWER ? 1 : 99, uplo == LOWER ? 99 : 1, 2}, vectors[4], values[2];
        put(a, stored, sizeof stored);
        SAME(cusolverDnDsyevd(handle, 1, uplo, 2, a, 2, b, work, 4, info), 0);
        SAME(outcome(), 0);
        get(vectors, a, sizeof vectors);
        get(values, b, sizeof values);
        EXPECT(is_near(values[0], 1) && is_near(values[1], 3));
        EXPECT(is_near(vectors[0], -vectors[1]) && is_near(vectors[2], vectors[3]) && is_near(fabs(vectors[0]), sqrt(.5)));
        double complex hermitian[] = {2, uplo == LOWER ? -I : 99, uplo == LOWER ? 99 : I, 2}, x[4];
        put(a, hermitian, sizeof hermitian);
        SAME(cusolverDnZheevd(handle, 1, uplo, 2, a, 2, b, work, 4, info), 0);
        get(x, a, sizeof x);
        get(values, b, sizeof values);
        EXPECT(is_near(values[0], 1) && is_near(values[1], 3));
        /* A x = 3 x: 2 x0 + i x1 = 3 x0. */
        EXPECT(cabs(I * x[3] - x[2]) < 1e-12 && is_near(cabs(x[2]), sqrt(.5)));
        /* Already tridiagonal. */
        double beside[1];
        put(a, stored, sizeof stored);
        SAME(cusolverDnDsytrd(handle, uplo, 2, a, 2, b, c, d, work, 4, info), 0);
        get(beside, c, sizeof beside);
        get(values, b, sizeof values);
        EXPECT(values[0] == 2 && values[1] == 2 && beside[0] == 1);
    }
    double no_numbers[] = {NAN, 1, 1, 2};
    put(a, no_numbers, sizeof no_numbers);
    SAME(cusolverDnDsyevd(handle, 1, LOWER, 2, a, 2, b, work, 4, info), 0);
    EXPECT(outcome() > 0);
}

/* [3 0; 4 5; 0 0] has sqrt(45) and sqrt(5): A^T A = [25 20; 20 25]. */
static void singular_values(void) {
    double stored[] = {3, 4, 0, 0, 5, 0}, values[2], u[9], v[4];
    for (int all = 0; all < 2; all++) {
        for (int turned = 0; turned < 2; turned++) {
            put(a, stored, sizeof stored);
            if (turned)
                SAME(cusolverDnDgesvd(handle, all ? 'A' : 'S', 'A', 3, 2, a, 3, b, c, 3, d, 2, work, 9, NULL, info), 0);
            else
                SAME(cusolverDnDgesvdj(handle, 1, !all, 3, 2, a, 3, b, c, 3, d, 2, work, 9, info, NULL), 0);
            SAME(outcome(), 0);
            get(values, b, sizeof values);
            get(u, c, sizeof u);
            get(v, d, sizeof v);
            EXPECT(is_near(values[0], sqrt(45)) && is_near(values[1], sqrt(5)));
            for (int row = 0; row < 3; row++)
                for (int column = 0; column < 2; column++) {
                    double sum = 0;
                    for (int k = 0; k < 2; k++) sum += u[row + 3 * k] * values[k] * (turned ? v[k + 2 * column] : v[column + 2 * k]);
                    EXPECT(fabs(sum - stored[row + 3 * column]) < 1e-12);
                }
            EXPECT(!all || is_near(fabs(u[8]), 1));
        }
    }
    SAME(cusolverDnDgesvd(handle, 'N', 'N', 2, 3, a, 2, b, NULL, 1, NULL, 1, work, 9, NULL, info), INVALID_VALUE);
    SAME(cusolverDnDgesvd(handle, 'N', 'X', 3, 2, a, 3, b, NULL, 1, NULL, 1, work, 9, NULL, info), INVALID_VALUE);
    SAME(cusolverDnDgesvd(handle, 'N', 'N', 3, 2, a, 3, b, NULL, 1, NULL, 1, work, 9, NULL, info), 0);
}

/* Two matrices, the second of which is singular. */
static void batches(void) {
    Handle cublas;
    double matrices[] = {1, 2, 3, 4, 1, 2, 2, 4}, right[] = {5, 6}, got[4];
    double *lists[3][2] = {{a, a + 4}, {b, b + 4}, {c, c + 4}};
    double ***at = (double ***)d;
    int both[2], whole = 7;
    SAME(cublasCreate_v2(&cublas), 0);
    put(a, matrices, sizeof matrices);
    put(d, lists, sizeof lists);
    double **first = (double **)at, **second = first + 2, **third = first + 4;
    SAME(cublasDgetrfBatched(cublas, 2, first, 2, pivots, info, 2), 0);
    get(both, info, sizeof both);
    EXPECT(both[0] == 0 && both[1] == 2);
    put(b, right, sizeof right);
    SAME(cublasDgetrsBatched(cublas, NO, 2, 1, first, 2, pivots, second, 2, &whole, 1), 0);
    get(got, b, sizeof right);
    EXPECT(whole == 0 && is_near(got[0], -1) && is_near(got[1], 2));
    /* CUBLAS_STATUS_INVALID_VALUE: no place for the inverses, columns shorter than they are, no place for what reflects. */
    SAME(cublasDgetriBatched(cublas, 2, first, 2, pivots, NULL, 2, info, 2), 7);
    SAME(cublasDgetriBatched(cublas, 2, first, 2, pivots, third, 1, info, 2), 7);
    SAME(cublasDgeqrfBatched(cublas, 2, 2, first, 2, NULL, &whole, 1), 7);
    SAME(cublasDgetriBatched(cublas, 2, first, 2, pivots, third, 2, info, 2), 0);
    get(both, info, sizeof both);
    get(got, c, sizeof got);
    EXPECT(both[0] == 0 && both[1] == 2);
    /* The inverse of [1 3; 2 4]. */
    EXPECT(is_near(got[0], -2) && is_near(got[1], 1) && is_near(got[2], 1.5) && is_near(got[3], -.5));
    double one[] = {3, 4};
    put(a, one, sizeof one);
    SAME(cublasDgeqrfBatched(cublas, 2, 1, first, 2, second, &whole, 1), 0);
    get(got, a, sizeof one);
    EXPECT(is_near(got[0], -5) && is_near(got[1], .5));
    get(got, b, sizeof *got);
    EXPECT(is_near(got[0], 1.6));
    SAME(cublasDgetrfBatched(cublas, 2, first, 1, pivots, info, 2), 7);
    SAME(cublasDestroy_v2(cublas), 0);
}

int main(void) {
    cudaStream_t stream;
    void **const all[] = {(void **)&a, (void **)&b, (void **)&c, (void **)&d, (void **)&work, (void **)&info, (void **)&pivots};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) SAME(cudaMalloc(all[index], 512), 0);
    SAME(cudaStreamCreate(&stream), 0);
    SAME(cusolverDnCreate(&handle), 0);
    SAME(cusolverDnSetStream(handle, stream), 0);
    /* Copies of the host wait for the default stream, which waits for this one. */
    cholesky();
    lu();
    qr();
    eigenvalues();
    singular_values();
    batches();
    SAME(cusolverDnDestroy(handle), 0);
    return failures();
}
