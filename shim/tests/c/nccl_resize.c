/* Communicators that go on with fewer ranks or more, in one process with four devices: shrink, and with NCCL's newer header
 * revoke, grow, suspend and the memory statistics. What a config may say. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>
#include <stdlib.h>

#include "check.h"

enum { DEVICES = 4 };

static float *memory[DEVICES];
static cudaStream_t streams[DEVICES];

/* One float of each device, 1, 10, 100 and 1000, summed in place by the communicators of `devices`. */
static void sum(const ncclComm_t *comms, const int *devices, int count, float expected) {
    static const float values[DEVICES] = {1, 10, 100, 1000};
    float host = 0;
    for (int i = 0; i < count; i++)
        SAME(cudaMemcpy(memory[devices[i]], &values[devices[i]], sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
    SAME(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < count; i++) {
        float *at = memory[devices[i]];
        SAME(ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comms[i], streams[devices[i]]), ncclSuccess);
    }
    SAME(ncclGroupEnd(), ncclSuccess);
    for (int i = 0; i < count; i++) {
        SAME(cudaStreamSynchronize(streams[devices[i]]), cudaSuccess);
        SAME(cudaMemcpy(&host, memory[devices[i]], sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
        SAME(host, expected);
    }
}

static void place(ncclComm_t comm, int rank, int size) {
    int value = -1;
    SAME(ncclCommCount(comm, &value), ncclSuccess);
    SAME(value, size);
    SAME(ncclCommUserRank(comm, &value), ncclSuccess);
    SAME(value, rank);
}

static void settle(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        sched_yield();
        SAME(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    }
    SAME(state, ncclSuccess);
}

/* All that a caller can get wrong alone. */
static void mistakes(ncclComm_t comm) {
    ncclComm_t out = NULL;
    int list[2] = {3, 3};
    SAME(ncclCommShrink(NULL, list, 1, &out, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    SAME(ncclCommShrink(comm, NULL, 1, &out, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    SAME(ncclCommShrink(comm, list, 0, &out, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    SAME(ncclCommShrink(comm, list, 2, &out, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    SAME(ncclCommShrink(comm, list, 1, NULL, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    for (int i = 0; i < 3; i++) {
        list[0] = (int[]){-1, 0, 4}[i]; /* no rank, the caller's own, one too many */
        SAME(ncclCommShrink(comm, list, 1, &out, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    }
    list[0] = 3;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 2;
    SAME(ncclCommShrink(comm, list, 1, &out, &config, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    config.blocking = 1;
    config.minCTAs = 8;
    config.maxCTAs = 4;
    SAME(ncclCommShrink(comm, list, 1, &out, &config, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    config.minCTAs = NCCL_CONFIG_UNDEF_INT;
    config.shrinkShare = 7;
    SAME(ncclCommShrink(comm, list, 1, &out, &config, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    config.shrinkShare = 1;
    config.magic = 0;
    SAME(ncclCommShrink(comm, list, 1, &out, &config, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    SAME((long long)out, 0);
}

#if NCCL_VERSION_CODE >= 23000
static void revoke(ncclComm_t *comms) {
    static const int two[] = {0, 1};
    ncclComm_t pair[2];
    int list[] = {2, 3};
    ncclResult_t state = ncclInternalError;
    SAME(ncclCommRevoke(NULL, NCCL_REVOKE_DEFAULT), ncclSuccess);
    SAME(ncclCommRevoke(comms[0], 1), ncclInvalidArgument);
    /* The others never come to this. */
    SAME(ncclAllReduce(memory[0], memory[0], 1, ncclFloat, ncclSum, comms[0], streams[0]), ncclSuccess);
    SAME(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT), ncclSuccess);
    SAME(cudaStreamSynchronize(streams[0]), cudaSuccess);
    SAME(ncclCommGetAsyncError(comms[0], &state), ncclSuccess);
    SAME(state, ncclSuccess);
    SAME(ncclAllReduce(memory[0], memory[0], 1, ncclFloat, ncclSum, comms[0], streams[0]), ncclInvalidUsage);
    SAME(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
    SAME(ncclCommFinalize(comms[0]), ncclInvalidArgument);
    /* A revoke is a rank's own: who needs the revoked rank waits on until it revokes, too. */
    SAME(ncclAllReduce(memory[1], memory[1], 1, ncclFloat, ncclSum, comms[1], streams[1]), ncclSuccess);
    for (int i = 0; i < 100; i++) {
        SAME(cudaStreamQuery(streams[1]), cudaErrorNotReady);
        SAME(ncclCommGetAsyncError(comms[1], &state), ncclSuccess);
        SAME(state, ncclSuccess);
        sched_yield();
    }
    SAME(ncclCommRevoke(comms[1], NCCL_REVOKE_DEFAULT), ncclSuccess);
    SAME(cudaStreamSynchronize(streams[1]), cudaSuccess);
    SAME(ncclCommGetAsyncError(comms[1], &state), ncclSuccess);
    SAME(state, ncclSuccess);
    SAME(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < 2; i++) SAME(ncclCommShrink(comms[i], list, 2, &pair[i], NULL, NCCL_SHRINK_DEFAULT), ncclSuccess);
    SAME(ncclGroupEnd(), ncclSuccess);
    sum(pair, two, 2, 11);
    for (int i = 0; i < 2; i++) SAME(ncclCommDestroy(pair[i]), ncclSuccess);
}

/* All ranks suspend and resume together: from one thread, in a group. */
static void together(const ncclComm_t *pair, int suspends, ncclResult_t expected) {
    SAME(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < 2; i++)
        SAME(suspends ? ncclCommSuspend(pair[i], NCCL_SUSPEND_MEM) : ncclCommResume(pair[i]), ncclSuccess);
    SAME(ncclGroupEnd(), expected);
}

static void suspend(ncclComm_t *pair) {
    static const int two[] = {0, 2};
    ncclComm_t quick[2];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t state = ncclInternalError;
    uint64_t value = 7;
    SAME(ncclCommSuspend(NULL, NCCL_SUSPEND_MEM), ncclInvalidArgument);
    SAME(ncclCommSuspend(pair[0], 0), ncclSuccess);
    SAME(ncclCommResume(pair[0]), ncclInvalidUsage);
    together(pair, 1, ncclSuccess);
    SAME(ncclCommSuspend(pair[0], NCCL_SUSPEND_MEM), ncclInvalidUsage);
    SAME(ncclCommMemStats(pair[0], ncclStatGpuMemSuspended, &value), ncclSuccess);
    SAME(value, 1);
    SAME(ncclAllReduce(memory[0], memory[0], 1, ncclFloat, ncclSum, pair[0], streams[0]), ncclInvalidUsage);
    together(pair, 0, ncclSuccess);
    for (ncclCommMemStat_t stat = ncclStatGpuMemSuspend; stat <= ncclStatGpuMemTotal; stat++) {
        value = 7;
        SAME(ncclCommMemStats(pair[0], stat, &value), ncclSuccess);
        SAME(value, 0);
    }
    SAME(ncclCommMemStats(pair[0], (ncclCommMemStat_t)4, &value), ncclInvalidArgument);
    SAME(ncclCommMemStats(pair[0], ncclStatGpuMemTotal, NULL), ncclInvalidArgument);
    sum(pair, two, 2, 101);

    /* Nobody waits for a suspension of a nonblocking communicator; it is in progress until the last rank suspends. */
    config.blocking = 0;
    SAME(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < 2; i++) SAME(ncclCommSplit(pair[i], 0, i, &quick[i], &config), ncclSuccess);
    SAME(ncclGroupEnd(), ncclInProgress);
    for (int i = 0; i < 2; i++) settle(quick[i]);
    SAME(ncclCommSuspend(quick[0], NCCL_SUSPEND_MEM), ncclInProgress);
    for (int i = 0; i < 100; i++) {
        SAME(ncclCommGetAsyncError(quick[0], &state), ncclSuccess);
        SAME(state, ncclInProgress);
        sched_yield();
    }
    SAME(ncclCommSuspend(quick[1], NCCL_SUSPEND_MEM), ncclInProgress);
    for (int i = 0; i < 2; i++) settle(quick[i]);
    together(quick, 0, ncclInProgress);
    for (int i = 0; i < 2; i++) settle(quick[i]);
    sum(quick, two, 2, 101);
    for (int i = 0; i < 2; i++) SAME(ncclCommDestroy(quick[i]), ncclSuccess);
}

/* The pair of devices 0 and 2 gets device 3. */
static void grow(ncclComm_t *pair) {
    static const int three[] = {0, 2, 3};
    ncclComm_t grown[3] = {NULL, NULL, NULL}, out = NULL;
    ncclUniqueId id, other;
    SAME(ncclCommGetUniqueId(NULL, &id), ncclInvalidArgument);
    SAME(ncclCommGetUniqueId(pair[0], NULL), ncclInvalidArgument);
    SAME(ncclCommGetUniqueId(pair[0], &id), ncclSuccess);
    SAME(ncclCommGetUniqueId(pair[0], &other), ncclInvalidUsage);
    SAME(ncclGetUniqueId(&other), ncclSuccess);
    SAME(ncclCommGrow(pair[0], 2, &id, -1, &out, NULL), ncclInvalidArgument);
    SAME(ncclCommGrow(pair[0], 3, &id, 0, &out, NULL), ncclInvalidArgument);
    SAME(ncclCommGrow(pair[0], 3, &id, -1, NULL, NULL), ncclInvalidArgument);
    SAME(ncclCommGrow(pair[0], 3, &other, -1, &out, NULL), ncclInvalidArgument);
    SAME(ncclCommGrow(NULL, 3, NULL, 2, &out, NULL), ncclInvalidArgument);
    SAME(ncclCommGrow(NULL, 3, &other, 2, &out, NULL), ncclInvalidArgument);
    SAME(ncclCommGrow(NULL, 3, &id, 3, &out, NULL), ncclInvalidArgument);
    SAME(ncclCommGrow(NULL, 3, &id, -1, &out, NULL), ncclInvalidArgument);
    SAME((long long)out, 0);

    SAME(ncclGroupStart(), ncclSuccess);
    SAME(ncclCommGrow(pair[0], 3, &id, -1, &grown[0], NULL), ncclSuccess);
    SAME(ncclCommGrow(pair[1], 3, NULL, -1, &grown[1], NULL), ncclSuccess);
    SAME(cudaSetDevice(3), cudaSuccess);
    SAME(ncclCommGrow(NULL, 3, &id, 2, &grown[2], NULL), ncclSuccess);
    SAME(ncclGroupEnd(), ncclSuccess);
    for (int i = 0; i < 3; i++) place(grown[i], i, 3);
    sum(grown, three, 3, 1101);
    SAME(ncclCommGrow(NULL, 3, &id, 2, &out, NULL), ncclInvalidArgument);
    for (int i = 0; i < 3; i++) SAME(ncclCommDestroy(grown[i]), ncclSuccess);

    /* Once more, and nobody waits. */
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    SAME(ncclCommGetUniqueId(pair[1], &id), ncclSuccess);
    SAME(ncclCommGrow(NULL, 3, &id, 2, &grown[2], &config), ncclInProgress);
    SAME(ncclCommGrow(pair[1], 3, &id, -1, &grown[1], &config), ncclInProgress);
    SAME(ncclCommGrow(pair[0], 3, NULL, -1, &grown[0], &config), ncclInProgress);
    for (int i = 0; i < 3; i++) settle(grown[i]);
    for (int i = 0; i < 3; i++) place(grown[i], i, 3);
    sum(grown, three, 3, 1101);
    for (int i = 0; i < 3; i++) SAME(ncclCommDestroy(grown[i]), ncclSuccess);
}
#endif

int main(void) {
    static const int all[] = {0, 1, 2, 3}, even[] = {0, 2};
    ncclComm_t comms[DEVICES], pair[2], three[3], turned[3];
    struct {
        ncclConfig_t config;
        char newer[64];
    } larger = {NCCL_CONFIG_INITIALIZER, {1}};
    setenv("FAKEGPU_PROFILES", "a100:4", 1);
    SAME(ncclCommInitAll(comms, DEVICES, NULL), ncclSuccess);
    for (int i = 0; i < DEVICES; i++) {
        SAME(cudaSetDevice(i), cudaSuccess);
        SAME(cudaMalloc((void **)&memory[i], sizeof(float)), cudaSuccess);
        SAME(cudaStreamCreate(&streams[i]), cudaSuccess);
    }
    sum(comms, all, 4, 1111);
    mistakes(comms[0]);

    /* By a config of a newer NCCL, by one of 2.14, which ends after `blocking`, and without one; the parent works on. */
    ncclConfig_t older = NCCL_CONFIG_INITIALIZER, *configs[] = {&larger.config, &older, NULL};
    larger.config.size = sizeof larger;
    older.size = 24;
    older.version = 21400;
    older.minCTAs = -5;
    for (int round = 0; round < 3; round++) {
        int list[] = {3, 1};
        SAME(ncclGroupStart(), ncclSuccess);
        for (int i = 0; i < 2; i++) {
            SAME(ncclCommShrink(comms[2 * i], list, 2, &pair[i], configs[round], NCCL_SHRINK_DEFAULT), ncclSuccess);
        }
        SAME(ncclGroupEnd(), ncclSuccess);
        for (int i = 0; i < 2; i++) place(pair[i], i, 2);
        sum(pair, even, 2, 101);
        if (round < 2)
            for (int i = 0; i < 2; i++) SAME(ncclCommDestroy(pair[i]), ncclSuccess);
    }
    sum(comms, all, 4, 1111);
#if NCCL_VERSION_CODE >= 23000
    suspend(pair);
    grow(pair);
#endif
    for (int i = 0; i < 2; i++) SAME(ncclCommDestroy(pair[i]), ncclSuccess);

    /* Rank 0 waits for the others in an operation that the shrink ends. Nobody waits for the shrink. */
    larger.config.blocking = 0;
    SAME(ncclAllReduce(memory[0], memory[0], 1, ncclFloat, ncclSum, comms[0], streams[0]), ncclSuccess);
    for (int i = 0; i < 3; i++) {
        int list[] = {3};
        SAME(ncclCommShrink(comms[i], list, 1, &three[i], &larger.config, NCCL_SHRINK_ABORT), ncclInProgress);
    }
    for (int i = 0; i < 3; i++) {
        settle(three[i]);
        place(three[i], i, 3);
    }
    SAME(cudaStreamSynchronize(streams[0]), cudaSuccess);
    sum(three, all, 3, 111);
    /* Without a config the child is like its parent. */
    for (int i = 0; i < 3; i++) SAME(ncclCommSplit(three[i], 0, -i, &turned[i], NULL), ncclInProgress);
    for (int i = 0; i < 3; i++) {
        settle(turned[i]);
        place(turned[i], 2 - i, 3);
        SAME(ncclCommDestroy(turned[i]), ncclSuccess);
    }
    for (int i = 0; i < 3; i++) SAME(ncclCommDestroy(three[i]), ncclSuccess);
    for (int i = 0; i < DEVICES; i++) SAME(ncclCommDestroy(comms[i]), ncclSuccess);
#if NCCL_VERSION_CODE >= 23000
    SAME(ncclCommInitAll(comms, DEVICES, NULL), ncclSuccess);
    revoke(comms);
    for (int i = 0; i < DEVICES; i++) SAME(ncclCommDestroy(comms[i]), ncclSuccess);
#endif
    return failures();
}
