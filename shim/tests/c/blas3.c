/* cuBLAS's level 3 beyond products of full matrices, geam and dgmm, against their definitions in plain loops in double precision:
   every type, side, half, transposition and diagonal, of random sizes. What a routine must not read is NaN, and what it must not
   write stays. The functions are declared from NVIDIA's documentation. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "blas.h"

int cublasCreate_v2(Handle *), cublasDestroy_v2(Handle), cublasSetPointerMode_v2(Handle, int);
typedef int Symm(Handle, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
Symm cublasSsymm_v2, cublasDsymm_v2, cublasCsymm_v2, cublasZsymm_v2, cublasChemm_v2, cublasZhemm_v2;
typedef int Syrk(Handle, int, int, int, int, const void *, const void *, int, const void *, void *, int);
Syrk cublasSsyrk_v2, cublasDsyrk_v2, cublasCsyrk_v2, cublasZsyrk_v2, cublasCherk_v2, cublasZherk_v2;
typedef int Syr2k(Handle, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
Syr2k cublasSsyr2k_v2, cublasDsyr2k_v2, cublasCsyr2k_v2, cublasZsyr2k_v2, cublasCher2k_v2, cublasZher2k_v2;
Syr2k cublasSsyrkx, cublasDsyrkx, cublasCsyrkx, cublasZsyrkx, cublasCherkx, cublasZherkx;
typedef int Trmm(Handle, int, int, int, int, int, int, const void *, const void *, int, const void *, int, void *, int);
Trmm cublasStrmm_v2, cublasDtrmm_v2, cublasCtrmm_v2, cublasZtrmm_v2;
typedef int Trsm(Handle, int, int, int, int, int, int, const void *, const void *, int, void *, int);
Trsm cublasStrsm_v2, cublasDtrsm_v2, cublasCtrsm_v2, cublasZtrsm_v2;
int cublasDtrsm_v2_64(Handle, int, int, int, int, int64_t, int64_t, const double *, const double *, int64_t, double *, int64_t);
int cublasDtrsmBatched(Handle, int, int, int, int, int, int, const double *, const double *const[], int, double *const[], int, int);
typedef int Geam(Handle, int, int, int, int, const void *, const void *, int, const void *, const void *, int, void *, int);
Geam cublasSgeam, cublasDgeam, cublasCgeam, cublasZgeam;
typedef int Dgmm(Handle, int, int, int, const void *, int, const void *, int, void *, int);
Dgmm cublasSdgmm, cublasDdgmm, cublasCdgmm, cublasZdgmm;

enum { LEFT, RIGHT };
enum { LOWER, UPPER };

static int inside(int fill, int i, int j) { return fill == UPPER ? i <= j : i >= j; }

/* An n x n matrix of which only one half may be read, without its diagonal where that is all ones. */
static void *half(int type, int n, int lda, int fill, int unit) {
    void *a = numbers(type, lda * n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < lda; i++)
            if (i >= n || !inside(fill, i, j) || (unit && i == j)) put(type, a, j * lda + i, NAN + NAN * I);
    return a;
}

/* An element of the whole of a symmetric or hermitian matrix. */
static double complex whole(int type, const void *a, int lda, int fill, int hermitian, int i, int j) {
    double complex value = inside(fill, i, j) ? get(type, a, j * lda + i) : get(type, a, i * lda + j);
    if (hermitian && i == j) return creal(value);
    return hermitian && !inside(fill, i, j) ? conj(value) : value;
}

/* An element of a triangular matrix after an operation. */
static double complex triangle(int type, const void *a, int lda, int fill, int operation, int unit, int i, int j) {
    int row = operation ? j : i, column = operation ? i : j;
    if (row == column && unit) return 1;
    return inside(fill, row, column) ? element(type, a, lda, operation, i, j) : 0;
}

static int length(int round) { return 1 + below(round % 11 == 0 ? 150 : 20); }

static double complex scalar(int type, int real, int zero) { return zero ? 0 : next() + (real || type == S || type == D ? 0 : next() * I); }

