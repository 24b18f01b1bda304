/* What tests of cuBLAS share: random numbers of its four types, and matrices of them in memory. */
#include <complex.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "check.h"

typedef void *Handle;

static unsigned state = 1;
static double next(void) {
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 23) - 1;
}
static int below(int most) { return (int)((next() + 1) / 2 * most); }

static void *device(const void *data, size_t bytes) {
    void *pointer = NULL;
    SAME(cudaMalloc(&pointer, bytes), cudaSuccess);
    SAME(cudaMemcpy(pointer, data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return pointer;
}

enum { S, D, C, Z };
static const size_t SIZE[] = {4, 8, 8, 16};

static void put(int type, void *at, int index, double complex value) {
    switch (type) {
    case S: ((float *)at)[index] = (float)creal(value); break;
    case D: ((double *)at)[index] = creal(value); break;
    case C: ((float complex *)at)[index] = (float complex)value; break;
    default: ((double complex *)at)[index] = value;
    }
}
static double complex get(int type, const void *at, int index) {
    switch (type) {
    case S: return ((const float *)at)[index];
    case D: return ((const double *)at)[index];
    case C: return ((const float complex *)at)[index];
    default: return ((const double complex *)at)[index];
    }
}
static void *numbers(int type, int count) {
    void *data = calloc((size_t)count, SIZE[type]);
    for (int i = 0; i < count; i++) put(type, data, i, next() + next() * I);
    return data;
}
static inline double complex element(int type, const void *a, int lda, int operation, int i, int j) {
    double complex value = operation ? get(type, a, i * lda + j) : get(type, a, j * lda + i);
    return operation == 2 ? conj(value) : value;
}
static void near(int type, double complex got, double complex wanted, double terms, int line) {
    double most = terms * (type == S || type == C ? 4e-7 : 1e-15);
    if (!(cabs(got - wanted) <= most)) {
        failed++;
        fprintf(stderr, "line %d: type %d: %g%+gi, not %g%+gi\n", line, type, creal(got), cimag(got), creal(wanted), cimag(wanted));
    }
}
