/* Nodes of graphs that allocate and free: by hand, by capture, by both libraries; what outlives a launch, and what CUDA forbids. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "check.h"

#if CUDART_VERSION >= 13000
#define NO_DATA NULL,
#define DRIVER_NO_DATA NULL,
#else
#define NO_DATA
#define DRIVER_NO_DATA
#endif

enum { BYTES = 4 << 20 };

static unsigned char host[BYTES];

static unsigned long long of_graphs(enum cudaGraphMemAttributeType which) {
    unsigned long long bytes = 99;
    SAME(cudaDeviceGetGraphMemAttribute(0, which, &bytes), cudaSuccess);
    return bytes;
}

static struct cudaMemAllocNodeParams request(size_t bytes) {
    struct cudaMemAllocNodeParams params;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.bytesize = bytes;
    return params;
}

static cudaGraphNode_t allocate(cudaGraph_t graph, cudaGraphNode_t after, void **memory) {
    cudaGraphNode_t node;
    struct cudaMemAllocNodeParams params = request(BYTES);
    SAME(cudaGraphAddMemAllocNode(&node, graph, &after, after != NULL, &params), cudaSuccess);
    *memory = params.dptr;
    EXPECT(params.dptr != NULL);
    return node;
}

static cudaGraphNode_t set(cudaGraph_t graph, cudaGraphNode_t after, void *memory, int value) {
    cudaGraphNode_t node;
    struct cudaMemsetParams params = {.dst = memory, .value = value, .elementSize = 1, .width = BYTES, .height = 1};
    SAME(cudaGraphAddMemsetNode(&node, graph, &after, 1, &params), cudaSuccess);
    return node;
}

static int all_are(const void *memory, int value) {
    SAME(cudaMemcpy(host, memory, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < BYTES; i++)
        if (host[i] != value) return 0;
    return 1;
}

/* Both allocations end in the graph; the second begins after the end of the first and takes its place. */
static void within(cudaStream_t stream, void *out) {
    cudaGraph_t graph, other;
    cudaGraphExec_t exec, second;
    cudaGraphNode_t node, first_free, bad;
    enum cudaGraphNodeType type;
    void *one, *two, *beside, *freed = NULL;
    struct cudaMemAllocNodeParams got;
    SAME(of_graphs(cudaGraphMemAttrUsedMemCurrent), 0);
    SAME(cudaGraphCreate(&graph, 0), cudaSuccess);
    cudaGraphNode_t root = allocate(graph, NULL, &one);
    SAME(cudaGraphNodeGetType(root, &type), cudaSuccess);
    SAME(type, cudaGraphNodeTypeMemAlloc);
    SAME(cudaGraphMemAllocNodeGetParams(root, &got), cudaSuccess);
    EXPECT(got.dptr == one && got.bytesize == BYTES && got.poolProps.location.id == 0);
    node = set(graph, root, one, 7);
    SAME(cudaGraphAddMemcpyNode1D(&node, graph, &node, 1, out, one, BYTES, cudaMemcpyDeviceToDevice), cudaSuccess);
    SAME(cudaGraphAddMemFreeNode(&first_free, graph, &node, 1, one), cudaSuccess);
    SAME(cudaGraphNodeGetType(first_free, &type), cudaSuccess);
    SAME(type, cudaGraphNodeTypeMemFree);
    SAME(cudaGraphMemFreeNodeGetParams(first_free, &freed), cudaSuccess);
    EXPECT(freed == one);
    SAME(cudaGraphAddMemFreeNode(&bad, graph, &first_free, 1, one), cudaErrorInvalidValue);
    SAME(cudaGraphAddMemFreeNode(&bad, graph, &first_free, 1, out), cudaErrorInvalidValue);

    node = allocate(graph, root, &beside);
    EXPECT(beside != one);
    SAME(cudaGraphAddMemFreeNode(&node, graph, &node, 1, beside), cudaSuccess);
    node = allocate(graph, first_free, &two);
    EXPECT(two == one);
    node = set(graph, node, two, 9);
    SAME(cudaGraphAddMemFreeNode(&node, graph, &node, 1, two), cudaSuccess);
    SAME(of_graphs(cudaGraphMemAttrUsedMemCurrent), 2 * BYTES);

    /* What its documentation forbids. */
    SAME(cudaGraphClone(&other, graph), cudaErrorNotSupported);
    SAME(cudaGraphDestroyNode(first_free), cudaErrorNotSupported);
    SAME(cudaGraphRemoveDependencies(graph, &root, &node, NO_DATA 1), cudaErrorNotSupported);
    SAME(cudaGraphCreate(&other, 0), cudaSuccess);
    SAME(cudaGraphAddChildGraphNode(&bad, other, NULL, 0, graph), cudaErrorNotSupported);
    SAME(cudaGraphDestroy(other), cudaSuccess);
    SAME(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    SAME(cudaGraphInstantiate(&second, graph, 0), cudaErrorNotSupported);
    for (int round = 0; round < 3; round++) {
        SAME(cudaMemset(out, 0, BYTES), cudaSuccess);
        SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
        SAME(cudaStreamSynchronize(stream), cudaSuccess);
        EXPECT(all_are(out, 7));
    }
    SAME(cudaFree(one), cudaErrorInvalidValue);
    SAME(cudaFreeAsync(one, stream), cudaErrorInvalidValue);
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    /* Under way when both are gone. */
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    SAME(of_graphs(cudaGraphMemAttrUsedMemCurrent), 0);
    SAME(of_graphs(cudaGraphMemAttrReservedMemCurrent), 0);
    SAME(of_graphs(cudaGraphMemAttrUsedMemHigh), 2 * BYTES);
    unsigned long long none = 0;
    SAME(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &none), cudaSuccess);
    SAME(of_graphs(cudaGraphMemAttrUsedMemHigh), 0);
}