static void symmetric(Handle handle) {
    static Symm *const SYMM[] = {cublasSsymm_v2, cublasDsymm_v2, cublasCsymm_v2, cublasZsymm_v2}, *const HEMM[] = {NULL, NULL, cublasChemm_v2, cublasZhemm_v2};
    for (int round = 0; round < 96; round++) {
        int type = round % 4, hermitian = type >= C && round / 4 % 2, side = below(2), fill = below(2), m = length(round), n = length(round + 1);
        int order = side == LEFT ? m : n, lda = order + below(4), ldb = m + below(4), ldc = m + below(4), zero = round % 3 == 0;
        void *a = half(type, order, lda, fill, 0), *b = numbers(type, ldb * n), *c = numbers(type, ldc * n), *got = malloc(SIZE[type] * ldc * n);
        if (hermitian) /* "The imaginary parts of the diagonal are assumed to be zero." */
            for (int i = 0; i < order; i++) put(type, a, i * lda + i, creal(get(type, a, i * lda + i)) + 5 * I);
        if (zero)
            for (int i = 0; i < ldc * n; i++)
                if (i % ldc < m) put(type, c, i, NAN);
        double complex alpha = scalar(type, 0, 0), beta = scalar(type, 0, zero), scalars[2];
        put(type, &scalars[0], 0, alpha), put(type, &scalars[1], 0, beta);
        void *da = device(a, SIZE[type] * lda * order), *db = device(b, SIZE[type] * ldb * n), *dc = device(c, SIZE[type] * ldc * n);
        SAME((hermitian ? HEMM : SYMM)[type](handle, side, fill, m, n, &scalars[0], da, lda, db, ldb, &scalars[1], dc, ldc), 0);
        SAME(cudaMemcpy(got, dc, SIZE[type] * ldc * n, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < ldc; i++) {
                double complex sum = 0, before = get(type, c, j * ldc + i);
                for (int p = 0; p < order && i < m; p++)
                    sum += side == LEFT ? whole(type, a, lda, fill, hermitian, i, p) * get(type, b, j * ldb + p)
                                        : get(type, b, p * ldb + i) * whole(type, a, lda, fill, hermitian, p, j);
                double complex wanted = i >= m ? before : get(type, &scalars[0], 0) * sum + (zero ? 0 : get(type, &scalars[1], 0) * before);
                near(type, get(type, got, j * ldc + i), wanted, 8 * order + 8, __LINE__);
            }
        }
        cudaFree(da), cudaFree(db), cudaFree(dc), free(a), free(b), free(c), free(got);
    }
}

