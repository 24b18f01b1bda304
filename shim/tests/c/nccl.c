/* NCCL in one process: two communicators by ncclCommInitAll, a grouped sum, groups that use several streams, the errors of bad
 * arguments, a communicator that is used and aborted before it formed. */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "check.h"

enum { COUNT = 1000 };

/* A group may give one communicator several streams: its operations wait for all of them, and all of them for it. The streams
 * may be ordered after each other besides. */
static void several_streams(ncclComm_t *comms, float **send, cudaStream_t *blocking) {
    float *receive[2][2], host = 0;
    cudaStream_t elsewhere[2];
    for (int rank = 0; rank < 2; rank++) {
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(cudaStreamCreateWithFlags(&elsewhere[rank], cudaStreamNonBlocking), cudaSuccess);
        for (int i = 0; i < 2; i++) SAME(cudaMalloc((void **)&receive[rank][i], COUNT * sizeof(float)), cudaSuccess);
    }
    for (int pair = 0; pair < 6; pair++) {
        SAME(ncclGroupStart(), ncclSuccess);
        for (int rank = 0; rank < 2; rank++) {
            cudaStream_t both[] = {blocking[rank], 0, cudaStreamPerThread, 0, blocking[rank], cudaStreamPerThread, blocking[rank]};
            SAME(cudaSetDevice(rank), cudaSuccess);
            for (int i = 0; i < 2; i++) {
                SAME(cudaMemsetAsync(receive[rank][i], 0, COUNT * sizeof(float), both[pair + i]), cudaSuccess);
                SAME(ncclAllReduce(send[rank], receive[rank][i], COUNT, ncclFloat, ncclSum, comms[rank], both[pair + i]), ncclSuccess);
            }
        }
        SAME(ncclGroupEnd(), ncclSuccess);
        for (int rank = 0; rank < 2; rank++) {
            cudaStream_t second[] = {0, cudaStreamPerThread, 0, blocking[rank], cudaStreamPerThread, blocking[rank]};
            SAME(cudaSetDevice(rank), cudaSuccess);
            SAME(cudaStreamSynchronize(second[pair]), cudaSuccess);
            for (int i = 0; i < 2; i++) {
                float *last = receive[rank][i] + COUNT - 1;
                SAME(cudaMemcpyAsync(&host, last, sizeof host, cudaMemcpyDeviceToHost, elsewhere[rank]), cudaSuccess);
                SAME(host, (COUNT - 1) * 3);
            }
        }
    }
    for (int rank = 0; rank < 2; rank++) {
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(cudaDeviceSynchronize(), cudaSuccess);
        SAME(cudaStreamDestroy(elsewhere[rank]), cudaSuccess);
        for (int i = 0; i < 2; i++) SAME(cudaFree(receive[rank][i]), cudaSuccess);
    }
}

