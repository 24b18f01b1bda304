/* One rank of two, in a program that nobody gave a coordinator: nobody comes. */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "check.h"

int main(void) {
    ncclUniqueId id;
    ncclComm_t communicator = NULL;
    EXPECT(cudaSetDevice(0) == cudaSuccess);
    EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
    EXPECT(ncclCommInitRank(&communicator, 2, id, 0) != ncclSuccess);
    return failures();
}
