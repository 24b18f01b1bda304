/* Puts, signals and waits for signals (NCCL 2.29 and later) between two ranks of one process, and what is refused. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdint.h>

#include "check.h"

enum { COUNT = 100000, BYTES = COUNT * sizeof(float) };

static ncclComm_t comms[2];
static cudaStream_t streams[2];
static float *out[2], *in[2];
static ncclWindow_t out_windows[2], in_windows[2];
static float host[COUNT];

static ncclWaitSignalDesc_t from(int peer, int count) {
    ncclWaitSignalDesc_t wait = {count, peer, 0, 0};
    return wait;
}

static void fill(int rank, float first) {
    for (int i = 0; i < COUNT; i++) host[i] = first + i;
    SAME(cudaSetDevice(rank), cudaSuccess);
    SAME(cudaMemcpy(out[rank], host, BYTES, cudaMemcpyHostToDevice), cudaSuccess);
}

static void holds(int rank, int at, int count, float first) {
    SAME(cudaSetDevice(rank), cudaSuccess);
    SAME(cudaMemcpy(host, in[rank], BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < count; i++) {
        if (host[at + i] != first + i) {
            SAME(host[at + i], first + i);
            return;
        }
    }
}

/* Both put half of a buffer into the second half of the other's, each in its stream; nobody synchronizes in between. */
static void exchange(void) {
    for (int rank = 0; rank < 2; rank++) fill(rank, 1000 * rank);
    for (int rank = 0; rank < 2; rank++) {
        int peer = 1 - rank;
        ncclWaitSignalDesc_t wait = from(peer, 1);
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(ncclPutSignal(out[rank], COUNT / 2, ncclFloat, peer, in_windows[rank], BYTES / 2, 0, 0, 0, comms[rank],
                           streams[rank]), ncclSuccess);
        SAME(ncclWaitSignal(1, &wait, comms[rank], streams[rank]), ncclSuccess);
    }
    for (int rank = 0; rank < 2; rank++) SAME(cudaStreamSynchronize(streams[rank]), cudaSuccess);
    for (int rank = 0; rank < 2; rank++) holds(rank, COUNT / 2, COUNT / 2, 1000 * (1 - rank));
}

/* A stream stands still until the last of its signals: two from the other rank and one from itself. */
static void signals(void) {
    ncclWaitSignalDesc_t waits[2] = {from(1, 2), from(0, 1)};
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(ncclSignal(0, 0, 0, 0, comms[0], streams[0]), ncclSuccess);
    SAME(ncclWaitSignal(2, waits, comms[0], streams[0]), ncclSuccess);
    SAME(cudaStreamQuery(streams[0]), cudaErrorNotReady);
    SAME(ncclSignal(0, 0, 0, 0, comms[1], streams[1]), ncclSuccess);
    SAME(cudaStreamSynchronize(streams[1]), cudaSuccess);
    SAME(cudaStreamQuery(streams[0]), cudaErrorNotReady);
    SAME(ncclSignal(0, 0, 0, 0, comms[1], streams[1]), ncclSuccess);
    SAME(cudaStreamSynchronize(streams[0]), cudaSuccess);
}

/* One group for both ranks; puts to one rank arrive in order, and a wait in the group comes after them. */
static void group(void) {
    for (int rank = 0; rank < 2; rank++) fill(rank, 7 + rank);
    SAME(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) {
        ncclWaitSignalDesc_t wait = from(1 - rank, 3);
        for (int part = 0; part < 3; part++)
            SAME(ncclPutSignal(out[rank] + part, COUNT - 2, ncclFloat, 1 - rank, in_windows[rank], 0, 0, 0, 0, comms[rank],
                               streams[rank]), ncclSuccess);
        SAME(ncclWaitSignal(1, &wait, comms[rank], streams[rank]), ncclSuccess);
    }
    SAME(ncclGroupEnd(), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) SAME(cudaStreamSynchronize(streams[rank]), cudaSuccess);
    for (int rank = 0; rank < 2; rank++) holds(rank, 0, COUNT - 2, 9 + (1 - rank));
}

static ncclResult_t put(const void *local, size_t count, int peer, ncclWindow_t window, size_t offset, int index, int context,
                        unsigned flags) {
    return ncclPutSignal(local, count, ncclFloat, peer, window, offset, index, context, flags, comms[0], streams[0]);
}

