/* Ranks 0 and 2 of 4, run one after the other (FTEST_AS_RANK, FTEST_SENT) while nothing computes: rank 2 gets what rank 0 sent, and what it
 * does not get is not taken for known. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdlib.h>

#include "check.h"

extern int ftest_is_known(size_t address, size_t bytes);

enum { LARGE = 2 << 20 };

static int *memory, own;

/* Puts what rank 0 sends in place; others start with -1. */
static void prepare(int first, int second) {
    int host[2] = {own == 0 ? first : -1, own == 0 ? second : -1};
    EXPECT(cudaMemcpy(memory, host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
}

static void has(int first, int second) {
    int host[2];
    EXPECT(cudaDeviceSynchronize() == cudaSuccess);
    EXPECT(ftest_is_known((size_t)memory, sizeof host));
    EXPECT(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
    SAME(host[0], first);
    SAME(host[1], second);
}

static void broadcasts(ncclComm_t comm, int root, int count) {
    SAME(ncclBroadcast(memory, memory, count, ncclInt, root, comm, NULL), ncclSuccess);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess);
}

static void others(ncclComm_t whole) {
    /* Nobody wrote it. */
    int *fresh;
    EXPECT(cudaMalloc((void **)&fresh, 64) == cudaSuccess);
    SAME(ncclBroadcast(fresh, fresh, 4, ncclInt, 0, whole, NULL), ncclSuccess);
    EXPECT(!ftest_is_known((size_t)fresh, 16));
    EXPECT(cudaFree(fresh) == cudaSuccess);
    /* More than is kept. */
    broadcasts(whole, 0, LARGE / sizeof *memory);
    SAME(ftest_is_known((size_t)memory, LARGE), 0);
    /* Rank 1 is not run. */
    prepare(1, 1);
    broadcasts(whole, 1, 2);
    EXPECT(!ftest_is_known((size_t)memory, 8));
    /* Rank 2 takes fewer than are sent. */
    prepare(5, 6);
    broadcasts(whole, 0, own == 0 ? 2 : 1);
    SAME(ftest_is_known((size_t)memory, 4), own == 0);
}

static void addressed(ncclComm_t whole) {
    int blocks[8] = {10, 11, 20, 21, 30, 31, 40, 41};
    EXPECT(cudaMemcpy(memory + 8, blocks, sizeof blocks, cudaMemcpyHostToDevice) == cudaSuccess);
    SAME(ncclScatter(memory + 8, memory, 2, ncclInt, 0, whole, NULL), ncclSuccess);
    own == 0 ? has(10, 11) : has(30, 31);
    for (int round = 0; round < 2; round++) {
        for (int to = 1; own == 0 && to < 4; to++) {
            prepare(100 * to, round);
            SAME(ncclSend(memory, 2, ncclInt, to, whole, NULL), ncclSuccess);
            EXPECT(cudaDeviceSynchronize() == cudaSuccess);
        }
        if (own == 2) {
            SAME(ncclRecv(memory, 2, ncclInt, 0, whole, NULL), ncclSuccess);
            has(200, round);
        }
    }
}

/* Communicators of some ranks: one that is known by its parent, and one that could be any. */
static void parts(ncclComm_t whole) {
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    int excluded[] = {1};
    SAME(ncclCommShrink(whole, excluded, 1, &comm, NULL, NCCL_SHRINK_DEFAULT), ncclSuccess);
    prepare(7, 8);
    broadcasts(comm, 0, 2);
    has(7, 8);
    SAME(ncclCommDestroy(comm), ncclSuccess);
    SAME(ncclGetUniqueId(&id), ncclSuccess);
    SAME(ncclCommInitRank(&comm, 2, id, own / 2), ncclSuccess);
    prepare(9, 9);
    broadcasts(comm, 0, 2);
    SAME(ftest_is_known((size_t)memory, 8), own == 0);
    SAME(ncclCommDestroy(comm), ncclSuccess);
}

int main(void) {
    ncclUniqueId id;
    ncclComm_t whole = NULL;
    own = getenv("FTEST_AS_RANK")[0] - '0';
    EXPECT(cudaSetDevice(0) == cudaSuccess);
    EXPECT(cudaMalloc((void **)&memory, LARGE) == cudaSuccess);
    SAME(ncclGetUniqueId(&id), ncclSuccess);
    SAME(ncclCommInitRank(&whole, 4, id, own), ncclSuccess);
    for (int round = 0; round < 3; round++) {
        prepare(round, 10 + round);
        broadcasts(whole, 0, 2);
        has(round, 10 + round);
    }
    addressed(whole);
    parts(whole);
    others(whole);
    SAME(ncclCommDestroy(whole), ncclSuccess);
    EXPECT(cudaFree(memory) == cudaSuccess);
    return failures();
}
