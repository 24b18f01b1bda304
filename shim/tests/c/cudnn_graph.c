/* A graph of cuDNN's operations where nothing computes, built as cudnn-frontend builds it: what it may have written is unknown
   afterwards, and what it only reads is not. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

int cudnnCreate(void **), cudnnBackendCreateDescriptor(int, void **), cudnnBackendDestroyDescriptor(void *);
int cudnnBackendSetAttribute(void *, int, int, int64_t, const void *);
int cudnnBackendGetAttribute(void *, int, int, int64_t, int64_t *, void *);
int cudnnBackendFinalize(void *), cudnnBackendExecute(void *, void *, void *);

enum { ENGINE = 2, CONFIGURATION, HEURISTICS, PLAN, POINTWISE = 13, GRAPH = 15, PACK, TENSOR };
enum { HANDLE_TYPE = 0, DATA_TYPE = 1, INT64_TYPE = 3, POINTER_TYPE = 6, HEURISTIC_MODE = 8, DESCRIPTOR_TYPE = 15 };
enum { FLOAT = 0, INT32 = 4 };

static void *made(int kind) {
    void *descriptor = NULL;
    SAME(cudnnBackendCreateDescriptor(kind, &descriptor), 0);
    return descriptor;
}

static void *tensor(int64_t id, int type) {
    int64_t sizes[4] = {1, 8, 16, 32}, strides[4] = {4096, 512, 32, 1};
    void *tensor = made(TENSOR);
    SAME(cudnnBackendSetAttribute(tensor, 901, DATA_TYPE, 1, &type), 0);
    SAME(cudnnBackendSetAttribute(tensor, 902, INT64_TYPE, 4, sizes), 0);
    SAME(cudnnBackendSetAttribute(tensor, 903, INT64_TYPE, 4, strides), 0);
    SAME(cudnnBackendSetAttribute(tensor, 906, INT64_TYPE, 1, &id), 0);
    SAME(cudnnBackendFinalize(tensor), 0);
    return tensor;
}

static char *filled(void) {
    char *memory = NULL;
    SAME(cudaMalloc((void **)&memory, 16384), 0);
    SAME(cudaMemset(memory, 0, 16384), 0);
    return memory;
}

int main(void) {
    int (*is_known)(size_t, size_t) = (int (*)(size_t, size_t))dlsym(RTLD_DEFAULT, "ftest_is_known");
    void *handle = NULL;
    int64_t count = -1, sizes[4] = {0}, workspace = -1, ids[3] = {11, 12, 13};
    SAME(cudnnCreate(&handle), 0);

    void *tensors[3] = {tensor(11, FLOAT), tensor(12, INT32), tensor(13, FLOAT)};
    SAME(cudnnBackendGetAttribute(tensors[0], 902, INT64_TYPE, 4, &count, sizes), 0);
    SAME(count, 4);
    SAME(sizes[2], 16);
    SAME(cudnnBackendSetAttribute(tensors[0], 901, DATA_TYPE, 1, sizes), 2000);

    void *operation = made(POINTWISE), *graph = made(GRAPH), *heuristics = made(HEURISTICS);
    for (int index = 0; index < 3; index++)
        SAME(cudnnBackendSetAttribute(operation, 750 + index, DESCRIPTOR_TYPE, 1, &tensors[index]), 0);
    SAME(cudnnBackendFinalize(operation), 0);
    SAME(cudnnBackendSetAttribute(graph, 801, DESCRIPTOR_TYPE, 1, &operation), 0);
    SAME(cudnnBackendFinalize(graph), 0);
    // A graph keeps its parts.
    SAME(cudnnBackendDestroyDescriptor(operation), 0);
    SAME(cudnnBackendDestroyDescriptor(operation), 2000);

    SAME(cudnnBackendSetAttribute(heuristics, 201, DESCRIPTOR_TYPE, 1, &graph), 0);
    SAME(cudnnBackendGetAttribute(heuristics, 202, DESCRIPTOR_TYPE, 0, &count, NULL), 2004);
    SAME(cudnnBackendFinalize(heuristics), 0);
    SAME(cudnnBackendGetAttribute(heuristics, 202, DESCRIPTOR_TYPE, 0, &count, NULL), 0);
    SAME(count, 1);
    void *configuration = made(CONFIGURATION), *engine = made(ENGINE), *plan = made(PLAN), *pack = made(PACK);
    SAME(cudnnBackendGetAttribute(heuristics, 202, DESCRIPTOR_TYPE, 1, &count, &engine), 2000);
    SAME(cudnnBackendGetAttribute(heuristics, 202, DESCRIPTOR_TYPE, 1, &count, &configuration), 0);
    SAME(cudnnBackendGetAttribute(configuration, 300, DESCRIPTOR_TYPE, 1, &count, &engine), 0);
    SAME(cudnnBackendGetAttribute(engine, 1301, INT64_TYPE, 1, &count, sizes), 0);
    SAME(sizes[0], 0);
    SAME(cudnnBackendGetAttribute(engine, 1303, 11, 7, &count, sizes), 0);
    SAME(count, 0);

    SAME(cudnnBackendSetAttribute(plan, 400, HANDLE_TYPE, 1, &handle), 0);
    SAME(cudnnBackendSetAttribute(plan, 401, DESCRIPTOR_TYPE, 1, &configuration), 0);
    SAME(cudnnBackendFinalize(plan), 0);
    SAME(cudnnBackendGetAttribute(plan, 402, INT64_TYPE, 1, &count, &workspace), 0);
    SAME(workspace, 0);

    char *memory[4] = {filled(), filled(), filled(), filled()};
    SAME(cudnnBackendSetAttribute(pack, 1000, INT64_TYPE, 3, ids), 0);
    SAME(cudnnBackendSetAttribute(pack, 1001, POINTER_TYPE, 3, memory), 0);
    SAME(cudnnBackendExecute(handle, plan, pack), 2004);
    SAME(cudnnBackendFinalize(pack), 0);
    SAME(is_known((size_t)memory[2], 16384), 1);
    SAME(cudnnBackendExecute(handle, pack, plan), 2000);
    SAME(cudnnBackendExecute(handle, plan, pack), 0);
    SAME(is_known((size_t)memory[1], 16384), 1);
    SAME(is_known((size_t)memory[2], 4), 0);
    SAME(is_known((size_t)memory[3], 16384), 1);
    return failures();
}
