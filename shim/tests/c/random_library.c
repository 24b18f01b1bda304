/* A stand-in for NVIDIA's libcurand: a generator for the host counts, in place of random numbers. */
#include <stddef.h>
#include <stdlib.h>

struct generator {
    int kind;
    unsigned long long next;
};

int curandGetVersion(int *version) {
    *version = 1;
    return 0;
}

int curandCreateGeneratorHost(struct generator **generator, int kind) {
    if (kind != 100) return 103; /* CURAND_STATUS_TYPE_ERROR */
    *generator = calloc(1, sizeof **generator);
    return 0;
}

int curandDestroyGenerator(struct generator *generator) {
    free(generator);
    return 0;
}

int curandSetPseudoRandomGeneratorSeed(struct generator *generator, unsigned long long seed) {
    generator->next = seed;
    return 0;
}

int curandGenerateUniformDouble(struct generator *generator, double *to, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = (double)generator->next++;
    return 0;
}

int curandGenerateNormal(struct generator *generator, float *to, size_t count, float mean, float deviation) {
    if (count % 2) return 105; /* CURAND_STATUS_LENGTH_NOT_MULTIPLE */
    for (size_t i = 0; i < count; i++) to[i] = mean + deviation * (float)generator->next++;
    return 0;
}

int curandGeneratePoisson(struct generator *generator, unsigned *to, size_t count, double lambda) {
    for (size_t i = 0; i < count; i++) to[i] = (unsigned)(lambda * (double)generator->next++);
    return 0;
}
