// Two ranks as threads that disagree on a count: the failure of each says which function called.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>

#include "check.h"

static ncclComm_t communicators[2];
static cudaStream_t streams[2];
static float *buffers[2];

static void calls_eight(void) {
    ncclAllReduce(buffers[0], buffers[0], 8, ncclFloat32, ncclSum, communicators[0], streams[0]);
}

void *calls_four(void *unused) {
    cudaSetDevice(1);
    ncclAllReduce(buffers[1], buffers[1], 4, ncclFloat32, ncclSum, communicators[1], streams[1]);
    cudaStreamSynchronize(streams[1]);
    return unused;
}

int main(void) {
    for (int rank = 0; rank < 2; rank++) {
        cudaSetDevice(rank);
        cudaStreamCreate(&streams[rank]);
        cudaMalloc((void **)&buffers[rank], 64);
    }
    SAME(ncclCommInitAll(communicators, 2, NULL), ncclSuccess);
    pthread_t other;
    pthread_create(&other, NULL, calls_four, NULL);
    cudaSetDevice(0);
    calls_eight();
    cudaStreamSynchronize(streams[0]);
    pthread_join(other, NULL);
    return failures();
}
