/* cuBLAS's level 2 for matrices of which a half or a band is stored, against its definitions in plain loops in double precision:
   every type, storage, half, transposition and diagonal, of random sizes. What a routine must not read is NaN, and what it must not
   write stays. The functions are declared from NVIDIA's documentation. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "blas.h"

int cublasCreate_v2(Handle *), cublasDestroy_v2(Handle);
typedef int Gbmv(Handle, int, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
Gbmv cublasSgbmv_v2, cublasDgbmv_v2, cublasCgbmv_v2, cublasZgbmv_v2;
typedef int Symv(Handle, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
Symv cublasSsymv_v2, cublasDsymv_v2, cublasCsymv_v2, cublasZsymv_v2, cublasChemv_v2, cublasZhemv_v2;
typedef int Spmv(Handle, int, int, const void *, const void *, const void *, int, const void *, void *, int);
Spmv cublasSspmv_v2, cublasDspmv_v2, cublasChpmv_v2, cublasZhpmv_v2;
typedef int Sbmv(Handle, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
Sbmv cublasSsbmv_v2, cublasDsbmv_v2, cublasChbmv_v2, cublasZhbmv_v2;
typedef int Trmv(Handle, int, int, int, int, const void *, int, void *, int);
Trmv cublasStrmv_v2, cublasDtrmv_v2, cublasCtrmv_v2, cublasZtrmv_v2, cublasStrsv_v2, cublasDtrsv_v2, cublasCtrsv_v2, cublasZtrsv_v2;
typedef int Tpmv(Handle, int, int, int, int, const void *, void *, int);
Tpmv cublasStpmv_v2, cublasDtpmv_v2, cublasCtpmv_v2, cublasZtpmv_v2, cublasStpsv_v2, cublasDtpsv_v2, cublasCtpsv_v2, cublasZtpsv_v2;
typedef int Tbmv(Handle, int, int, int, int, int, const void *, int, void *, int);
Tbmv cublasStbmv_v2, cublasDtbmv_v2, cublasCtbmv_v2, cublasZtbmv_v2, cublasStbsv_v2, cublasDtbsv_v2, cublasCtbsv_v2, cublasZtbsv_v2;
typedef int Syr(Handle, int, int, const void *, const void *, int, void *, int);
Syr cublasSsyr_v2, cublasDsyr_v2, cublasCsyr_v2, cublasZsyr_v2, cublasCher_v2, cublasZher_v2;
typedef int Spr(Handle, int, int, const void *, const void *, int, void *);
Spr cublasSspr_v2, cublasDspr_v2, cublasChpr_v2, cublasZhpr_v2;
typedef int Syr2(Handle, int, int, const void *, const void *, int, const void *, int, void *, int);
Syr2 cublasSsyr2_v2, cublasDsyr2_v2, cublasCsyr2_v2, cublasZsyr2_v2, cublasCher2_v2, cublasZher2_v2;
typedef int Spr2(Handle, int, int, const void *, const void *, int, const void *, int, void *);
Spr2 cublasSspr2_v2, cublasDspr2_v2, cublasChpr2_v2, cublasZhpr2_v2;
int cublasDsymv_v2_64(Handle, int, int64_t, const double *, const double *, int64_t, const double *, int64_t, const double *, double *, int64_t);

enum { LOWER, UPPER };
enum { FULL, PACKED, BAND };

static int inside(int fill, int i, int j) { return fill == UPPER ? i <= j : i >= j; }

/* A vector of n numbers as BLAS stores it; the i-th is at `place`. */
typedef struct {
    void *host, *device;
    int n, step;
} Vector;
static int place(Vector x, int i) { return x.step > 0 ? i * x.step : (x.n - 1 - i) * -x.step; }
static size_t bytes(int type, Vector x) { return SIZE[type] * (size_t)(x.n * abs(x.step)); }
static Vector vector(int type, int n) {
    Vector x = {.n = n, .step = (1 + below(3)) * (below(2) ? 1 : -1)};
    x.host = numbers(type, n * abs(x.step));
    x.device = device(x.host, bytes(type, x));
    return x;
}
static double complex value(int type, Vector x, int i) { return get(type, x.host, place(x, i)); }
static void drop(Vector x) { cudaFree(x.device), free(x.host); }