/* What NCCL refuses at the call. The communicator works on. */
static void mistakes(void) {
    ncclWaitSignalDesc_t wait = from(1, 1), wrong;
    float *elsewhere;
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(cudaMalloc((void **)&elsewhere, 64), cudaSuccess);
    SAME(put(NULL, 1, 1, in_windows[0], 0, 0, 0, 0), ncclInvalidArgument);
    SAME(put(elsewhere, 1, 1, in_windows[0], 0, 0, 0, 0), ncclInvalidArgument); /* in no window */
    SAME(put(out[0], 1, 1, NULL, 0, 0, 0, 0), ncclInvalidArgument);
    SAME(put(out[0], 1, 1, in_windows[1], 0, 0, 0, 0), ncclInvalidArgument); /* of the other rank's communicator */
    SAME(put(out[0], 1, 2, in_windows[0], 0, 0, 0, 0), ncclInvalidArgument);
    SAME(put(out[0], 1, -1, in_windows[0], 0, 0, 0, 0), ncclInvalidArgument);
    SAME(put(out[0], COUNT + 1, 1, in_windows[0], 0, 0, 0, 0), ncclInvalidArgument);
    SAME(put(out[0], 1, 1, in_windows[0], BYTES - 3, 0, 0, 0), ncclInvalidArgument);
    SAME(put(out[0], 1, 1, in_windows[0], SIZE_MAX, 0, 0, 0), ncclInvalidArgument);
    SAME(put(out[0], 1, 1, in_windows[0], 0, 1, 0, 0), ncclInvalidArgument); /* 2.30 has one signal and one context */
    SAME(put(out[0], 1, 1, in_windows[0], 0, 0, 1, 0), ncclInvalidArgument);
    SAME(put(out[0], 1, 1, in_windows[0], 0, 0, 0, 1), ncclInvalidArgument);
    SAME(ncclSignal(2, 0, 0, 0, comms[0], streams[0]), ncclInvalidArgument);
    SAME(ncclSignal(1, 1, 0, 0, comms[0], streams[0]), ncclInvalidArgument);
    SAME(ncclSignal(1, 0, 0, 0, NULL, streams[0]), ncclInvalidArgument);
    SAME(ncclWaitSignal(0, &wait, comms[0], streams[0]), ncclInvalidArgument);
    SAME(ncclWaitSignal(1, NULL, comms[0], streams[0]), ncclInvalidArgument);
    SAME(ncclWaitSignal(1, &wait, NULL, streams[0]), ncclInvalidArgument);
    for (int i = 0; i < 4; i++) {
        wrong = wait;
        *(int *[]){&wrong.opCnt, &wrong.peer, &wrong.sigIdx, &wrong.ctx}[i] = i == 0 ? 0 : 2;
        SAME(ncclWaitSignal(1, &wrong, comms[0], streams[0]), ncclInvalidArgument);
    }
    SAME(cudaFree(elsewhere), cudaSuccess);
}

int main(void) {
    ncclWindow_t window;
    ncclResult_t state = ncclInternalError;
    SAME(ncclCommInitAll(comms, 2, NULL), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) {
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(cudaStreamCreate(&streams[rank]), cudaSuccess);
        SAME(ncclMemAlloc((void **)&out[rank], BYTES), ncclSuccess);
        SAME(ncclMemAlloc((void **)&in[rank], BYTES), ncclSuccess);
        SAME(ncclCommWindowRegister(comms[rank], out[rank], BYTES, &out_windows[rank], NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
        SAME(ncclCommWindowRegister(comms[rank], in[rank], BYTES, &in_windows[rank], NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    }
    exchange();
    signals();
    group();
    mistakes();
    exchange();

    /* A window that is gone is none; null was none. */
    SAME(ncclCommWindowDeregister(comms[0], NULL), ncclSuccess);
    SAME(ncclCommWindowDeregister(comms[0], out_windows[0]), ncclSuccess);
    SAME(ncclCommWindowDeregister(comms[0], out_windows[0]), ncclInvalidArgument);
    SAME(put(out[0], 1, 1, in_windows[0], 0, 0, 0, 0), ncclInvalidArgument);
    SAME(ncclCommWindowRegister(comms[0], out[0], BYTES, &window, NCCL_WIN_DEFAULT), ncclSuccess);
    SAME(put(out[0], 1, 1, in_windows[0], 0, 0, 0, 0), ncclInvalidArgument); /* not symmetric */

    /* Nobody signals: the wait ends with the communicator. */
    ncclWaitSignalDesc_t wait = from(1, 1);
    SAME(ncclWaitSignal(1, &wait, comms[0], streams[0]), ncclSuccess);
    SAME(ncclCommAbort(comms[1]), ncclSuccess);
    while (state != ncclRemoteError && (state == ncclSuccess || state == ncclInternalError))
        SAME(ncclCommGetAsyncError(comms[0], &state), ncclSuccess);
    SAME(state, ncclRemoteError);
    SAME(ncclCommAbort(comms[0]), ncclSuccess);
    return failures();
}