/* syrk and herk; syr2k and her2k; syrkx and herkx. */
static void ranks(Handle handle) {
    static Syrk *const SYRK[] = {cublasSsyrk_v2, cublasDsyrk_v2, cublasCsyrk_v2, cublasZsyrk_v2}, *const HERK[] = {NULL, NULL, cublasCherk_v2, cublasZherk_v2};
    static Syr2k *const SYR2K[] = {cublasSsyr2k_v2, cublasDsyr2k_v2, cublasCsyr2k_v2, cublasZsyr2k_v2}, *const HER2K[] = {NULL, NULL, cublasCher2k_v2, cublasZher2k_v2};
    static Syr2k *const SYRKX[] = {cublasSsyrkx, cublasDsyrkx, cublasCsyrkx, cublasZsyrkx}, *const HERKX[] = {NULL, NULL, cublasCherkx, cublasZherkx};
    enum { ONE, TWO, OTHER };
    for (int round = 0; round < 180; round++) {
        int type = round % 4, kind = round / 4 % 3, hermitian = type >= C && round / 12 % 2, fill = below(2);
        int operation = below(2) ? 0 : hermitian ? 2 : 1, n = length(round), k = below(30);
        int rows = operation ? k : n, columns = operation ? n : k, lda = rows + 1 + below(4), ldc = n + below(4), zero = round % 5 == 0;
        void *a = numbers(type, lda * columns + 1), *b = kind == ONE ? a : numbers(type, lda * columns + 1), *c = numbers(type, ldc * n), *got = malloc(SIZE[type] * ldc * n);
        if (zero)
            for (int i = 0; i < ldc * n; i++)
                if (i % ldc < n && inside(fill, i % ldc, i / ldc)) put(type, c, i, NAN);
        int real = type == C ? S : type == Z ? D : type;
        double complex alpha = scalar(type, kind == ONE && hermitian, round % 13 == 0), beta = scalar(type, hermitian, zero), scalars[2];
        put(kind == ONE && hermitian ? real : type, &scalars[0], 0, alpha), put(hermitian ? real : type, &scalars[1], 0, beta);
        alpha = get(kind == ONE && hermitian ? real : type, &scalars[0], 0), beta = get(hermitian ? real : type, &scalars[1], 0);
        void *da = device(a, SIZE[type] * (lda * columns + 1)), *db = kind == ONE ? da : device(b, SIZE[type] * (lda * columns + 1)), *dc = device(c, SIZE[type] * ldc * n);
        if (kind == ONE)
            SAME((hermitian ? HERK : SYRK)[type](handle, fill, operation, n, k, &scalars[0], da, lda, &scalars[1], dc, ldc), 0);
        else
            SAME((kind == TWO ? hermitian ? HER2K : SYR2K : hermitian ? HERKX : SYRKX)[type](handle, fill, operation, n, k, &scalars[0], da, lda, db, lda, &scalars[1], dc, ldc), 0);
        SAME(cudaMemcpy(got, dc, SIZE[type] * ldc * n, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < ldc; i++) {
                double complex sum = 0, swapped = 0, wanted = get(type, c, j * ldc + i);
                for (int p = 0; p < k && i < n; p++) {
                    double complex ai = element(type, a, lda, operation, i, p), aj = element(type, a, lda, operation, j, p);
                    double complex bi = element(type, b, lda, operation, i, p), bj = element(type, b, lda, operation, j, p);
                    sum += ai * (hermitian ? conj(bj) : bj), swapped += bi * (hermitian ? conj(aj) : aj);
                }
                if (i < n && inside(fill, i, j)) {
                    wanted = alpha * sum + (zero ? 0 : beta * wanted);
                    if (kind == TWO) wanted += (hermitian ? conj(alpha) : alpha) * swapped;
                    if (hermitian && i == j) wanted = creal(wanted);
                }
                near(type, get(type, got, j * ldc + i), wanted, 8 * k + 8, __LINE__);
            }
        }
        cudaFree(da), cudaFree(dc), free(a), free(c), free(got);
        if (kind != ONE) cudaFree(db), free(b);
    }
}