/* The index of (i, j) of a square matrix, or -1 for what is not stored. */
static int index_of(int storage, int n, int ld, int diagonals, int fill, int i, int j) {
    if (!inside(fill, i, j)) return -1;
    if (storage == PACKED) return fill == UPPER ? i + j * (j + 1) / 2 : i - j + j * n - j * (j - 1) / 2;
    if (storage == FULL) return i + j * ld;
    if (abs(i - j) > diagonals) return -1;
    return fill == UPPER ? diagonals + i - j + j * ld : i - j + j * ld;
}

typedef struct {
    void *host, *device;
    int storage, n, ld, diagonals, fill, count;
} Half;

/* Everything that is not stored, and with `unit` the diagonal, is NaN. */
static Half half(int type, int storage, int n, int fill, int unit, double complex diagonal, double scale) {
    Half a = {.storage = storage, .n = n, .diagonals = below(n + 2), .fill = fill};
    a.ld = storage == BAND ? a.diagonals + 1 + below(3) : n + below(3);
    a.count = storage == PACKED ? n * (n + 1) / 2 : a.ld * n;
    a.host = numbers(type, a.count);
    for (int i = 0; i < a.count; i++) put(type, a.host, i, NAN + NAN * I);
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++) {
            int at = index_of(storage, n, a.ld, a.diagonals, fill, i, j);
            if (at >= 0 && !(unit && i == j)) put(type, a.host, at, (i == j ? diagonal : 0) + scale * (next() + next() * I));
        }
    }
    a.device = device(a.host, SIZE[type] * (size_t)a.count);
    return a;
}
static double complex at(int type, Half a, int i, int j) {
    int index = index_of(a.storage, a.n, a.ld, a.diagonals, a.fill, i, j);
    return index < 0 ? 0 : get(type, a.host, index);
}
static double complex whole(int type, Half a, int hermitian, int i, int j) {
    if (hermitian && i == j) return creal(at(type, a, i, j));
    if (inside(a.fill, i, j)) return at(type, a, i, j);
    return hermitian ? conj(at(type, a, j, i)) : at(type, a, j, i);
}
static double complex triangle(int type, Half a, int operation, int unit, int i, int j) {
    if (i == j && unit) return 1;
    double complex value = operation ? at(type, a, j, i) : at(type, a, i, j);
    return operation == 2 ? conj(value) : value;
}
static void release(Half a) { cudaFree(a.device), free(a.host); }

static double complex scalar(int type, int real, int zero) {
    double complex raw = zero ? 0 : next() + (real || type == S || type == D ? 0 : next() * I);
    double complex kept = 0;
    put(type, &kept, 0, raw);
    return get(type, &kept, 0);
}

static void bands(Handle handle) {
    static Gbmv *const GBMV[] = {cublasSgbmv_v2, cublasDgbmv_v2, cublasCgbmv_v2, cublasZgbmv_v2};
    for (int round = 0; round < 120; round++) {
        int type = round % 4, operation = below(3), m = 1 + below(20), n = 1 + below(20), under = below(m + 3), over = below(n + 3), ld = under + over + 1 + below(3);
        void *a = numbers(type, ld * n);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < ld; i++) {
                int row = i + j - over;
                if (row < 0 || row >= m || i > under + over) put(type, a, i + j * ld, NAN + NAN * I);
            }
        Vector x = vector(type, operation ? m : n), y = vector(type, operation ? n : m);
        double complex alpha = scalar(type, 0, 0), beta = scalar(type, 0, round % 3 == 0), scalars[2];
        put(type, &scalars[0], 0, alpha), put(type, &scalars[1], 0, beta);
        void *da = device(a, SIZE[type] * ld * n), *got = malloc(bytes(type, y));
        SAME(GBMV[type](handle, operation, m, n, under, over, &scalars[0], da, ld, x.device, x.step, &scalars[1], y.device, y.step), 0);
        SAME(cudaMemcpy(got, y.device, bytes(type, y), cudaMemcpyDeviceToHost), cudaSuccess);
        for (int i = 0; i < y.n; i++) {
            double complex sum = 0;
            for (int p = 0; p < x.n; p++) {
                int row = operation ? p : i, column = operation ? i : p;
                if (row - column > under || column - row > over) continue;
                double complex stored = get(type, a, over + row - column + column * ld);
                sum += (operation == 2 ? conj(stored) : stored) * value(type, x, p);
            }
            near(type, get(type, got, place(y, i)), alpha * sum + beta * value(type, y, i), 8 * x.n + 8, __LINE__);
        }
        cudaFree(da), free(a), free(got), drop(x), drop(y);
    }
}

