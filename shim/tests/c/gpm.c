/* Counters of a GPU between two samples (GPM), and the events of the system. An H100, which has counters, and an A100, which has none. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <nvml.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

static const char *kernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry count(.param .u64 most)\n{\n"
    ".reg .u64 %rd<3>;\n.reg .pred %p;\n"
    "ld.param.u64 %rd1, [most];\nmov.u64 %rd2, 0;\n"
    "LOOP:\nadd.u64 %rd2, %rd2, 1;\nsetp.lt.u64 %p, %rd2, %rd1;\n@%p bra LOOP;\nret;\n}\n";

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static nvmlReturn_t ask(nvmlGpmMetricsGet_t *metrics, nvmlGpmSample_t first, nvmlGpmSample_t second) {
    metrics->version = NVML_GPM_METRICS_GET_VERSION;
    metrics->sample1 = first;
    metrics->sample2 = second;
    return nvmlGpmMetricsGet(metrics);
}

static void system_events(void) {
    nvmlSystemEventSetCreateRequest_t made = {.version = nvmlSystemEventSetCreateRequest_v1};
    SAME(nvmlSystemEventSetCreate(&made), NVML_SUCCESS);
    nvmlSystemRegisterEventRequest_t wanted = {.version = nvmlSystemRegisterEventRequest_v1, .eventTypes = 3, .set = made.set};
    SAME(nvmlSystemRegisterEvents(&wanted), NVML_SUCCESS);
    wanted.eventTypes = 4;
    SAME(nvmlSystemRegisterEvents(&wanted), NVML_ERROR_NOT_SUPPORTED);
    nvmlSystemEventData_v1_t data[2];
    nvmlSystemEventSetWaitRequest_t wait = {.version = nvmlSystemEventSetWaitRequest_v1, .timeoutms = 20, .set = made.set, .data = data, .dataSize = 2, .numEvent = 9};
    double begin = seconds();
    SAME(nvmlSystemEventSetWait(&wait), NVML_ERROR_TIMEOUT);
    EXPECT(seconds() - begin >= 0.02);
    SAME(wait.numEvent, 0);
    wait.version = 7;
    SAME(nvmlSystemEventSetWait(&wait), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    nvmlSystemEventSetFreeRequest_t gone = {.version = nvmlSystemEventSetFreeRequest_v1, .set = made.set};
    SAME(nvmlSystemEventSetFree(&gone), NVML_SUCCESS);
    SAME(nvmlSystemEventSetFree(&gone), NVML_ERROR_INVALID_ARGUMENT);
    SAME(nvmlSystemEventSetFree(NULL), NVML_ERROR_INVALID_ARGUMENT);
}

/* nvmlNvLinkInfo_v1_t of NVML 13, which these headers do not have. */
struct link {
    unsigned version, is_encrypted;
};
nvmlReturn_t nvmlDeviceGetNvLinkInfo(nvmlDevice_t device, struct link *info);