static void triangles(Handle handle) {
    static Trmm *const TRMM[] = {cublasStrmm_v2, cublasDtrmm_v2, cublasCtrmm_v2, cublasZtrmm_v2};
    static Trsm *const TRSM[] = {cublasStrsm_v2, cublasDtrsm_v2, cublasCtrsm_v2, cublasZtrsm_v2};
    for (int round = 0; round < 240; round++) {
        int type = round % 4, solves = round / 4 % 2, side = below(2), fill = below(2), operation = below(3), unit = below(2), m = length(round), n = length(round + 1);
        int order = side == LEFT ? m : n, lda = order + below(4), ldb = m + below(4), ldc = solves ? ldb : m + below(4);
        void *a = half(type, order, lda, fill, unit), *b = numbers(type, ldb * n), *got = malloc(SIZE[type] * ldc * n);
        for (int j = 0; j < order; j++) /* far from singular */
            for (int i = 0; i < order; i++)
                if (inside(fill, i, j)) put(type, a, j * lda + i, i == j ? (unit ? NAN : 2 + get(type, a, j * lda + i)) : get(type, a, j * lda + i) / order);
        double complex alpha = scalar(type, 0, 0);
        put(type, &alpha, 0, alpha);
        void *da = device(a, SIZE[type] * lda * order), *db = device(b, SIZE[type] * ldb * n), *dc = solves ? db : device(got, SIZE[type] * ldc * n);
        if (!solves)
            SAME(TRMM[type](handle, side, fill, operation, unit, m, n, &alpha, da, lda, db, ldb, dc, ldc), 0);
        else if (type == D && round % 3 == 0)
            SAME(cublasDtrsm_v2_64(handle, side, fill, operation, unit, m, n, (void *)&alpha, da, lda, db, ldb), 0);
        else
            SAME(TRSM[type](handle, side, fill, operation, unit, m, n, &alpha, da, lda, db, ldb), 0);
        SAME(cudaMemcpy(got, dc, SIZE[type] * ldc * n, cudaMemcpyDeviceToHost), cudaSuccess);
        double complex factor = get(type, &alpha, 0);
        const void *right = solves ? got : b;
        int ld = solves ? ldc : ldb;
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < m; i++) {
                double complex sum = 0;
                for (int p = 0; p < order; p++)
                    sum += side == LEFT ? triangle(type, a, lda, fill, operation, unit, i, p) * get(type, right, j * ld + p)
                                        : get(type, right, p * ld + i) * triangle(type, a, lda, fill, operation, unit, p, j);
                if (solves)
                    near(type, sum, factor * get(type, b, j * ldb + i), 8 * order + 16, __LINE__);
                else
                    near(type, get(type, got, j * ldc + i), factor * sum, 8 * order + 8, __LINE__);
            }
        }
        cudaFree(da), cudaFree(db), free(a), free(b), free(got);
        if (!solves) cudaFree(dc);
    }
    /* [2 0; 1 4] X = 2 (6, 11) gives X = (6, 4); in a batch of two, the second with (0, 2): (0, 1). */
    double two = 2, zero = 0, a[] = {2, 1, NAN, 4}, b[] = {6, 11, 0, 2}, got[4];
    double *da = device(a, sizeof a), *db = device(b, sizeof b), *as[] = {da, da}, *bs[] = {db, db + 2};
    const double *const *das = device(as, sizeof as);
    double *const *dbs = device(bs, sizeof bs);
    SAME(cublasDtrsmBatched(handle, LEFT, LOWER, 0, 0, 2, 1, &two, das, 2, dbs, 2, 2), 0);
    SAME(cudaMemcpy(got, db, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 6 && got[1] == 4 && got[2] == 0 && got[3] == 1);
    /* An infinity meets only what the triangle has: the first row does not see the second element. */
    double infinite[] = {1, INFINITY};
    SAME(cudaMemcpy(db, infinite, sizeof infinite, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cublasDtrmm_v2(handle, LEFT, LOWER, 0, 0, 2, 1, &two, da, 2, db, 2, db, 2), 0);
    SAME(cudaMemcpy(got, db, sizeof infinite, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 4 && isinf(got[1]));
    /* With alpha 0 neither matrix is read. */
    SAME(cublasDtrsm_v2(handle, LEFT, UPPER, 0, 0, 2, 1, &zero, da, 2, db, 2), 0);
    SAME(cudaMemcpy(got, db, sizeof infinite, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 0 && got[1] == 0);
    SAME(cublasDtrsm_v2(handle, 2, UPPER, 0, 0, 2, 1, &two, da, 2, db, 2), 7);
    SAME(cublasDtrsm_v2(handle, LEFT, 2, 0, 0, 2, 1, &two, da, 2, db, 2), 7);
    SAME(cublasDtrsm_v2(handle, LEFT, UPPER, 3, 0, 2, 1, &two, da, 2, db, 2), 7);
    SAME(cublasDtrsm_v2(handle, LEFT, UPPER, 0, 2, 2, 1, &two, da, 2, db, 2), 7);
    SAME(cublasDtrsm_v2(handle, LEFT, UPPER, 0, 0, -1, 1, &two, da, 2, db, 2), 7);
    SAME(cublasDtrsm_v2(handle, LEFT, UPPER, 0, 0, 2, 1, &two, da, 1, db, 2), 7);
    SAME(cublasDtrsm_v2(handle, LEFT, UPPER, 0, 0, 2, 1, NULL, da, 2, db, 2), 7);
}

static void sums(Handle handle) {
    static Geam *const GEAM[] = {cublasSgeam, cublasDgeam, cublasCgeam, cublasZgeam};
    static Dgmm *const DGMM[] = {cublasSdgmm, cublasDdgmm, cublasCdgmm, cublasZdgmm};
    for (int round = 0; round < 60; round++) {
        int type = round % 4, left = below(3), right = below(3), m = length(round), n = length(round + 1), longest = (m > n ? m : n) + below(4);
        void *a = numbers(type, longest * longest), *b = numbers(type, longest * longest), *got = malloc(SIZE[type] * longest * longest);
        double complex scalars[2];
        put(type, &scalars[0], 0, scalar(type, 0, 0)), put(type, &scalars[1], 0, scalar(type, 0, 0));
        size_t bytes = SIZE[type] * longest * longest;
        void *da = device(a, bytes), *db = device(b, bytes), *dc = device(a, bytes);
        SAME(GEAM[type](handle, left, right, m, n, &scalars[0], da, longest, &scalars[1], db, longest, dc, longest), 0);
        SAME(cudaMemcpy(got, dc, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++)
                near(type, get(type, got, j * longest + i),
                     get(type, &scalars[0], 0) * element(type, a, longest, left, i, j) + get(type, &scalars[1], 0) * element(type, b, longest, right, i, j), 8, __LINE__);
        int side = below(2), step = below(2) ? 1 : -2, count = side == LEFT ? m : n;
        void *x = numbers(type, 2 * count), *dx = device(x, SIZE[type] * 2 * count);
        SAME(DGMM[type](handle, side, m, n, da, longest, dx, step, dc, longest), 0);
        SAME(cudaMemcpy(got, dc, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < m; i++) {
                int index = side == LEFT ? i : j;
                near(type, get(type, got, j * longest + i), get(type, a, j * longest + i) * get(type, x, step == 1 ? index : (count - 1 - index) * 2), 8, __LINE__);
            }
        }
        cudaFree(da), cudaFree(db), cudaFree(dc), cudaFree(dx), free(a), free(b), free(x), free(got);
    }
    double one = 1, zero = 0, a[] = {1, 2, 3, 4}, got[4];
    double *da = device(a, sizeof a);
    /* In place as it lies there, and not transposed; B is not looked at where beta is 0. */
    SAME(cublasDgeam(handle, 0, 0, 2, 2, &one, da, 2, &one, da, 2, da, 2), 0);
    SAME(cudaMemcpy(got, da, sizeof a, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 2 && got[3] == 8);
    SAME(cublasDgeam(handle, 1, 0, 2, 2, &one, da, 2, &zero, NULL, 2, da, 2), 7);
    double *dc = device(a, sizeof a);
    SAME(cublasDgeam(handle, 1, 0, 2, 2, &one, da, 2, &zero, NULL, 2, dc, 2), 0);
    SAME(cudaMemcpy(got, dc, sizeof a, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[1] == 6 && got[2] == 4);
}

int main(void) {
    Handle handle;
    SAME(cublasCreate_v2(&handle), 0);
    symmetric(handle);
    ranks(handle);
    triangles(handle);
    sums(handle);
    /* Complex symmetric matrices have no conjugated form, hermitian ones no plain transposition. */
    double complex one = 1, matrix[4] = {1, 2, 3, 4};
    double unit = 1;
    void *a = device(matrix, sizeof matrix), *c = device(matrix, sizeof matrix);
    SAME(cublasZsyrk_v2(handle, UPPER, 2, 2, 2, &one, a, 2, &one, c, 2), 7);
    SAME(cublasZherk_v2(handle, UPPER, 1, 2, 2, &unit, a, 2, &unit, c, 2), 7);
    /* "The imaginary parts of the diagonal elements are assumed and set to zero", also where nothing is added. */
    double complex hermitian[4] = {1 + 5 * I, 7, 3 + 2 * I, 4 - 6 * I}, kept[4];
    double nothing = 0;
    void *sum = device(hermitian, sizeof hermitian);
    SAME(cublasZherk_v2(handle, UPPER, 0, 2, 2, &nothing, a, 2, &unit, sum, 2), 0);
    SAME(cudaMemcpy(kept, sum, sizeof kept, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(kept[0] == 1 && kept[1] == 7 && kept[2] == 3 + 2 * I && kept[3] == 4);
    /* Scalars in device memory. */
    double complex *scalars = device(matrix, sizeof matrix), got[4];
    SAME(cublasSetPointerMode_v2(handle, 1), 0);
    SAME(cublasZsymm_v2(handle, LEFT, UPPER, 2, 2, scalars, a, 2, a, 2, scalars + 1, c, 2), 0);
    SAME(cudaMemcpy(got, c, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    /* [1 3; 3 4] [1 3; 2 4] + 2 [1 3; 2 4] = [9 21; 15 33]. */
    EXPECT(got[0] == 9 && got[1] == 15 && got[2] == 21 && got[3] == 33);
    SAME(cublasDestroy_v2(handle), 0);
    return failures();
}