static void products(Handle handle) {
    static Symv *const SYMV[] = {cublasSsymv_v2, cublasDsymv_v2, cublasCsymv_v2, cublasZsymv_v2}, *const HEMV[] = {NULL, NULL, cublasChemv_v2, cublasZhemv_v2};
    static Spmv *const SPMV[] = {cublasSspmv_v2, cublasDspmv_v2, cublasChpmv_v2, cublasZhpmv_v2};
    static Sbmv *const SBMV[] = {cublasSsbmv_v2, cublasDsbmv_v2, cublasChbmv_v2, cublasZhbmv_v2};
    for (int round = 0; round < 180; round++) {
        int type = round % 4, storage = round / 4 % 3, hermitian = type >= C && (storage != FULL || below(2)), fill = below(2), n = 1 + below(25);
        Half a = half(type, storage, n, fill, 0, hermitian ? 3 * I : 0, 1);
        Vector x = vector(type, n), y = vector(type, n);
        double complex alpha = scalar(type, 0, 0), beta = scalar(type, 0, round % 5 == 0), scalars[2];
        put(type, &scalars[0], 0, alpha), put(type, &scalars[1], 0, beta);
        void *got = malloc(bytes(type, y));
        if (storage == FULL && type == D && below(2))
            SAME(cublasDsymv_v2_64(handle, fill, n, (void *)&scalars[0], a.device, a.ld, x.device, x.step, (void *)&scalars[1], y.device, y.step), 0);
        else if (storage == FULL)
            SAME((hermitian ? HEMV : SYMV)[type](handle, fill, n, &scalars[0], a.device, a.ld, x.device, x.step, &scalars[1], y.device, y.step), 0);
        else if (storage == PACKED)
            SAME(SPMV[type](handle, fill, n, &scalars[0], a.device, x.device, x.step, &scalars[1], y.device, y.step), 0);
        else
            SAME(SBMV[type](handle, fill, n, a.diagonals, &scalars[0], a.device, a.ld, x.device, x.step, &scalars[1], y.device, y.step), 0);
        SAME(cudaMemcpy(got, y.device, bytes(type, y), cudaMemcpyDeviceToHost), cudaSuccess);
        for (int i = 0; i < n; i++) {
            double complex sum = 0;
            for (int p = 0; p < n; p++) sum += whole(type, a, hermitian, i, p) * value(type, x, p);
            near(type, get(type, got, place(y, i)), alpha * sum + beta * value(type, y, i), 8 * n + 8, __LINE__);
        }
        free(got), release(a), drop(x), drop(y);
    }
}