int main(void) {
    nvmlGpmSample_t first, second;
    SAME(nvmlGpmSampleAlloc(&first), NVML_ERROR_UNINITIALIZED);
    SAME(nvmlInit_v2(), NVML_SUCCESS);
    nvmlDevice_t h100, a100;
    SAME(nvmlDeviceGetHandleByIndex_v2(0, &h100), NVML_SUCCESS);
    SAME(nvmlDeviceGetHandleByIndex_v2(1, &a100), NVML_SUCCESS);

    nvmlGpmSupport_t support = {.version = NVML_GPM_SUPPORT_VERSION};
    SAME(nvmlGpmQueryDeviceSupport(h100, &support), NVML_SUCCESS);
    SAME(support.isSupportedDevice, 1);
    SAME(nvmlGpmQueryDeviceSupport(a100, &support), NVML_SUCCESS);
    SAME(support.isSupportedDevice, 0);
    support.version = 9;
    SAME(nvmlGpmQueryDeviceSupport(h100, &support), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    unsigned int state = 9;
    SAME(nvmlGpmQueryIfStreamingEnabled(h100, &state), NVML_SUCCESS);
    SAME(state, NVML_FEATURE_DISABLED);
    SAME(nvmlGpmQueryIfStreamingEnabled(a100, &state), NVML_ERROR_NOT_SUPPORTED);
    SAME(nvmlGpmSetStreamingEnabled(h100, NVML_FEATURE_ENABLED), NVML_ERROR_NO_PERMISSION);
    SAME(nvmlGpmSetStreamingEnabled(a100, NVML_FEATURE_ENABLED), NVML_ERROR_NOT_SUPPORTED);

    SAME(nvmlGpmSampleAlloc(NULL), NVML_ERROR_INVALID_ARGUMENT);
    SAME(nvmlGpmSampleAlloc(&first), NVML_SUCCESS);
    SAME(nvmlGpmSampleAlloc(&second), NVML_SUCCESS);
    SAME(nvmlGpmSampleGet(a100, first), NVML_ERROR_NOT_SUPPORTED);
    SAME(nvmlGpmSampleGet(h100, (nvmlGpmSample_t)&state), NVML_ERROR_INVALID_ARGUMENT);
    SAME(nvmlGpmMigSampleGet(h100, 0, first), NVML_ERROR_NOT_SUPPORTED);
    nvmlGpmMetricsGet_t *metrics = calloc(1, sizeof *metrics);
    metrics->numMetrics = 1;
    metrics->metrics[0].metricId = NVML_GPM_METRIC_SM_UTIL;
    SAME(ask(metrics, first, second), NVML_ERROR_INVALID_ARGUMENT); /* neither was taken */

    /* A kernel, 64 MiB to the GPU and 16 MiB from it. */
    enum { MIB = 1 << 20 };
    char *host = malloc(64 * MIB), *device = NULL;
    CUmodule module;
    CUfunction count;
    unsigned long long most = 20000000;
    void *arguments[] = {&most};
    SAME(cudaMalloc((void **)&device, 64 * MIB), cudaSuccess);
    memset(host, 1, 64 * MIB);
    SAME(cuModuleLoadData(&module, kernel), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&count, module, "count"), CUDA_SUCCESS);
    double before = seconds();
    SAME(nvmlGpmSampleGet(h100, first), NVML_SUCCESS);
    double after = seconds();
    SAME(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), CUDA_SUCCESS);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(cudaMemcpy(device, host, 64 * MIB, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cudaMemcpy(host, device, 16 * MIB, cudaMemcpyDeviceToHost), cudaSuccess);
    double least = seconds() - after;
    SAME(nvmlGpmSampleGet(h100, second), NVML_SUCCESS);
    double longest = seconds() - before;

    unsigned int wanted[] = {NVML_GPM_METRIC_GRAPHICS_UTIL, NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL,
                             NVML_GPM_METRIC_PCIE_RX_PER_SEC, NVML_GPM_METRIC_PCIE_TX_PER_SEC, NVML_GPM_METRIC_NVDEC_0_UTIL,
                             NVML_GPM_METRIC_HMMA_TENSOR_UTIL, 0};
    metrics->numMetrics = sizeof wanted / sizeof *wanted;
    for (unsigned int index = 0; index < metrics->numMetrics; index++) metrics->metrics[index].metricId = wanted[index];
    SAME(ask(metrics, first, second), NVML_SUCCESS);
    nvmlGpmMetric_t *metric = metrics->metrics;
    for (int index = 0; index < 6; index++) {
        SAME(metric[index].nvmlReturn, NVML_SUCCESS);
        EXPECT(metric[index].metricInfo.unit != NULL);
    }
    EXPECT(metric[0].value > 0 && metric[0].value <= 100);
    EXPECT(metric[1].value == metric[0].value);
    EXPECT(metric[2].value == metric[0].value / 2);
    EXPECT(metric[3].value <= 64 / least * 1.001 && metric[3].value >= 64 / longest * 0.999);
    EXPECT(metric[4].value <= 16 / least * 1.001 && metric[4].value >= 16 / longest * 0.999);
    EXPECT(metric[5].value == 0);
    SAME(metric[6].nvmlReturn, NVML_ERROR_NOT_SUPPORTED); /* which pipes a kernel used is not counted */
    SAME(metric[7].nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
    SAME(ask(metrics, second, first), NVML_ERROR_INVALID_ARGUMENT);
    metrics->numMetrics = 1u << 20;
    SAME(ask(metrics, first, second), NVML_ERROR_INVALID_ARGUMENT);
    metrics->version = 9;
    SAME(nvmlGpmMetricsGet(metrics), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);

    SAME(nvmlGpmSampleFree(first), NVML_SUCCESS);
    SAME(nvmlGpmSampleFree(first), NVML_ERROR_INVALID_ARGUMENT);
    metrics->numMetrics = 1;
    SAME(ask(metrics, first, second), NVML_ERROR_INVALID_ARGUMENT);
    struct link link = {.version = sizeof link | 1 << 24, .is_encrypted = 9};
    SAME(nvmlDeviceGetNvLinkInfo(h100, &link), NVML_SUCCESS);
    SAME(link.is_encrypted, 0);
    system_events();
    free(metrics);
    free(host);
    return failures();
}