/* Who aborts a communicator that still forms leaves the others with one that lost a rank. */
/* A sum that is captured runs at every launch, on what is there then. */
static void graphs(ncclComm_t *comms, float **send, float **receive, cudaStream_t *streams) {
    cudaGraphExec_t execs[2];
    float host[COUNT];
    for (int rank = 0; rank < 2; rank++) {
        SAME(cudaStreamBeginCapture(streams[rank], cudaStreamCaptureModeRelaxed), cudaSuccess);
        SAME(cudaMemsetAsync(receive[rank], 0, sizeof host, streams[rank]), cudaSuccess);
    }
    SAME(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < 2; rank++)
        SAME(ncclAllReduce(send[rank], receive[rank], COUNT, ncclFloat, ncclSum, comms[rank], streams[rank]), ncclSuccess);
    SAME(ncclGroupEnd(), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) {
        cudaGraph_t graph;
        size_t count = 0;
        SAME(cudaStreamEndCapture(streams[rank], &graph), cudaSuccess);
        SAME(cudaGraphGetNodes(graph, NULL, &count), cudaSuccess);
        SAME(count, 2);
        SAME(cudaGraphInstantiateWithFlags(&execs[rank], graph, 0), cudaSuccess);
        SAME(cudaGraphDestroy(graph), cudaSuccess);
    }
    for (int round = 1; round <= 3; round++) {
        for (int rank = 0; rank < 2; rank++) {
            SAME(cudaSetDevice(rank), cudaSuccess);
            for (int i = 0; i < COUNT; i++) host[i] = (float)(i * round + rank);
            SAME(cudaMemcpy(send[rank], host, sizeof host, cudaMemcpyHostToDevice), cudaSuccess);
            SAME(cudaGraphLaunch(execs[rank], streams[rank]), cudaSuccess);
        }
        for (int rank = 0; rank < 2; rank++) {
            int wrong = 0;
            SAME(cudaSetDevice(rank), cudaSuccess);
            SAME(cudaStreamSynchronize(streams[rank]), cudaSuccess);
            SAME(cudaMemcpy(host, receive[rank], sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
            for (int i = 0; i < COUNT; i++) wrong += host[i] != (float)(2 * i * round + 1);
            SAME(wrong, 0);
        }
    }
    for (int rank = 0; rank < 2; rank++) SAME(cudaGraphExecDestroy(execs[rank]), cudaSuccess);
}

static void abort_before_it_formed(float *memory, cudaStream_t stream) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclComm_t aborts, stays;
    int value = -1;
    config.blocking = 0;
    SAME(ncclGetUniqueId(&id), ncclSuccess);
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(ncclCommInitRankConfig(&aborts, 2, id, 0, &config), ncclInProgress);
    SAME(ncclCommCount(aborts, &value), ncclInvalidArgument);
    SAME(ncclAllReduce(memory, memory, COUNT, ncclFloat, ncclSum, aborts, 0), ncclInvalidArgument);
    SAME(ncclCommAbort(aborts), ncclSuccess);
    SAME(cudaSetDevice(1), cudaSuccess);
    SAME(ncclCommInitRank(&stays, 2, id, 1), ncclSuccess);
    ncclResult_t result = ncclAllReduce(memory, memory, COUNT, ncclFloat, ncclSum, stays, stream);
    EXPECT(result == ncclSuccess || result == ncclRemoteError);
    SAME(ncclCommFinalize(stays), ncclRemoteError);
    SAME(ncclCommAbort(stays), ncclSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
}

int main(void) {
    ncclComm_t comms[2];
    float *send[2], *receive[2], host[COUNT];
    cudaStream_t streams[2];
    int version = 0, value = -1;
    SAME(ncclGetVersion(&version), ncclSuccess);
    EXPECT(version >= 22000);
    SAME(ncclCommInitAll(comms, 2, NULL), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) {
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(ncclCommCount(comms[rank], &value), ncclSuccess);
        SAME(value, 2);
        SAME(ncclCommUserRank(comms[rank], &value), ncclSuccess);
        SAME(value, rank);
        SAME(ncclCommCuDevice(comms[rank], &value), ncclSuccess);
        SAME(value, rank);
        SAME(cudaMalloc((void **)&send[rank], sizeof host), cudaSuccess);
        SAME(cudaMalloc((void **)&receive[rank], sizeof host), cudaSuccess);
        SAME(cudaStreamCreate(&streams[rank]), cudaSuccess);
        for (int i = 0; i < COUNT; i++) host[i] = (float)(i * (rank + 1));
        SAME(cudaMemcpy(send[rank], host, sizeof host, cudaMemcpyHostToDevice), cudaSuccess);
    }
    SAME(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < 2; rank++)
        SAME(ncclAllReduce(send[rank], receive[rank], COUNT, ncclFloat, ncclSum, comms[rank], streams[rank]), ncclSuccess);
    SAME(ncclGroupEnd(), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) {
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(cudaStreamSynchronize(streams[rank]), cudaSuccess);
        SAME(cudaMemcpy(host, receive[rank], sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int i = 0; i < COUNT; i++) {
            if (host[i] != (float)(i * 3)) {
                SAME(host[i], i * 3);
                break;
            }
        }
    }
    SAME(ncclGroupEnd(), ncclInvalidUsage);
    SAME(ncclAllReduce(send[0], receive[0], COUNT, (ncclDataType_t)99, ncclSum, comms[0], streams[0]), ncclInvalidArgument);
    SAME(ncclAllReduce(send[0], receive[0], COUNT, ncclFloat, ncclSum, NULL, streams[0]), ncclInvalidArgument);
    several_streams(comms, send, streams);
    graphs(comms, send, receive, streams);
    abort_before_it_formed(send[1], streams[1]);
    for (int rank = 0; rank < 2; rank++) {
        SAME(ncclCommFinalize(comms[rank]), ncclSuccess);
        SAME(ncclCommDestroy(comms[rank]), ncclSuccess);
    }
    return failures();
}
