/* CUDA graphs through both libraries: capture by one and by several streams, what must not happen meanwhile, replay over new
 * contents, graphs that are built by hand, changed, copied and printed. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#if CUDART_VERSION >= 13000
#define NO_DATA NULL,
#else
#define NO_DATA
#endif

/* out[i] = in[i] * factor + i, in one block */
static const char SCALE[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry scale(.param .u64 out, .param .u64 in, .param .u32 factor) {\n"
    "  .reg .u32 %r<4>; .reg .u64 %d<4>;\n"
    "  mov.u32 %r0, %tid.x; mul.wide.u32 %d0, %r0, 4;\n"
    "  ld.param.u64 %d1, [out]; ld.param.u64 %d2, [in]; ld.param.u32 %r1, [factor];\n"
    "  add.u64 %d1, %d1, %d0; add.u64 %d2, %d2, %d0;\n"
    "  ld.global.u32 %r2, [%d2]; mad.lo.u32 %r3, %r2, %r1, %r0; st.global.u32 [%d1], %r3;\n"
    "  ret;\n"
    "}\n";

enum { COUNT = 64, BYTES = COUNT * 4 };

static CUfunction scale;
static int *in, *middle, *out;

static void launch(cudaStream_t stream, int *to, int *from, unsigned factor) {
    void *arguments[] = {&to, &from, &factor};
    SAME(cuLaunchKernel(scale, 1, 1, 1, COUNT, 1, 1, 0, stream, arguments, NULL), CUDA_SUCCESS);
}

static void fill(int *to, int value) {
    int values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = value;
    SAME(cudaMemcpy(to, values, BYTES, cudaMemcpyHostToDevice), cudaSuccess);
}

/* All of memory is base + i * step. */
static void is(const int *memory, int base, int step) {
    int got[COUNT], wrong = 0;
    SAME(cudaMemcpy(got, memory, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < COUNT; i++) wrong += got[i] != base + i * step;
    SAME(wrong, 0);
    if (wrong) fprintf(stderr, "  the first is %d and the second %d\n", got[0], got[1]);
}

static void count_call(void *data) { ++*(int *)data; }

static void CUDART_CB never(cudaStream_t stream, cudaError_t error, void *data) {
    (void)stream, (void)error, (void)data;
    abort();
}

static size_t nodes_of(cudaGraph_t graph) {
    size_t count = 99;
    SAME(cudaGraphGetNodes(graph, NULL, &count), cudaSuccess);
    return count;
}

static size_t edges_of(cudaGraph_t graph) {
    size_t count = 99;
    SAME(cudaGraphGetEdges(graph, NULL, NULL, NO_DATA &count), cudaSuccess);
    return count;
}

static void one_stream(cudaStream_t stream) {
    cudaGraph_t graph, known = NULL;
    cudaGraphExec_t exec;
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    size_t depends = 9;
    const cudaGraphNode_t *nodes = NULL;
    static int calls, host[COUNT];
    fill(in, 2), fill(middle, -1), fill(out, -1);

    SAME(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    SAME(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    SAME(status, cudaStreamCaptureStatusActive);
    SAME(cudaStreamGetCaptureInfo(stream, &status, &id, &known, &nodes, NO_DATA &depends), cudaSuccess);
    EXPECT(status == cudaStreamCaptureStatusActive && id > 0 && known != NULL && depends == 0);
    SAME(cudaMemcpyAsync(middle, in, BYTES, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    launch(stream, out, middle, 10);
    SAME(cudaMemsetAsync(middle, 1, BYTES, stream), cudaSuccess);
    SAME(cudaLaunchHostFunc(stream, count_call, &calls), cudaSuccess);
    SAME(cudaMemcpyAsync(host, out, BYTES, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    SAME(cudaStreamGetCaptureInfo(stream, &status, &id, &known, &nodes, NO_DATA &depends), cudaSuccess);
    SAME(depends, 1);
    enum cudaGraphNodeType type;
    SAME(cudaGraphNodeGetType(nodes[0], &type), cudaSuccess);
    SAME(type, cudaGraphNodeTypeMemcpy);
    SAME(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT(graph == known);
    SAME(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    SAME(status, cudaStreamCaptureStatusNone);

    /* Nothing ran. */
    is(middle, -1, 0), is(out, -1, 0);
    SAME(calls, 0);
    SAME(nodes_of(graph), 5);
    SAME(edges_of(graph), 4);

    SAME(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    is(out, -1, 0);
    for (int round = 1; round <= 3; round++) {
        fill(in, round);
        SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
        SAME(cudaStreamSynchronize(stream), cudaSuccess);
        is(out, 10 * round, 1), is(middle, 0x01010101, 0);
        SAME(calls, round);
        SAME(host[0], 10 * round);
        SAME(host[COUNT - 1], 10 * round + COUNT - 1);
    }
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphExecDestroy(exec), cudaErrorInvalidValue);
    SAME(cudaGraphLaunch(exec, stream), cudaErrorInvalidValue);
}

/* in to middle in one stream and to out in another, then middle += out's kernel in the first. */
static void several_streams(cudaStream_t first, cudaStream_t second) {
    cudaGraph_t graph, copy;
    cudaGraphExec_t exec;
    cudaEvent_t event;
    cudaGraphNode_t nodes[8], others[8];
    size_t count;
    float ms;
    SAME(cudaEventCreate(&event), cudaSuccess);
    fill(middle, -1), fill(out, -1);

    SAME(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    launch(first, middle, in, 1);
    SAME(cudaEventRecord(event, first), cudaSuccess);
    SAME(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    launch(second, out, middle, 2);
    launch(first, in, in, 1);
    SAME(cudaEventRecord(event, second), cudaSuccess);
    SAME(cudaStreamWaitEvent(first, event, 0), cudaSuccess);
    launch(first, middle, out, 3);
    SAME(cudaStreamEndCapture(first, &graph), cudaSuccess);
    SAME(nodes_of(graph), 4);
    SAME(edges_of(graph), 4);
    SAME(cudaEventQuery(event), cudaErrorCapturedEvent);
    SAME(cudaEventSynchronize(event), cudaErrorCapturedEvent);
    SAME(cudaEventElapsedTime(&ms, event, event), cudaErrorCapturedEvent);
    SAME(cudaStreamWaitEvent(first, event, 0), cudaErrorCapturedEvent);
    SAME(cudaEventRecord(event, first), cudaSuccess);
    SAME(cudaEventSynchronize(event), cudaSuccess);
    is(middle, -1, 0), is(out, -1, 0);

    count = 8;
    SAME(cudaGraphGetRootNodes(graph, nodes, &count), cudaSuccess);
    SAME(count, 1);
    EXPECT(nodes[7] == NULL);
    count = 8;
    SAME(cudaGraphNodeGetDependentNodes(nodes[0], others, NO_DATA &count), cudaSuccess);
    SAME(count, 2);
    SAME(cudaGraphClone(&copy, graph), cudaSuccess);
    SAME(cudaGraphNodeFindInClone(&others[0], nodes[0], copy), cudaSuccess);
    EXPECT(others[0] != nodes[0]);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    SAME(cudaGraphInstantiate(&exec, copy, 0), cudaSuccess);
    for (int round = 1; round <= 2; round++) {
        fill(in, 5 * round);
        SAME(cudaGraphLaunch(exec, first), cudaSuccess);
        SAME(cudaDeviceSynchronize(), cudaSuccess);
        /* middle = in + i; out = 2 middle + i; in = in + i; middle = 3 out + i */
        is(in, 5 * round, 1), is(out, 10 * round, 3), is(middle, 30 * round, 10);
    }
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphDestroy(copy), cudaSuccess);
    SAME(cudaEventDestroy(event), cudaSuccess);
}

/* The capture is invalid, and ends so. */
static void invalid(cudaStream_t stream) {
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph = (cudaGraph_t)1;
    SAME(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    SAME(status, cudaStreamCaptureStatusInvalidated);
    SAME(cudaMemsetAsync(out, 0, BYTES, stream), cudaErrorStreamCaptureInvalidated);
    SAME(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT(graph == NULL);
    SAME(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    SAME(status, cudaStreamCaptureStatusNone);
}

static void begin(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    SAME(cudaStreamBeginCapture(stream, mode), cudaSuccess);
}

static void mistakes(cudaStream_t free_stream, cudaStream_t second) {
    cudaStream_t blocking;
    cudaGraph_t graph;
    cudaEvent_t event;
    void *memory = NULL;
    SAME(cudaStreamCreate(&blocking), cudaSuccess);
    SAME(cudaEventCreate(&event), cudaSuccess);

    SAME(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
    SAME(cudaStreamBeginCapture(free_stream, 3), cudaErrorInvalidValue);
    SAME(cudaStreamEndCapture(free_stream, &graph), cudaErrorIllegalState);
    begin(free_stream, cudaStreamCaptureModeGlobal);
    SAME(cudaStreamBeginCapture(free_stream, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
    SAME(cudaStreamSynchronize(free_stream), cudaErrorStreamCaptureUnsupported);
    invalid(free_stream);
    begin(free_stream, cudaStreamCaptureModeGlobal);
    SAME(cudaStreamQuery(free_stream), cudaErrorStreamCaptureUnsupported);
    invalid(free_stream);
    begin(free_stream, cudaStreamCaptureModeGlobal);
    SAME(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    invalid(free_stream);
    begin(free_stream, cudaStreamCaptureModeGlobal);
    SAME(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
    invalid(free_stream);
    begin(free_stream, cudaStreamCaptureModeRelaxed);
    SAME(cudaMalloc(&memory, 16), cudaSuccess);
    SAME(cudaStreamEndCapture(free_stream, &graph), cudaSuccess);
    SAME(nodes_of(graph), 0);
    SAME(cudaFree(memory), cudaSuccess);

    /* The legacy stream waits for blocking streams, not for others. */
    begin(free_stream, cudaStreamCaptureModeRelaxed);
    SAME(cudaMemset(out, 3, BYTES), cudaSuccess);
    SAME(cudaStreamEndCapture(free_stream, &graph), cudaSuccess);
    is(out, 0x03030303, 0);
    begin(blocking, cudaStreamCaptureModeRelaxed);
    SAME(cudaMemset(out, 4, BYTES), cudaErrorStreamCaptureImplicit);
    invalid(blocking);
    is(out, 0x03030303, 0);

    /* Forks that are not joined, and events of what is not captured. */
    begin(free_stream, cudaStreamCaptureModeGlobal);
    SAME(cudaEventRecord(event, free_stream), cudaSuccess);
    SAME(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    SAME(cudaMemsetAsync(out, 0, BYTES, second), cudaSuccess);
    SAME(cudaStreamEndCapture(second, &graph), cudaErrorStreamCaptureUnmatched);
    invalid(free_stream);
    begin(free_stream, cudaStreamCaptureModeGlobal);
    SAME(cudaEventRecord(event, free_stream), cudaSuccess);
    SAME(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    SAME(cudaMemsetAsync(out, 0, BYTES, second), cudaSuccess);
    SAME(cudaStreamEndCapture(free_stream, &graph), cudaErrorStreamCaptureUnjoined);
    EXPECT(graph == NULL);
    SAME(cudaEventRecord(event, second), cudaSuccess);
    begin(free_stream, cudaStreamCaptureModeGlobal);
    SAME(cudaStreamWaitEvent(free_stream, event, 0), cudaErrorStreamCaptureIsolation);
    invalid(free_stream);
    begin(free_stream, cudaStreamCaptureModeRelaxed);
    begin(second, cudaStreamCaptureModeRelaxed);
    SAME(cudaEventRecord(event, second), cudaSuccess);
    SAME(cudaStreamWaitEvent(free_stream, event, 0), cudaErrorStreamCaptureMerge);
    invalid(free_stream), invalid(second);

    begin(free_stream, cudaStreamCaptureModeGlobal);
    SAME(cudaStreamAddCallback(free_stream, never, NULL, 0), cudaErrorStreamCaptureUnsupported);
    invalid(free_stream);
    begin(blocking, cudaStreamCaptureModeGlobal);
    SAME(cudaStreamDestroy(blocking), cudaSuccess);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    SAME(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    SAME(mode, cudaStreamCaptureModeGlobal);
    SAME(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    SAME(mode, cudaStreamCaptureModeRelaxed);
    SAME(cudaEventDestroy(event), cudaSuccess);
}

static void by_hand(cudaStream_t stream) {
    cudaGraph_t graph, child, other;
    cudaGraphExec_t exec;
    cudaGraphNode_t set, run, copy, call, inside, empty, recorded, waits, none;
    cudaEvent_t event;
    static int calls, more;
    unsigned factor = 2, enabled = 9;
    void *arguments[] = {&out, &middle, &factor};
    struct cudaMemsetParams bytes = {.dst = middle, .value = 7, .elementSize = 4, .width = COUNT, .height = 1};
    struct cudaKernelNodeParams kernel = {.func = scale, .gridDim = {1, 1, 1}, .blockDim = {COUNT, 1, 1}, .kernelParams = arguments};
    struct cudaHostNodeParams host = {.fn = count_call, .userData = &calls};
    SAME(cudaEventCreate(&event), cudaSuccess);
    SAME(cudaGraphCreate(&graph, 1), cudaErrorInvalidValue);
    SAME(cudaGraphCreate(&graph, 0), cudaSuccess);
    SAME(cudaGraphCreate(&child, 0), cudaSuccess);
    SAME(cudaGraphAddHostNode(&inside, child, NULL, 0, &host), cudaSuccess);
    SAME(cudaGraphAddKernelNode(&run, graph, NULL, 0, &kernel), cudaSuccess);
    SAME(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &bytes), cudaSuccess);
    SAME(cudaGraphAddDependencies(graph, &set, &run, NO_DATA 1), cudaSuccess);
    SAME(cudaGraphAddDependencies(graph, &set, &run, NO_DATA 1), cudaErrorInvalidValue);
    SAME(cudaGraphAddMemcpyNode1D(&copy, graph, &run, 1, in, out, BYTES, cudaMemcpyDeviceToDevice), cudaSuccess);
    SAME(cudaGraphAddChildGraphNode(&call, graph, &copy, 1, child), cudaSuccess);
    SAME(cudaGraphAddEmptyNode(&empty, graph, &call, 1), cudaSuccess);
    SAME(cudaGraphAddEmptyNode(&none, child, &call, 1), cudaErrorInvalidValue);
    SAME(cudaGraphAddEventRecordNode(&recorded, graph, &empty, 1, event), cudaSuccess);
    SAME(cudaGraphAddEventWaitNode(&waits, graph, &recorded, 1, event), cudaSuccess);
    SAME(cudaGraphDestroy(child), cudaSuccess);
    SAME(cudaGraphChildGraphNodeGetGraph(call, &other), cudaSuccess);
    SAME(nodes_of(other), 1);
    SAME(cudaGraphDestroy(other), cudaErrorInvalidValue);
    SAME(nodes_of(graph), 7);

    SAME(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch), cudaSuccess);
    unsigned long long flags = 0;
    SAME(cudaGraphExecGetFlags(exec, &flags), cudaSuccess);
    SAME(flags, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    fill(in, 0);
    SAME(cudaGraphUpload(exec, stream), cudaSuccess);
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    SAME(cudaEventSynchronize(event), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    is(in, 14, 1);
    SAME(calls, 1);

    /* Values are taken when they are given. */
    factor = 3;
    struct cudaKernelNodeParams got;
    SAME(cudaGraphKernelNodeGetParams(run, &got), cudaSuccess);
    EXPECT(got.func == scale && got.blockDim.x == COUNT && *(unsigned *)got.kernelParams[2] == 2);
    SAME(cudaGraphExecKernelNodeSetParams(exec, run, &kernel), cudaSuccess);
    SAME(cudaGraphExecKernelNodeSetParams(exec, set, &kernel), cudaErrorInvalidValue);
    bytes.value = 9;
    SAME(cudaGraphExecMemsetNodeSetParams(exec, set, &bytes), cudaSuccess);
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    is(in, 27, 1);
    struct cudaMemsetParams kept;
    SAME(cudaGraphMemsetNodeGetParams(set, &kept), cudaSuccess);
    EXPECT(kept.value == 7 && kept.width == COUNT && kept.dst == middle);

    /* Switched off, the copy leaves in as it is. */
    SAME(cudaGraphNodeSetEnabled(exec, copy, 0), cudaSuccess);
    SAME(cudaGraphNodeGetEnabled(exec, copy, &enabled), cudaSuccess);
    SAME(enabled, 0);
    SAME(cudaGraphNodeSetEnabled(exec, call, 0), cudaErrorInvalidValue);
    fill(in, 1);
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    is(in, 1, 0), is(out, 27, 1);

    /* The same nodes with other values replace them; other nodes do not. */
    cudaGraphExecUpdateResultInfo info;
    bytes.value = 5;
    SAME(cudaGraphMemsetNodeSetParams(set, &bytes), cudaSuccess);
    SAME(cudaGraphExecUpdate(exec, graph, &info), cudaSuccess);
    SAME(info.result, cudaGraphExecUpdateSuccess);
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    is(out, 10, 1);
    SAME(cudaGraphAddHostNode(&none, graph, &waits, 1, &(struct cudaHostNodeParams){.fn = count_call, .userData = &more}), cudaSuccess);
    SAME(cudaGraphExecUpdate(exec, graph, &info), cudaErrorGraphExecUpdateFailure);
    SAME(info.result, cudaGraphExecUpdateErrorTopologyChanged);

    /* A launch in a stream that captures is a node of the graph there. */
    begin(stream, cudaStreamCaptureModeGlobal);
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    SAME(cudaStreamEndCapture(stream, &other), cudaSuccess);
    SAME(nodes_of(other), 2);
    SAME(calls, 4);
    cudaGraphExec_t twice;
    SAME(cudaGraphInstantiate(&twice, other, 0), cudaSuccess);
    SAME(cudaGraphLaunch(twice, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    SAME(calls, 6);

    /* A cycle cannot run. */
    SAME(cudaGraphAddDependencies(graph, &waits, &set, NO_DATA 1), cudaSuccess);
    cudaGraphInstantiateParams how = {0};
    SAME(cudaGraphInstantiateWithParams(&twice, graph, &how), cudaErrorInvalidValue);
    SAME(how.result_out, cudaGraphInstantiateInvalidStructure);
    SAME(cudaGraphRemoveDependencies(graph, &waits, &set, NO_DATA 1), cudaSuccess);
    SAME(cudaGraphDestroyNode(none), cudaSuccess);
    SAME(nodes_of(graph), 7);
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaErrorInvalidValue);
    SAME(cudaEventDestroy(event), cudaSuccess);
}

/* Into a graph of the program's, with dependencies of its choice, by the driver's names. */
static void by_the_driver(CUstream stream) {
    CUgraph graph, same;
    CUgraphExec exec;
    CUgraphNode first, node;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUDA_KERNEL_NODE_PARAMS kernel = {0};
    unsigned factor = 4;
    void *arguments[] = {&out, &in, &factor};
    kernel.func = scale, kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = COUNT, kernel.blockDimY = kernel.blockDimZ = 1, kernel.kernelParams = arguments;
    SAME(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    SAME(cuGraphAddKernelNode(&first, graph, NULL, 0, &kernel), CUDA_SUCCESS);
    SAME(cuStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    launch(stream, middle, out, 1);
    SAME(cuStreamUpdateCaptureDependencies(stream, &first, NO_DATA 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES), CUDA_SUCCESS);
    launch(stream, in, out, 1);
    const CUgraphNode *nodes;
    size_t count = 0;
    SAME(cuStreamGetCaptureInfo(stream, &status, &id, &same, &nodes, NO_DATA &count), CUDA_SUCCESS);
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && same == graph && count == 1);
    node = nodes[0];
    SAME(cuStreamUpdateCaptureDependencies(stream, &node, NO_DATA 1, 7), CUDA_ERROR_INVALID_VALUE);
    /* What nobody comes after is still joined only if the stream's next node would come after it. */
    SAME(cuStreamEndCapture(stream, &same), CUDA_SUCCESS);
    EXPECT(same == graph);
    SAME(cuGraphGetEdges(graph, NULL, NULL, NO_DATA &count), CUDA_SUCCESS);
    SAME(count, 2);
    SAME(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    fill(in, 3);
    SAME(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    SAME(cuStreamSynchronize(stream), CUDA_SUCCESS);
    is(out, 12, 1), is(middle, 12, 2), is(in, 12, 2);
    SAME(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    SAME(cuGraphDestroy(graph), CUDA_SUCCESS);
}

/* if (value) the handle is set to value - 1, which is also added to a number. */
static const char COUNT_DOWN[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry count_down(.param .u64 left, .param .u64 sum, .param .u64 handle) {\n"
    "  .reg .u32 %r<3>; .reg .u64 %d<3>;\n"
    "  ld.param.u64 %d0, [left]; ld.param.u64 %d1, [sum]; ld.param.u64 %d2, [handle];\n"
    "  ld.global.u32 %r0, [%d0]; sub.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0;\n"
    "  ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, %r0; st.global.u32 [%d1], %r1;\n"
    "  { .param .b64 a; .param .b32 b; st.param.b64 [a], %d2; st.param.b32 [b], %r0;\n"
    "    call.uni cudaGraphSetConditional, (a, b); }\n"
    "  ret;\n"
    "}\n";

static struct cudaGraphNodeParams fills(int *to, int value) {
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeMemset};
    params.memset.dst = to, params.memset.value = value, params.memset.elementSize = 4;
    params.memset.width = COUNT, params.memset.height = 1;
    return params;
}

static int number_at(const int *memory) {
    int got = -1;
    SAME(cudaMemcpy(&got, memory, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    return got;
}

static struct cudaPitchedPtr make_pitched(int *memory) {
    struct cudaPitchedPtr place = {memory, BYTES, BYTES, 1};
    return place;
}

/* Nodes by the union of their parameters, and conditional ones, whose values are defaults or set by a kernel. */
static void conditional(cudaStream_t stream) {
    cudaGraph_t graph, clone, *bodies;
    cudaGraphNode_t node, after;
    cudaGraphExec_t exec;
    cudaGraphConditionalHandle handles[5];
    enum cudaGraphNodeType type;
    SAME(cudaGraphCreate(&graph, 0), cudaSuccess);
    const unsigned defaults[5] = {1, 0, 2, 7, 0};
    for (int i = 0; i < 5; i++)
        SAME(cudaGraphConditionalHandleCreate(&handles[i], graph, defaults[i], i < 4), cudaSuccess);
    SAME(cudaGraphConditionalHandleCreate(&handles[4], graph, 0, 2), cudaErrorInvalidValue);

    struct cudaGraphNodeParams params = fills(out, 5);
    SAME(cudaGraphAddNode(&node, graph, NULL, NO_DATA 0, &params), cudaSuccess);
    SAME(cudaGraphNodeGetType(node, &type), cudaSuccess);
    SAME(type, cudaGraphNodeTypeMemset);

    /* If, if with else, and switches: one within its bodies and one that is not. */
    const enum cudaGraphConditionalNodeType kinds[4] = {
        cudaGraphCondTypeIf, cudaGraphCondTypeIf, cudaGraphCondTypeSwitch, cudaGraphCondTypeSwitch};
    const unsigned sizes[4] = {1, 2, 3, 2};
    for (int i = 0; i < 4; i++) {
        struct cudaGraphNodeParams choice = {.type = cudaGraphNodeTypeConditional};
        choice.conditional.handle = handles[i], choice.conditional.type = kinds[i], choice.conditional.size = sizes[i];
        SAME(cudaGraphAddNode(&after, graph, &node, NO_DATA 1, &choice), cudaSuccess);
        SAME(cudaGraphNodeGetType(after, &type), cudaSuccess);
        SAME(type, cudaGraphNodeTypeConditional);
        bodies = choice.conditional.phGraph_out;
        for (unsigned body = 0; body < sizes[i]; body++) {
            params = fills(out + 8 * (i + 1), (int)(100 * i + body));
            params.memset.width = 8;
            SAME(cudaGraphAddNode(&node, bodies[body], NULL, NO_DATA 0, &params), cudaSuccess);
        }
        /* Bodies end with their graph. */
        SAME(cudaGraphDestroy(bodies[0]), cudaErrorInvalidValue);
        node = after;
    }
    struct cudaGraphNodeParams loop = {.type = cudaGraphNodeTypeConditional};
    loop.conditional.handle = 12345, loop.conditional.type = cudaGraphCondTypeWhile, loop.conditional.size = 1;
    SAME(cudaGraphAddNode(&after, graph, NULL, NO_DATA 0, &loop), cudaErrorInvalidValue);
    loop.conditional.handle = handles[4], loop.conditional.size = 2;
    SAME(cudaGraphAddNode(&after, graph, NULL, NO_DATA 0, &loop), cudaErrorInvalidValue);

    /* A loop: the kernel before it sets the value first, that within it the next ones. Its body is captured. */
    CUmodule module;
    CUfunction count_down;
    SAME(cuModuleLoadData(&module, COUNT_DOWN), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&count_down, module, "count_down"), CUDA_SUCCESS);
    int *sum = middle;
    void *arguments[] = {&in, &sum, &handles[4]};
    struct cudaGraphNodeParams kernel = {.type = cudaGraphNodeTypeKernel};
    kernel.kernel.func = (void *)count_down, kernel.kernel.kernelParams = arguments;
    kernel.kernel.gridDim.x = kernel.kernel.gridDim.y = kernel.kernel.gridDim.z = 1;
    kernel.kernel.blockDim = kernel.kernel.gridDim;
    SAME(cudaGraphAddNode(&node, graph, NULL, NO_DATA 0, &kernel), cudaSuccess);
    loop.conditional.size = 1;
    SAME(cudaGraphAddNode(&after, graph, &node, NO_DATA 1, &loop), cudaSuccess);
    SAME(cudaStreamBeginCaptureToGraph(stream, loop.conditional.phGraph_out[0], NULL, NULL, 0, cudaStreamCaptureModeGlobal),
         cudaSuccess);
    SAME(cuLaunchKernel(count_down, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL), CUDA_SUCCESS);
    SAME(cudaStreamEndCapture(stream, NULL), cudaSuccess);

    SAME(cudaGraphClone(&clone, graph), cudaErrorNotSupported);
    SAME(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    for (int turn = 0; turn < 2; turn++) {
        fill(out, 0), fill(in, 6), fill(middle, 0);
        SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
        SAME(cudaStreamSynchronize(stream), cudaSuccess);
        const int expected[5] = {5, 0, 101, 202, 5};
        for (int i = 0; i < 5; i++) {
            SAME(number_at(out + 8 * i), expected[i]);
            SAME(number_at(out + 8 * i + 7), expected[i]);
        }
        /* 6 - 1 before the loop, then 4, 3, 2, 1, 0 within it. */
        SAME(number_at(in), 0);
        SAME(number_at(sum), 5 + 4 + 3 + 2 + 1);
    }
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cuModuleUnload(module), CUDA_SUCCESS);

    /* The other kinds, and what is not there. */
    cudaGraph_t child;
    cudaEvent_t event;
    SAME(cudaGraphCreate(&graph, 0), cudaSuccess);
    SAME(cudaGraphCreate(&child, 0), cudaSuccess);
    SAME(cudaEventCreate(&event), cudaSuccess);
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeEmpty};
    SAME(cudaGraphAddNode(&node, child, NULL, NO_DATA 0, &params), cudaSuccess);
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeGraph};
    params.graph.graph = child;
    SAME(cudaGraphAddNode(&node, graph, NULL, NO_DATA 0, &params), cudaSuccess);
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeMemcpy};
    params.memcpy.copyParams.srcPtr = make_pitched(out), params.memcpy.copyParams.dstPtr = make_pitched(in);
    params.memcpy.copyParams.extent.width = 32, params.memcpy.copyParams.extent.height = 1;
    params.memcpy.copyParams.extent.depth = 1, params.memcpy.copyParams.kind = cudaMemcpyDeviceToDevice;
    SAME(cudaGraphAddNode(&after, graph, &node, NO_DATA 1, &params), cudaSuccess);
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeEventRecord};
    params.eventRecord.event = event;
    SAME(cudaGraphAddNode(&node, graph, &after, NO_DATA 1, &params), cudaSuccess);
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeWaitEvent};
    params.eventWait.event = event;
    SAME(cudaGraphAddNode(&after, graph, &node, NO_DATA 1, &params), cudaSuccess);
    params = (struct cudaGraphNodeParams){.type = (enum cudaGraphNodeType)99};
    SAME(cudaGraphAddNode(&node, graph, NULL, NO_DATA 0, &params), cudaErrorInvalidValue);
    params = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeEmpty};
    params.reserved2 = 1;
    SAME(cudaGraphAddNode(&node, graph, NULL, NO_DATA 0, &params), cudaErrorInvalidValue);
    size_t count;
    SAME(cudaGraphGetNodes(graph, NULL, &count), cudaSuccess);
    SAME(count, 4);
    fill(out, 9), fill(in, 0);
    SAME(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    SAME(cudaGraphLaunch(exec, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    SAME(number_at(in), 9);
    SAME(number_at(in + 8), 0);
    SAME(cudaGraphExecDestroy(exec), cudaSuccess);
    SAME(cudaGraphDestroy(child), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    SAME(cudaEventDestroy(event), cudaSuccess);
    SAME(cudaCtxResetPersistingL2Cache(), cudaSuccess);
    SAME(cuCtxResetPersistingL2Cache(), CUDA_SUCCESS);
}

int main(void) {
    CUmodule module;
    cudaStream_t first, second;
    SAME(cudaFree(NULL), cudaSuccess);
    SAME(cuModuleLoadData(&module, SCALE), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&scale, module, "scale"), CUDA_SUCCESS);
    SAME(cudaMalloc((void **)&in, BYTES), cudaSuccess);
    SAME(cudaMalloc((void **)&middle, BYTES), cudaSuccess);
    SAME(cudaMalloc((void **)&out, BYTES), cudaSuccess);
    SAME(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
    SAME(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
    one_stream(first);
    several_streams(first, second);
    mistakes(first, second);
    by_hand(first);
    by_the_driver(first);
    conditional(first);
    return failures();
}
