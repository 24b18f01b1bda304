/* Streams and events: order, host functions, queries, timing, what waits for what. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "check.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int order[8], steps;

static void blocked(void *argument) {
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    order[steps++] = (int)(size_t)argument;
}

static void step(void *argument) { order[steps++] = (int)(size_t)argument; }

static int create_context(CUcontext *context) {
#if CUDA_VERSION >= 13000
    return cuCtxCreate(context, NULL, 0, 0);
#else
    return cuCtxCreate(context, 0, 0);
#endif
}

/* A stream belongs to the context that it was created in, whichever is current; a default stream to the current one. */
static void contexts(void) {
    CUcontext first, second, of;
    CUstream in_first, in_second;
    SAME(create_context(&first), CUDA_SUCCESS);
    SAME(cuStreamCreate(&in_first, 0), CUDA_SUCCESS);
    SAME(create_context(&second), CUDA_SUCCESS);
    SAME(cuStreamCreate(&in_second, 0), CUDA_SUCCESS);
    SAME(cuStreamGetCtx(in_first, &of), CUDA_SUCCESS);
    EXPECT(of == first);
    SAME(cuStreamGetCtx(in_second, &of), CUDA_SUCCESS);
    EXPECT(of == second);
    SAME(cuStreamGetCtx(NULL, &of), CUDA_SUCCESS);
    EXPECT(of == second);
    SAME(cuCtxSetCurrent(first), CUDA_SUCCESS);
    SAME(cuStreamGetCtx(in_second, &of), CUDA_SUCCESS);
    EXPECT(of == second);
    SAME(cuStreamGetCtx(NULL, &of), CUDA_SUCCESS);
    EXPECT(of == first);
    SAME(cuStreamDestroy(in_first), CUDA_SUCCESS);
    SAME(cuStreamDestroy(in_second), CUDA_SUCCESS);
    SAME(cuCtxDestroy(second), CUDA_SUCCESS);
    SAME(cuCtxDestroy(first), CUDA_SUCCESS);
}

int main(void) {
    cudaStream_t one, two;
    cudaEvent_t start, end, fast;
    int least = 0, greatest = 0, priority = 7;
    float milliseconds = -1;
    SAME(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
    EXPECT(greatest <= least);
    SAME(cudaStreamCreateWithPriority(&one, cudaStreamNonBlocking, greatest), cudaSuccess);
    SAME(cudaStreamGetPriority(one, &priority), cudaSuccess);
    SAME(priority, greatest);
    SAME(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking), cudaSuccess);
    SAME(cudaEventCreate(&start), cudaSuccess);
    SAME(cudaEventCreate(&end), cudaSuccess);
    SAME(cudaEventCreateWithFlags(&fast, cudaEventDisableTiming), cudaSuccess);
    SAME(cudaStreamQuery(one), cudaSuccess);
    SAME(cudaEventQuery(fast), cudaSuccess);

    /* While the gate is shut: one is busy, and two waits for one's event. */
    pthread_mutex_lock(&gate);
    SAME(cudaEventRecord(start, one), cudaSuccess);
    SAME(cudaLaunchHostFunc(one, blocked, (void *)1), cudaSuccess);
    SAME(cudaEventRecord(end, one), cudaSuccess);
    SAME(cudaEventRecord(fast, one), cudaSuccess);
    SAME(cudaStreamWaitEvent(two, fast, 0), cudaSuccess);
    SAME(cudaLaunchHostFunc(two, step, (void *)2), cudaSuccess);
    SAME(cudaStreamQuery(one), cudaErrorNotReady);
    SAME(cudaStreamQuery(two), cudaErrorNotReady);
    SAME(cudaEventQuery(end), cudaErrorNotReady);
    SAME(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
    pthread_mutex_unlock(&gate);

    SAME(cudaStreamSynchronize(two), cudaSuccess);
    SAME(cudaLaunchHostFunc(two, step, (void *)3), cudaSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(steps, 3);
    for (int i = 0; i < 3; i++) SAME(order[i], i + 1);
    SAME(cudaEventSynchronize(end), cudaSuccess);
    SAME(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
    EXPECT(milliseconds >= 0);
    SAME(cudaEventElapsedTime(&milliseconds, start, fast), cudaErrorInvalidResourceHandle);

    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusActive;
    SAME(cudaStreamIsCapturing(one, &capture), cudaSuccess);
    SAME(capture, cudaStreamCaptureStatusNone);
    SAME(cudaEventDestroy(start), cudaSuccess);
    SAME(cudaEventDestroy(end), cudaSuccess);
    SAME(cudaEventDestroy(fast), cudaSuccess);
    SAME(cudaStreamDestroy(one), cudaSuccess);
    SAME(cudaStreamDestroy(two), cudaSuccess);
    EXPECT(cudaStreamQuery(two) != cudaSuccess);
    contexts();
    return failures();
}
