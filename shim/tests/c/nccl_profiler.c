/* NCCL's other names: a program puts functions of its own in front of NCCL's and calls pnccl*, as profilers do; and the
 * variables of NCCL_DEBUG are read anew after ncclResetDebugInit. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static int seen;

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
    seen++;
    return pncclAllReduce(send, receive, count, datatype, op, comm, stream);
}

int main(void) {
    ncclComm_t comm;
    float *memory, host = 7;
    int version = 0, other = 0;
    SAME(pncclGetVersion(&version), ncclSuccess);
    SAME(ncclGetVersion(&other), ncclSuccess);
    SAME(version, other);
    SAME(pncclCommInitAll(&comm, 1, NULL), ncclSuccess);
    SAME(cudaMalloc((void **)&memory, sizeof host), cudaSuccess);
    SAME(cudaMemcpy(memory, &host, sizeof host, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, 0), ncclSuccess);
    SAME(pncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, 0), ncclSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(seen, 1);
    /* More arguments than registers. */
    SAME(pncclReduceScatter(memory, memory, 1, ncclFloat, ncclSum, comm, 0), ncclSuccess);
    SAME(pncclReduce(memory, memory, 1, ncclFloat, ncclSum, 5, comm, 0), ncclInvalidArgument);
    SAME(pncclReduce(memory, memory, 1, ncclFloat, ncclSum, 0, comm, 0), ncclSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);

    char path[] = "nccl-debug-XXXXXX", text[4096] = "";
    int file = mkstemp(path);
    EXPECT(file >= 0);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_FILE", path, 1);
    /* The header hides the declaration. */
    void (*reset)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "pncclResetDebugInit");
    EXPECT(reset != NULL && dlsym(RTLD_DEFAULT, "ncclResetDebugInit") != NULL);
    if (reset) reset();
    ncclComm_t second;
    SAME(pncclCommInitAll(&second, 1, NULL), ncclSuccess);
    EXPECT(pread(file, text, sizeof text - 1, 0) > 0 && strstr(text, "NCCL INFO"));
    unlink(path);
    SAME(pncclCommDestroy(second), ncclSuccess);
    SAME(pncclCommDestroy(comm), ncclSuccess);
    return failures();
}
