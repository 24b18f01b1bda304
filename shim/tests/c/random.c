/* cuRAND, declared here by hand from its documentation: generators on top of random_library.c, or a gap without it. */
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdlib.h>

#include "check.h"

int curandCreateGenerator(void **, int), curandCreateGeneratorHost(void **, int), curandDestroyGenerator(void *);
int curandSetPseudoRandomGeneratorSeed(void *, unsigned long long), curandSetStream(void *, cudaStream_t);
int curandSetGeneratorOrdering(void *, int), curandGenerateUniformDouble(void *, double *, size_t);
int curandGenerateNormal(void *, float *, size_t, float, float), curandGeneratePoisson(void *, unsigned *, size_t, double);

enum { NOT_INITIALIZED = 101, TYPE_ERROR = 103, NOT_MULTIPLE = 105, LAUNCH_FAILURE = 201, ARCH_MISMATCH = 204 };
enum { DEFAULT = 100, DYNAMIC = 104 };

int main(void) {
    void *generator = NULL;
    if (!getenv("CUDA_PATH")) {
        SAME(curandCreateGenerator(&generator, DEFAULT), ARCH_MISMATCH);
        return failures();
    }
    SAME(curandGenerateUniformDouble((void *)8, NULL, 0), NOT_INITIALIZED);
    SAME(curandCreateGenerator(&generator, 7), TYPE_ERROR);
    SAME(curandCreateGenerator(&generator, DEFAULT), 0);
    SAME(curandSetPseudoRandomGeneratorSeed(generator, 5000000000), 0);
    SAME(curandSetGeneratorOrdering(generator, DYNAMIC), ARCH_MISMATCH);
    cudaStream_t stream;
    SAME(cudaStreamCreate(&stream), 0);
    SAME(curandSetStream(generator, stream), 0);

    void *device;
    SAME(cudaMalloc(&device, 1000 * sizeof(double)), 0);
    SAME(curandGenerateUniformDouble(generator, device, 1000), 0);
    double first[1000];
    SAME(cudaMemcpyAsync(first, device, sizeof first, cudaMemcpyDeviceToHost, stream), 0);
    EXPECT(first[0] == 5e9 && first[999] == 5000000999.0);
    SAME(curandGenerateUniformDouble(generator, device, 1001), LAUNCH_FAILURE);

    SAME(curandSetPseudoRandomGeneratorSeed(generator, 3), 0);
    SAME(curandGenerateNormal(generator, device, 3, 1, 2), NOT_MULTIPLE);
    SAME(curandGenerateNormal(generator, device, 4, 1, 2), 0);
    float second[4];
    SAME(cudaMemcpyAsync(second, device, sizeof second, cudaMemcpyDeviceToHost, stream), 0);
    EXPECT(second[0] == 7 && second[3] == 13);
    SAME(curandGeneratePoisson(generator, device, 2, 1.5), 0);
    unsigned third[2];
    SAME(cudaMemcpyAsync(third, device, sizeof third, cudaMemcpyDeviceToHost, stream), 0);
    EXPECT(third[0] == 10 && third[1] == 12);

    /* The graph would have to make other numbers each time. */
    cudaGraph_t graph;
    SAME(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), 0);
    SAME(curandGeneratePoisson(generator, device, 2, 1.5), ARCH_MISMATCH);
    SAME(cudaStreamEndCapture(stream, &graph), 0);
    SAME(curandDestroyGenerator(generator), 0);
    SAME(curandDestroyGenerator(generator), NOT_INITIALIZED);

    /* A generator for the host writes where it is told to, now. */
    SAME(curandCreateGeneratorHost(&generator, DEFAULT), 0);
    SAME(curandGenerateUniformDouble(generator, first, 2), 0);
    EXPECT(first[0] == 0 && first[1] == 1);
    SAME(curandDestroyGenerator(generator), 0);
    SAME(cudaFree(device), 0);
    return failures();
}