/* Memory that outlives its launch: freed by each of the ways there are. */
static void beyond(cudaStream_t stream) {
    cudaGraph_t graph, freeing;
    cudaGraphExec_t exec, free_exec;
    cudaGraphNode_t node, bad;
    void *memory;
    SAME(cudaGraphCreate(&graph, 0), cudaSuccess);
    node = allocate(graph, NULL, &memory);
    node = set(graph, node, memory, 5);
    SAME(cudaGraphCreate(&freeing, 0), cudaSuccess);
    SAME(cudaGraphAddMemFreeNode(&bad, freeing, NULL, 0, memory), cudaSuccess);
    SAME(cudaGraphAddMemFreeNode(&bad, graph, &node, 1, memory), cudaErrorInvalidValue);
    SAME(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    SAME(cudaGraphInstantiate(&free_exec, freeing, 0), cudaSuccess);
    SAME(cudaGraphLaunch(free_exec, stream), cudaErrorInvalidValue);

    for (int way = 0; way < 3; way++) {
        SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
        SAME(cudaStreamSynchronize(stream), cudaSuccess);
        EXPECT(all_are(memory, 5));
        SAME(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
        if (way == 0) SAME(cudaFreeAsync(memory, stream), cudaSuccess);
        if (way == 1) SAME(cudaFree(memory), cudaSuccess);
        if (way == 2) SAME(cudaGraphLaunch(free_exec, stream), cudaSuccess);
        SAME(cudaStreamSynchronize(stream), cudaSuccess);
    }
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    SAME(cudaGraphExecDestroy(free_exec), cudaSuccess);
    SAME(cudaGraphDestroy(freeing), cudaSuccess);
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    /* The graph is gone, what it left is not. */
    EXPECT(all_are(memory, 5));
    SAME(of_graphs(cudaGraphMemAttrUsedMemCurrent), BYTES);
    SAME(cudaFree(memory), cudaSuccess);
    SAME(of_graphs(cudaGraphMemAttrUsedMemCurrent), 0);

    SAME(cudaGraphCreate(&graph, 0), cudaSuccess);
    node = allocate(graph, NULL, &memory);
    set(graph, node, memory, 6);
    SAME(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch), cudaSuccess);
    for (int round = 0; round < 3; round++) SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    EXPECT(all_are(memory, 6));
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    SAME(cudaFreeAsync(memory, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    SAME(of_graphs(cudaGraphMemAttrUsedMemCurrent), 0);
}

static void captured(cudaStream_t stream, void *out) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void *one, *two, *ordinary;
    size_t count;
    SAME(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    SAME(cudaMallocAsync(&one, BYTES, stream), cudaSuccess);
    SAME(cudaMemsetAsync(one, 3, BYTES, stream), cudaSuccess);
    SAME(cudaMemcpyAsync(out, one, BYTES, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    SAME(cudaFreeAsync(one, stream), cudaSuccess);
    SAME(cudaMallocAsync(&two, BYTES, stream), cudaSuccess);
    EXPECT(two == one);
    SAME(cudaMemsetAsync(two, 4, BYTES, stream), cudaSuccess);
    SAME(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    SAME(cudaGraphGetNodes(graph, NULL, &count), cudaSuccess);
    SAME(count, 6);
    SAME(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (int round = 0; round < 2; round++) {
        SAME(cudaMemset(out, 0, BYTES), cudaSuccess);
        SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
        SAME(cudaStreamSynchronize(stream), cudaSuccess);
        EXPECT(all_are(out, 3) && all_are(two, 4));
        SAME(cudaFreeAsync(two, stream), cudaSuccess);
    }
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    SAME(of_graphs(cudaGraphMemAttrUsedMemCurrent), 0);

    /* What was allocated outside cannot be freed by a graph. */
    SAME(cudaMallocAsync(&ordinary, BYTES, stream), cudaSuccess);
    SAME(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    SAME(cudaFreeAsync(ordinary, stream), cudaErrorInvalidValue);
    SAME(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    SAME(cudaFreeAsync(ordinary, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
}

/* The driver's: nodes by a union of parameters. */
static void by_the_driver(CUstream stream, void *out) {
    CUgraph graph, body;
    CUgraphExec exec;
    CUgraphNode node, after;
    CUgraphConditionalHandle condition;
    CUgraphNodeParams params;
    SAME(cuGraphCreate(&graph, 0), CUDA_SUCCESS);

    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = BYTES;
    SAME(cuGraphAddNode(&node, graph, NULL, DRIVER_NO_DATA 0, &params), CUDA_SUCCESS);
    CUdeviceptr memory = params.alloc.dptr;

    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset.dst = memory, params.memset.value = 0x0b0b, params.memset.elementSize = 2;
    params.memset.width = BYTES / 2, params.memset.height = 1;
    SAME(cuGraphAddNode(&after, graph, &node, DRIVER_NO_DATA 1, &params), CUDA_SUCCESS);

    SAME(cuGraphConditionalHandleCreate(&condition, graph, NULL, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CUDA_SUCCESS);
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = condition, params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    SAME(cuGraphAddNode(&node, graph, &after, DRIVER_NO_DATA 1, &params), CUDA_SUCCESS);
    body = params.conditional.phGraph_out[0];

    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    params.memcpy.copyParams.srcMemoryType = params.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    params.memcpy.copyParams.srcDevice = memory, params.memcpy.copyParams.dstDevice = (CUdeviceptr)out;
    params.memcpy.copyParams.WidthInBytes = BYTES, params.memcpy.copyParams.Height = 1;
    params.memcpy.copyParams.Depth = 1;
    SAME(cuGraphAddNode(&after, body, NULL, DRIVER_NO_DATA 0, &params), CUDA_SUCCESS);
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = BYTES;
    SAME(cuGraphAddNode(&after, body, NULL, DRIVER_NO_DATA 0, &params), CUDA_ERROR_NOT_SUPPORTED);

    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    params.free.dptr = memory;
    SAME(cuGraphAddNode(&after, graph, &node, DRIVER_NO_DATA 1, &params), CUDA_SUCCESS);
    CUdeviceptr freed = 0;
    SAME(cuGraphMemFreeNodeGetParams(after, &freed), CUDA_SUCCESS);
    EXPECT(freed == memory);

    SAME(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    for (int round = 0; round < 2; round++) {
        SAME(cudaMemset(out, 0, BYTES), cudaSuccess);
        SAME(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        SAME(cuStreamSynchronize(stream), CUDA_SUCCESS);
        EXPECT(all_are(out, 0x0b));
    }
    SAME(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    SAME(cuGraphDestroy(graph), CUDA_SUCCESS);
}

/* A second stream may go once it has joined the first, as in graphMemoryNodes of cuda-samples; one that has not leaves the capture
   unjoined. */
static void with_a_stream_that_goes(cudaStream_t stream, void *out) {
    for (int joins = 1; joins >= 0; joins--) {
        cudaStream_t other;
        cudaEvent_t forked, joined;
        cudaGraph_t graph;
        SAME(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
        SAME(cudaEventCreate(&forked), cudaSuccess);
        SAME(cudaEventCreate(&joined), cudaSuccess);
        SAME(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
        SAME(cudaEventRecord(forked, stream), cudaSuccess);
        SAME(cudaStreamWaitEvent(other, forked, 0), cudaSuccess);
        SAME(cudaMemsetAsync(out, 1, 4, other), cudaSuccess);
        if (joins) {
            SAME(cudaEventRecord(joined, other), cudaSuccess);
            SAME(cudaStreamWaitEvent(stream, joined, 0), cudaSuccess);
        }
        SAME(cudaStreamDestroy(other), cudaSuccess);
        SAME(cudaStreamEndCapture(stream, &graph), joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
        SAME(cudaEventDestroy(forked), cudaSuccess);
        SAME(cudaEventDestroy(joined), cudaSuccess);
        if (joins) SAME(cudaGraphDestroy(graph), cudaSuccess);
    }
    cudaGetLastError();
}

int main(void) {
    cudaStream_t stream;
    void *out;
    SAME(cudaMalloc(&out, BYTES), cudaSuccess);
    SAME(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    within(stream, out);
    beyond(stream);
    captured(stream, out);
    by_the_driver(stream, out);
    with_a_stream_that_goes(stream, out);
    return failures();
}
