/* Rank 3 of 8, of which no other exists (FTEST_AS_RANK): communicators form without them, except by a split, where only they would
 * know who joins. */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "check.h"

static float *memory;

/* Every other rank is taken to hold what this one does. */
static void works(ncclComm_t comm, int rank, int size) {
    int value = -1;
    float host = 2, gathered[12] = {0};
    SAME(ncclCommCount(comm, &value), ncclSuccess);
    SAME(value, size);
    SAME(ncclCommUserRank(comm, &value), ncclSuccess);
    SAME(value, rank);
    EXPECT(cudaMemcpy(memory, &host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
    SAME(ncclAllGather(memory, memory + 16, 1, ncclFloat, comm, NULL), ncclSuccess);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess);
    EXPECT(cudaMemcpy(gathered, memory + 16, size * sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (int i = 0; i < size; i++) SAME(gathered[i], 2);
}

static void resizes(ncclComm_t whole) {
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    int excluded[] = {0, 5}, own[] = {3};
    SAME(ncclCommShrink(whole, excluded, 2, &comm, NULL, NCCL_SHRINK_DEFAULT), ncclSuccess);
    works(comm, 2, 6);
    SAME(ncclCommDestroy(comm), ncclSuccess);
    SAME(ncclCommShrink(whole, own, 1, &comm, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    SAME(ncclCommGrow(whole, 12, NULL, -1, &comm, NULL), ncclSuccess);
    works(comm, 3, 12);
    SAME(ncclCommDestroy(comm), ncclSuccess);
    /* It joins ranks that do not exist, by an id that none of them made. */
    memset(&id, 0, sizeof id);
    SAME(ncclCommGrow(NULL, 12, &id, 9, &comm, NULL), ncclSuccess);
    works(comm, 9, 12);
    SAME(ncclCommDestroy(comm), ncclSuccess);
}

static void splits(ncclComm_t whole) {
    ncclComm_t comm = whole, one = NULL;
    ncclUniqueId id;
    SAME(ncclCommSplit(whole, NCCL_SPLIT_NOCOLOR, 0, &comm, NULL), ncclSuccess);
    EXPECT(comm == NULL);
    SAME(ncclCommSplit(whole, 1, 0, &comm, NULL), ncclInvalidUsage);
    EXPECT(comm == NULL);
    EXPECT(strstr(ncclGetLastError(NULL), "only this rank's color is known"));
    works(whole, 3, 8);
    /* There is nobody else to ask. */
    SAME(ncclGetUniqueId(&id), ncclSuccess);
    SAME(ncclCommInitRank(&one, 1, id, 0), ncclSuccess);
    SAME(ncclCommSplit(one, 1, 0, &comm, NULL), ncclSuccess);
    works(comm, 0, 1);
    SAME(ncclCommDestroy(comm), ncclSuccess);
    SAME(ncclCommDestroy(one), ncclSuccess);
}

int main(void) {
    ncclUniqueId id;
    ncclComm_t whole = NULL;
    EXPECT(cudaSetDevice(0) == cudaSuccess);
    EXPECT(cudaMalloc((void **)&memory, 32 * sizeof *memory) == cudaSuccess);
    SAME(ncclGetUniqueId(&id), ncclSuccess);
    SAME(ncclCommInitRank(&whole, 8, id, 3), ncclSuccess);
    works(whole, 3, 8);
    resizes(whole);
    splits(whole);
    SAME(ncclCommDestroy(whole), ncclSuccess);
    EXPECT(cudaFree(memory) == cudaSuccess);
    return failures();
}
