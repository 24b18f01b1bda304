/* cuFFT, declared here by hand from its documentation: plans, layouts, directions, streams, and what it refuses. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stddef.h>

#include "check.h"

int cufftCreate(int *), cufftDestroy(int), cufftSetStream(int, cudaStream_t), cufftGetSize(int, size_t *);
int cufftPlan1d(int *, int, int, int), cufftPlan2d(int *, int, int, int);
int cufftPlanMany(int *, int, int *, int *, int, int, int *, int, int, int, int);
int cufftMakePlan1d(int, int, int, int, size_t *);
int cufftXtMakePlanMany(int, int, long long *, long long *, long long, long long, int, long long *, long long, long long, int, long long, size_t *, int);
int cufftExecC2C(int, void *, void *, int), cufftExecR2C(int, void *, void *), cufftExecC2R(int, void *, void *);
int cufftExecZ2Z(int, void *, void *, int), cufftXtExec(int, void *, void *, int);

enum { INVALID_PLAN = 1, INVALID_VALUE = 4, INVALID_SIZE = 8, NOT_SUPPORTED = 16 };
enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, Z2Z = 0x69, FORWARD = -1, INVERSE = 1, C_16F = 6, C_64F = 5 };

static int is_near(double got, double wanted) { return fabs(got - wanted) < 1e-4 * (1 + fabs(wanted)); }

int main(void) {
    int plan, other;
    size_t work;
    void *memory, *second;
    cudaStream_t stream;
    SAME(cudaMalloc(&memory, 4096), 0);
    SAME(cudaMalloc(&second, 4096), 0);
    SAME(cudaStreamCreate(&stream), 0);

    /* A wave that turns three times is one number among eight, and comes back eight times as large. */
    SAME(cufftPlan1d(&plan, 8, C2C, 1), 0);
    SAME(cufftSetStream(plan, stream), 0);
    float wave[16];
    for (int i = 0; i < 8; i++) {
        wave[2 * i] = cosf(2 * (float)M_PI * 3 * i / 8);
        wave[2 * i + 1] = sinf(2 * (float)M_PI * 3 * i / 8);
    }
    float got[16];
    SAME(cudaMemcpyAsync(memory, wave, sizeof wave, cudaMemcpyHostToDevice, stream), 0);
    SAME(cufftExecC2C(plan, memory, second, FORWARD), 0);
    SAME(cudaMemcpyAsync(got, second, sizeof got, cudaMemcpyDeviceToHost, stream), 0);
    SAME(cudaStreamSynchronize(stream), 0);
    for (int i = 0; i < 8; i++) EXPECT(is_near(got[2 * i], i == 3 ? 8 : 0) && is_near(got[2 * i + 1], 0));
    SAME(cufftExecC2C(plan, second, second, INVERSE), 0);
    SAME(cudaMemcpyAsync(got, second, sizeof got, cudaMemcpyDeviceToHost, stream), 0);
    SAME(cudaStreamSynchronize(stream), 0);
    for (int i = 0; i < 16; i++) EXPECT(is_near(got[i], 8 * wave[i]));
    SAME(cufftExecC2C(plan, memory, second, 0), INVALID_VALUE);
    SAME(cufftExecC2C(plan, NULL, second, FORWARD), INVALID_VALUE);
    SAME(cufftExecR2C(plan, memory, second), INVALID_VALUE);

    /* The other plan has another number. Three rows of five real numbers, and back. */
    SAME(cufftPlan2d(&other, 3, 5, R2C), 0);
    EXPECT(other != plan);
    float rows[15], half[18];
    for (int i = 0; i < 15; i++) rows[i] = (float)(i * 7 % 11);
    SAME(cudaMemcpy(memory, rows, sizeof rows, cudaMemcpyHostToDevice), 0);
    SAME(cufftExecR2C(other, memory, second), 0);
    SAME(cudaMemcpy(half, second, sizeof half, cudaMemcpyDeviceToHost), 0);
    float sum = 0;
    for (int i = 0; i < 15; i++) sum += rows[i];
    EXPECT(is_near(half[0], sum) && is_near(half[1], 0));
    SAME(cufftDestroy(other), 0);
    SAME(cufftDestroy(other), INVALID_PLAN);
    SAME(cufftPlan2d(&other, 3, 5, C2R), 0);
    SAME(cufftExecC2R(other, second, memory), 0);
    float back[15];
    SAME(cudaMemcpy(back, memory, sizeof back, cudaMemcpyDeviceToHost), 0);
    for (int i = 0; i < 15; i++) EXPECT(is_near(back[i], 15 * rows[i]));
    SAME(cufftDestroy(other), 0);

    /* Every second number of two batches; the sums are those of 0, 2, 4 and of 7, 9, 11. */
    int three = 3, embedding = 7;
    SAME(cufftPlanMany(&other, 1, &three, &embedding, 2, 7, &three, 1, 3, C2C, 2), 0);
    float counted[28] = {0};
    for (int i = 0; i < 14; i++) counted[2 * i] = (float)i;
    SAME(cudaMemcpy(memory, counted, sizeof counted, cudaMemcpyHostToDevice), 0);
    SAME(cufftExecC2C(other, memory, second, FORWARD), 0);
    SAME(cudaMemcpy(got, second, 12 * sizeof *got, cudaMemcpyDeviceToHost), 0);
    EXPECT(is_near(got[0], 6) && is_near(got[6], 27));
    SAME(cufftDestroy(other), 0);

    /* Made in two steps, once, of double numbers. */
    long long four = 4;
    SAME(cufftCreate(&other), 0);
    SAME(cufftExecZ2Z(other, memory, second, FORWARD), INVALID_PLAN);
    SAME(cufftXtMakePlanMany(other, 1, &four, NULL, 1, 1, C_16F, NULL, 1, 1, C_16F, 1, &work, C_16F), NOT_SUPPORTED);
    SAME(cufftXtMakePlanMany(other, 1, &four, NULL, 1, 1, C_64F, NULL, 1, 1, C_64F, 1, &work, C_64F), 0);
    SAME(cufftMakePlan1d(other, 4, Z2Z, 1, &work), INVALID_PLAN);
    size_t again;
    SAME(cufftGetSize(other, &again), 0);
    SAME(again, work);
    double numbers[8] = {1, 0, 2, 0, 3, 0, 4, 0}, found[8];
    SAME(cudaMemcpy(memory, numbers, sizeof numbers, cudaMemcpyHostToDevice), 0);
    SAME(cufftXtExec(other, memory, second, FORWARD), 0);
    SAME(cudaMemcpy(found, second, sizeof found, cudaMemcpyDeviceToHost), 0);
    double expected[8] = {10, 0, -2, 2, -2, 0, -2, -2};
    for (int i = 0; i < 8; i++) EXPECT(fabs(found[i] - expected[i]) < 1e-12);

    SAME(cufftPlan1d(&other, 0, C2C, 1), INVALID_SIZE);
    SAME(cufftPlan1d(&other, 8, C2C, 0), INVALID_SIZE);
    SAME(cufftPlan1d(&other, 8, 3, 1), INVALID_VALUE);
    SAME(cufftPlan1d(NULL, 8, C2C, 1), INVALID_VALUE);
    SAME(cufftExecC2C(77, memory, second, FORWARD), INVALID_PLAN);
    /* Behind the end of the memory. */
    SAME(cufftPlan1d(&other, 1024, C2C, 1), 0);
    SAME(cufftExecC2C(other, memory, second, FORWARD), 6);
    return failures();
}
