/* CUPTI's activity records, read with NVIDIA's structs: what was done, where, when, by which call, for which identifier. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel11 Kernel;
#else
typedef CUpti_ActivityKernel9 Kernel;
#endif

static const char STORE[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry _Z5storePi(.param .u64 out) {\n"
    "  .reg .u32 %r<2>; .reg .u64 %d; .shared .align 4 .b8 room[64];\n"
    "  ld.param.u64 %d, [out]; mov.u32 %r0, 21; st.global.u32 [%d], %r0; ret;\n"
    "}\n";

enum { SIZE = 4096, MOST = 64 };

static char buffer[SIZE] __attribute__((aligned(8)));
static int requested, completed;
/* What was delivered, by kind. */
static CUpti_ActivityAPI calls[MOST];
static CUpti_ActivityExternalCorrelation external[MOST];
static CUpti_ActivityMemcpy6 copies[MOST];
static CUpti_ActivityMemcpyPtoP4 peers[MOST];
static CUpti_ActivityMemset4 fills[MOST];
static Kernel kernels[MOST];
static CUpti_ActivityCudaEvent2 events[MOST];
static CUpti_ActivitySynchronization2 waits[MOST];
static int event_count, wait_count, call_count, external_count, copy_count, peer_count, fill_count, kernel_count;

