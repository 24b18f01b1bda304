/* Communicator, stream and buffers of different devices, in one process with two: NCCL launches on the communicator's device, so
 * CUDA refuses the stream (an unhandled CUDA error), and a buffer of another device is an invalid argument (NCCL's user guide,
 * "Data Pointers"). What is right afterwards goes on as if nothing had been. */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "check.h"

enum { COUNT = 64, BYTES = COUNT * sizeof(float) };

static ncclComm_t comms[2];
static cudaStream_t streams[2];
static float *memory[2], *other[2], *managed;

static void make(void) {
    SAME(ncclCommInitAll(comms, 2, NULL), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) {
        float host[COUNT];
        for (int i = 0; i < COUNT; i++) host[i] = (float)(i + rank);
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(cudaStreamCreate(&streams[rank]), cudaSuccess);
        SAME(cudaMalloc((void **)&memory[rank], BYTES), cudaSuccess);
        SAME(cudaMalloc((void **)&other[rank], BYTES), cudaSuccess);
        SAME(cudaMemcpy(memory[rank], host, BYTES, cudaMemcpyHostToDevice), cudaSuccess);
    }
    SAME(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal), cudaSuccess);
}

/* Both ranks in one group, each with this stream and this receive buffer. */
static ncclResult_t sum(cudaStream_t *on, float **to) {
    SAME(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) (void)ncclAllReduce(memory[rank], to[rank], COUNT, ncclFloat, ncclSum, comms[rank], on[rank]);
    return ncclGroupEnd();
}

static void right(cudaStream_t *on, float **to) {
    for (int rank = 0; rank < 2; rank++) SAME(cudaMemset(to[rank], 0, BYTES), cudaSuccess);
    SAME(sum(on, to), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) {
        float host[COUNT];
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(cudaDeviceSynchronize(), cudaSuccess);
        SAME(cudaMemcpy(host, to[rank], BYTES, cudaMemcpyDefault), cudaSuccess);
        SAME(host[COUNT - 1], 2 * (COUNT - 1) + 1);
    }
}

static void streams_of_another(void) {
    ncclComm_t comm = comms[0];
    cudaStream_t swapped[] = {streams[1], streams[0]}, wrong = streams[1];
    float *from = memory[0], *to = other[0];
    SAME(sum(swapped, other), ncclUnhandledCudaError);
    EXPECT(strstr(ncclGetLastError(comm), "the stream belongs to device") != NULL);
    SAME(ncclAllReduce(from, to, COUNT, ncclFloat, ncclSum, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclReduce(from, to, COUNT, ncclFloat, ncclSum, 0, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclBroadcast(from, to, COUNT, ncclFloat, 0, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclBcast(to, COUNT, ncclFloat, 0, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclAllGather(from, to, COUNT / 2, ncclFloat, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclReduceScatter(from, to, COUNT / 2, ncclFloat, ncclSum, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclSend(from, COUNT, ncclFloat, 1, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclRecv(to, COUNT, ncclFloat, 1, comm, wrong), ncclUnhandledCudaError);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    SAME(ncclAlltoAll(from, to, COUNT / 2, ncclFloat, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclGather(from, to, COUNT / 2, ncclFloat, 0, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclScatter(from, to, COUNT / 2, ncclFloat, 0, comm, wrong), ncclUnhandledCudaError);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
    ncclWaitSignalDesc_t wait = {1, 1, 0, 0};
    SAME(ncclSignal(1, 0, 0, 0, comm, wrong), ncclUnhandledCudaError);
    SAME(ncclWaitSignal(1, &wait, comm, wrong), ncclUnhandledCudaError);
#endif
    /* It is not a failure of the communicator. */
    ncclResult_t state = ncclInternalError;
    SAME(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    SAME(state, ncclSuccess);
}

static void buffers_of_another(void) {
    ncclComm_t comm = comms[0];
    float *swapped[] = {other[1], other[0]};
    void *handle = NULL;
    ncclRedOp_t scaled;
    SAME(sum(streams, swapped), ncclInvalidArgument);
    SAME(ncclSend(memory[1], COUNT, ncclFloat, 1, comm, streams[0]), ncclInvalidArgument);
    SAME(ncclCommRegister(comm, memory[1], BYTES, &handle), ncclInvalidArgument);
    SAME(ncclCommRegister(comm, memory[0], BYTES, &handle), ncclSuccess);
    SAME(ncclCommDeregister(comm, handle), ncclSuccess);
    ncclWindow_t window;
    SAME(ncclCommWindowRegister(comm, memory[1], BYTES, &window, 0), ncclInvalidArgument);
    /* The factor of a reduction, in device memory: "dereferenced while the collective is running". */
    SAME(ncclRedOpCreatePreMulSum(&scaled, memory[1], ncclFloat, ncclScalarDevice, comm), ncclSuccess);
    SAME(ncclAllReduce(memory[0], other[0], COUNT, ncclFloat, scaled, comm, streams[0]), ncclInvalidArgument);
    SAME(ncclRedOpDestroy(scaled, comm), ncclSuccess);
    /* Managed memory is every device's. */
    for (int rank = 0; rank < 2; rank++) {
        float *to[] = {rank == 0 ? managed : other[0], rank == 1 ? managed : other[1]};
        right(streams, to);
    }
}

int main(void) {
    make();
    /* Whatever device is current, the default streams are those of the communicator's. */
    cudaStream_t none[] = {NULL, NULL}, own[] = {cudaStreamPerThread, cudaStreamPerThread};
    right(streams, other), right(none, other), right(own, other);
    streams_of_another();
    right(streams, other);
    buffers_of_another();
    right(streams, other);
    for (int rank = 0; rank < 2; rank++) SAME(ncclCommDestroy(comms[rank]), ncclSuccess);
    return failures();
}