static void triangles(Handle handle) {
    static Trmv *const FULLS[][4] = {{cublasStrmv_v2, cublasDtrmv_v2, cublasCtrmv_v2, cublasZtrmv_v2}, {cublasStrsv_v2, cublasDtrsv_v2, cublasCtrsv_v2, cublasZtrsv_v2}};
    static Tpmv *const PACKEDS[][4] = {{cublasStpmv_v2, cublasDtpmv_v2, cublasCtpmv_v2, cublasZtpmv_v2}, {cublasStpsv_v2, cublasDtpsv_v2, cublasCtpsv_v2, cublasZtpsv_v2}};
    static Tbmv *const BANDS[][4] = {{cublasStbmv_v2, cublasDtbmv_v2, cublasCtbmv_v2, cublasZtbmv_v2}, {cublasStbsv_v2, cublasDtbsv_v2, cublasCtbsv_v2, cublasZtbsv_v2}};
    for (int round = 0; round < 360; round++) {
        int type = round % 4, storage = round / 4 % 3, solves = round / 12 % 2, fill = below(2), operation = below(3), unit = below(2), n = 1 + below(25);
        /* Far from singular. */
        Half a = half(type, storage, n, fill, unit, 2, solves ? 1.0 / n : 1);
        Vector x = vector(type, n), y = {.n = n, .step = x.step};
        y.host = malloc(bytes(type, x));
        if (storage == FULL)
            SAME(FULLS[solves][type](handle, fill, operation, unit, n, a.device, a.ld, x.device, x.step), 0);
        else if (storage == PACKED)
            SAME(PACKEDS[solves][type](handle, fill, operation, unit, n, a.device, x.device, x.step), 0);
        else
            SAME(BANDS[solves][type](handle, fill, operation, unit, n, a.diagonals, a.device, a.ld, x.device, x.step), 0);
        SAME(cudaMemcpy(y.host, x.device, bytes(type, x), cudaMemcpyDeviceToHost), cudaSuccess);
        for (int i = 0; i < n; i++) {
            double complex sum = 0;
            for (int p = 0; p < n; p++) sum += triangle(type, a, operation, unit, i, p) * value(type, solves ? y : x, p);
            near(type, sum, value(type, solves ? x : y, i), 16 * n + 16, __LINE__);
        }
        free(y.host), release(a), drop(x);
    }
}

static void ranks(Handle handle) {
    static Syr *const SYR[] = {cublasSsyr_v2, cublasDsyr_v2, cublasCsyr_v2, cublasZsyr_v2}, *const HER[] = {NULL, NULL, cublasCher_v2, cublasZher_v2};
    static Spr *const SPR[] = {cublasSspr_v2, cublasDspr_v2, cublasChpr_v2, cublasZhpr_v2};
    static Syr2 *const SYR2[] = {cublasSsyr2_v2, cublasDsyr2_v2, cublasCsyr2_v2, cublasZsyr2_v2}, *const HER2[] = {NULL, NULL, cublasCher2_v2, cublasZher2_v2};
    static Spr2 *const SPR2[] = {cublasSspr2_v2, cublasDspr2_v2, cublasChpr2_v2, cublasZhpr2_v2};
    for (int round = 0; round < 200; round++) {
        int type = round % 4, packed = round / 4 % 2, two = round / 8 % 2, hermitian = type >= C && (packed || below(2)), fill = below(2), n = 1 + below(25);
        Half a = half(type, packed ? PACKED : FULL, n, fill, 0, 0, 1);
        Vector x = vector(type, n), y = vector(type, n);
        int real = hermitian && !two, kind = real ? (type == C ? S : D) : type;
        double complex alpha = scalar(kind, real, 0), kept = 0;
        put(kind, &kept, 0, alpha);
        void *got = malloc(SIZE[type] * (size_t)a.count);
        if (two && packed)
            SAME(SPR2[type](handle, fill, n, &kept, x.device, x.step, y.device, y.step, a.device), 0);
        else if (two)
            SAME((hermitian ? HER2 : SYR2)[type](handle, fill, n, &kept, x.device, x.step, y.device, y.step, a.device, a.ld), 0);
        else if (packed)
            SAME(SPR[type](handle, fill, n, &kept, x.device, x.step, a.device), 0);
        else
            SAME((hermitian ? HER : SYR)[type](handle, fill, n, &kept, x.device, x.step, a.device, a.ld), 0);
        SAME(cudaMemcpy(got, a.device, SIZE[type] * (size_t)a.count, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < n; i++) {
                int index = index_of(a.storage, n, a.ld, 0, fill, i, j);
                if (index < 0) {
                    if (!packed) EXPECT(!memcmp((char *)got + SIZE[type] * (size_t)(i + j * a.ld), (char *)a.host + SIZE[type] * (size_t)(i + j * a.ld), SIZE[type]));
                    continue;
                }
                double complex xi = value(type, x, i), xj = value(type, x, j), yi = value(type, y, i), yj = value(type, y, j), wanted = at(type, a, i, j);
                if (two)
                    wanted += hermitian ? alpha * xi * conj(yj) + conj(alpha) * yi * conj(xj) : alpha * (xi * yj + yi * xj);
                else
                    wanted += alpha * xi * (hermitian ? conj(xj) : xj);
                if (hermitian && i == j) wanted = creal(wanted);
                near(type, get(type, got, index), wanted, 16, __LINE__);
            }
        }
        free(got), release(a), drop(x), drop(y);
    }
}