static void CUPTIAPI request(uint8_t **out, size_t *size, size_t *most) {
    requested++;
    *out = (uint8_t *)buffer;
    *size = SIZE;
    *most = 3;
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *records, size_t size, size_t valid) {
    completed++;
    EXPECT(context == NULL && stream == 0 && records == (uint8_t *)buffer && size == SIZE && valid <= size);
    CUpti_Activity *record = NULL;
    int count = 0;
    while (cuptiActivityGetNextRecord(records, valid, &record) == CUPTI_SUCCESS) {
        EXPECT(++count <= 3);
        switch ((int)record->kind) {
        case CUPTI_ACTIVITY_KIND_RUNTIME:
        case CUPTI_ACTIVITY_KIND_DRIVER: calls[call_count++] = *(CUpti_ActivityAPI *)record; break;
        case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
            external[external_count++] = *(CUpti_ActivityExternalCorrelation *)record;
            break;
        case CUPTI_ACTIVITY_KIND_MEMCPY: copies[copy_count++] = *(CUpti_ActivityMemcpy6 *)record; break;
        case CUPTI_ACTIVITY_KIND_MEMCPY2: peers[peer_count++] = *(CUpti_ActivityMemcpyPtoP4 *)record; break;
        case CUPTI_ACTIVITY_KIND_MEMSET: fills[fill_count++] = *(CUpti_ActivityMemset4 *)record; break;
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: kernels[kernel_count++] = *(Kernel *)record; break;
        case CUPTI_ACTIVITY_KIND_CUDA_EVENT: events[event_count++] = *(CUpti_ActivityCudaEvent2 *)record; break;
        case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: waits[wait_count++] = *(CUpti_ActivitySynchronization2 *)record; break;
        default: SAME(record->kind, 0);
        }
    }
    SAME(cuptiActivityGetNextRecord(records, valid, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
}

/* A clock that runs twice as fast as the machine's. */
static uint64_t CUPTIAPI twice(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 2 * ((uint64_t)now.tv_sec * 1000000000 + now.tv_nsec);
}

static int contexts, ended;
static void CUPTIAPI told(void *data, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *about) {
    EXPECT(data == &contexts && domain == CUPTI_CB_DOMAIN_RESOURCE);
    EXPECT(((const CUpti_ResourceData *)about)->context != NULL);
    contexts += id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED;
    ended += id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING;
}

/* The call with a number, which a record of work names. */
static const CUpti_ActivityAPI *call_of(uint32_t correlation) {
    static const CUpti_ActivityAPI none;
    for (int i = 0; i < call_count; i++)
        if (calls[i].correlationId == correlation) return &calls[i];
    return &none;
}

static uint64_t id_of(uint32_t correlation, CUpti_ExternalCorrelationKind kind) {
    for (int i = 0; i < external_count; i++)
        if (external[i].correlationId == correlation && external[i].externalKind == kind) return external[i].externalId;
    return 0;
}

int main(void) {
    CUpti_SubscriberHandle subscriber, other;
    SAME(cuptiSubscribe(&subscriber, told, &contexts), CUPTI_SUCCESS);
    SAME(cuptiSubscribe(&other, told, NULL), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    SAME(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED), CUPTI_SUCCESS);
    SAME(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING), CUPTI_SUCCESS);
    SAME(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED), CUPTI_ERROR_NOT_SUPPORTED);
    SAME(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_ERROR_NOT_SUPPORTED);
    const char *name = NULL;
    SAME(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, &name), CUPTI_SUCCESS);
    EXPECT(name && strcmp(name, "cudaMemcpyAsync_v3020") == 0);

    SAME(cuptiGetResultString(CUPTI_ERROR_INVALID_OPERATION, &name), CUPTI_SUCCESS);
    EXPECT(strcmp(name, "CUPTI_ERROR_INVALID_OPERATION") == 0);

    int *first = NULL, *second = NULL, host[16] = {0};
    cudaStream_t stream;
    SAME(cudaSetDevice(1), 0);
    SAME(cudaMalloc((void **)&second, sizeof host), 0);
    SAME(cudaSetDevice(0), 0);
    SAME(cudaMalloc((void **)&first, sizeof host), 0);
    SAME(contexts, 2);
    SAME(cudaSetDevice(1), 0);
    SAME(cudaDeviceReset(), 0);
    SAME(ended, 1);
    SAME(cudaMalloc((void **)&second, sizeof host), 0);
    SAME(contexts, 3);
    SAME(cudaSetDevice(0), 0);
    SAME(cuptiUnsubscribe(subscriber), CUPTI_SUCCESS);
    SAME(cudaStreamCreate(&stream), 0);
    CUmodule module;
    CUfunction store;
    SAME(cuModuleLoadData(&module, STORE), 0);
    SAME(cuModuleGetFunction(&store, module, "_Z5storePi"), 0);

    SAME(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION); /* there are no buffers */
    SAME(cuptiActivityRegisterCallbacks(request, complete), CUPTI_SUCCESS);
    SAME(cuptiActivityRegisterTimestampCallback(twice), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY2), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_OVERHEAD), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION), CUPTI_SUCCESS);
    SAME(cuptiActivityEnableDriverApi(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, 1), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_INVALID), CUPTI_ERROR_INVALID_KIND);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MARKER), CUPTI_ERROR_NOT_SUPPORTED);

    uint64_t start = 0, end = 0, id = 0;
    SAME(cuptiGetTimestamp(&start), CUPTI_SUCCESS);
    SAME(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 41), CUPTI_SUCCESS);
    SAME(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 42), CUPTI_SUCCESS);
    SAME(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 7), CUPTI_SUCCESS);
    SAME(cudaMemcpyAsync(first, host, sizeof host, cudaMemcpyHostToDevice, stream), 0);
    SAME(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id), CUPTI_SUCCESS);
    SAME(id, 42);
    void *arguments[] = {&first};
    SAME(cuLaunchKernel(store, 2, 3, 1, 32, 1, 1, 128, stream, arguments, NULL), 0);
    SAME(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, NULL), CUPTI_SUCCESS);
    SAME(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, NULL), CUPTI_ERROR_QUEUE_EMPTY);
    SAME(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, NULL), CUPTI_SUCCESS);
    SAME(cudaMemcpyPeerAsync(second, 1, first, 0, sizeof host, stream), 0);
    SAME(cudaMemsetAsync(first, 5, 24, stream), 0);
    SAME(cudaMemcpy(host, first, sizeof host, cudaMemcpyDeviceToHost), 0);
    SAME(cudaStreamSynchronize(stream), 0);
    SAME(cuptiGetTimestamp(&end), CUPTI_SUCCESS);
    SAME(requested, 1);
    SAME(completed, 0);
    SAME(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
    SAME(requested, completed);
    size_t dropped = 1;
    SAME(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped), CUPTI_SUCCESS);
    SAME(dropped, 0);

    SAME(copy_count, 2);
    SAME(copies[0].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
    SAME(copies[0].srcKind, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
    SAME(copies[0].dstKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
    SAME(copies[0].bytes, sizeof host);
    SAME(copies[0].deviceId, 0);
    SAME(call_of(copies[0].correlationId)->cbid, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
    SAME(id_of(copies[0].correlationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0), 42);
    SAME(id_of(copies[0].correlationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1), 7);
    SAME(copies[1].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
    SAME(id_of(copies[1].correlationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0), 0);
    EXPECT(copies[1].streamId != copies[0].streamId);

    SAME(kernel_count, 1);
    EXPECT(strcmp(kernels[0].name, "_Z5storePi") == 0);
    SAME(kernels[0].gridX * 100 + kernels[0].gridY * 10 + kernels[0].gridZ, 231);
    SAME(kernels[0].blockX * 100 + kernels[0].blockY * 10 + kernels[0].blockZ, 3211);
    SAME(kernels[0].staticSharedMemory, 64);
    SAME(kernels[0].dynamicSharedMemory, 128);
    EXPECT(kernels[0].registersPerThread > 0);
    SAME(kernels[0].streamId, copies[0].streamId);
    SAME(kernels[0].contextId, copies[0].contextId);
    SAME(kernels[0].completed, kernels[0].end);
    SAME(call_of(kernels[0].correlationId)->kind, CUPTI_ACTIVITY_KIND_DRIVER);
    SAME(call_of(kernels[0].correlationId)->cbid, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
    SAME(id_of(kernels[0].correlationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0), 41);
    EXPECT(start <= copies[0].start && copies[0].start <= copies[0].end && copies[0].end <= kernels[0].start);
    EXPECT(kernels[0].start <= kernels[0].end && kernels[0].end <= end);

    SAME(peer_count, 1);
    SAME(peers[0].srcDeviceId, 0);
    SAME(peers[0].dstDeviceId, 1);
    SAME(peers[0].bytes, sizeof host);
    EXPECT(peers[0].srcContextId != peers[0].dstContextId);
    SAME(fill_count, 1);
    SAME(fills[0].value, 5);
    SAME(fills[0].bytes, 24);
    SAME(fills[0].memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);

    const CUpti_ActivityAPI *copy = call_of(copies[0].correlationId);
    SAME(copy->returnValue, 0);
    EXPECT(copy->start <= copies[0].start && copy->start <= copy->end);

    cudaEvent_t event;
    SAME(cudaEventCreate(&event), 0);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CUDA_EVENT), CUPTI_SUCCESS);
    SAME(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION), CUPTI_SUCCESS);
    SAME(cudaEventRecord(event, stream), 0);
#if CUPTI_API_VERSION >= 130000
    SAME(cuptiActivityEnableCudaEventDeviceTimestamps(1), CUPTI_SUCCESS);
#endif
    SAME(cudaEventRecord(event, stream), 0);
    SAME(cudaStreamWaitEvent(0, event, 0), 0);
    SAME(cudaEventSynchronize(event), 0);
    SAME(cudaStreamSynchronize(stream), 0);
    SAME(cudaDeviceSynchronize(), 0);
    SAME(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CUDA_EVENT), CUPTI_SUCCESS);
    SAME(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION), CUPTI_SUCCESS);
    SAME(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
    SAME(event_count, 2);
    SAME(events[1].streamId, copies[0].streamId);
    SAME(events[1].deviceId, 0);
    SAME(events[1].eventId, events[0].eventId);
    EXPECT(events[1].cudaEventSyncId > events[0].cudaEventSyncId);
    SAME(events[0].deviceTimestamp, 0);
#if CUPTI_API_VERSION >= 130000
    EXPECT(events[1].deviceTimestamp >= end);
#endif
    SAME(call_of(events[1].correlationId)->cbid, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020);
    SAME(wait_count, 4);
    SAME(waits[0].type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT);
    EXPECT(waits[0].streamId != waits[2].streamId);
    SAME(waits[0].cudaEventId, events[1].eventId);
    SAME(waits[0].cudaEventSyncId, events[1].cudaEventSyncId);
    SAME(waits[1].type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
    SAME(waits[1].streamId, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
    SAME(waits[1].cudaEventId, events[1].eventId);
    SAME(waits[2].type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
    SAME(waits[2].streamId, copies[0].streamId);
    SAME(waits[2].contextId, copies[0].contextId);
    SAME(waits[2].cudaEventId, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
    SAME(waits[3].type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
    SAME(call_of(waits[3].correlationId)->cbid, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020);
    EXPECT(end <= waits[0].start && waits[0].start <= waits[0].end && waits[0].end <= waits[3].start);

    int calls_before = call_count;
    SAME(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_SUCCESS);
    SAME(cuptiActivityEnableRuntimeApi(CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020, 0), CUPTI_SUCCESS);
    SAME(cudaMemcpy(host, first, sizeof host, cudaMemcpyDeviceToHost), 0);
    SAME(cudaMemset(first, 0, 8), 0);
    SAME(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), CUPTI_SUCCESS);
    SAME(copy_count, 2);
    SAME(fill_count, 2);
    SAME(call_count, calls_before + 1);
    SAME(cuptiFinalize(), CUPTI_SUCCESS);
    SAME(cudaMemset(first, 0, 8), 0);
    SAME(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
    SAME(fill_count, 2);
    return failures();
}