int main(void) {
    Handle handle;
    SAME(cublasCreate_v2(&handle), 0);
    bands(handle);
    products(handle);
    triangles(handle);
    ranks(handle);
    /* [2 0; 1 4] in a band of one diagonal below: (2 1) and (4 -). x = (2, 9): the solution is (1, 2). */
    double a[] = {2, 1, 4, NAN}, x[] = {2, 9}, one = 1, got[2];
    void *da = device(a, sizeof a), *dx = device(x, sizeof x);
    SAME(cublasDtbsv_v2(handle, LOWER, 0, 0, 2, 1, da, 2, dx, 1), 0);
    SAME(cudaMemcpy(got, dx, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 1 && got[1] == 2);
    SAME(cublasDtbsv_v2(handle, LOWER, 0, 0, 2, 1, da, 1, dx, 1), 7);
    SAME(cublasDtbsv_v2(handle, LOWER, 0, 0, 2, -1, da, 2, dx, 1), 7);
    SAME(cublasDtbsv_v2(handle, LOWER, 0, 0, 2, 1, da, 2, dx, 0), 7);
    SAME(cublasDtrmv_v2(handle, 2, 0, 0, 2, da, 2, dx, 1), 7);
    SAME(cublasDtrmv_v2(handle, LOWER, 0, 2, 2, da, 2, dx, 1), 7);
    SAME(cublasDspr_v2(handle, LOWER, 2, NULL, dx, 1, da), 7);
    SAME(cublasDsyr_v2(handle, LOWER, 2, &one, dx, 1, da, 1), 7);
    SAME(cublasDsyr_v2(handle, LOWER, 3, &one, dx, 1, da, 3), 13); /* leaves its allocation */
    /* The last column of a lower triangle without its diagonal is empty: the matrix still has to be there. */
    void *short_matrix, *three;
    SAME(cudaMalloc(&short_matrix, 3 * sizeof(double)), cudaSuccess);
    SAME(cudaMalloc(&three, 3 * sizeof(double)), cudaSuccess);
    SAME(cublasDtrmv_v2(handle, LOWER, 0, 1, 130, short_matrix, 130, three, 1), 13);
    SAME(cublasDtrmv_v2(handle, LOWER, 0, 1, 3, short_matrix, 1000, three, 1), 13);
    SAME(cublasDtpmv_v2(handle, LOWER, 0, 1, 130, short_matrix, three, 1), 13);
    /* With alpha 0 a NaN in A or x is not seen. */
    double nans[] = {NAN, NAN, NAN, NAN}, zero = 0, y[] = {5, 7};
    void *dn = device(nans, sizeof nans), *dy = device(y, sizeof y);
    SAME(cublasDsymv_v2(handle, LOWER, 2, &zero, dn, 2, dn, 1, &one, dy, 1), 0);
    SAME(cublasDgbmv_v2(handle, 0, 2, 2, 0, 1, &zero, dn, 2, dn, 1, &one, dy, 1), 0);
    SAME(cublasDspr_v2(handle, UPPER, 1, &zero, dn, 1, dy), 0);
    SAME(cudaMemcpy(got, dy, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(got[0] == 5 && got[1] == 7);
    SAME(cublasDestroy_v2(handle), 0);
    return failures();
}
