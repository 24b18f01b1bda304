/* The health of GPUs as a case sets it: NVML's answers and events, and what CUDA and NCCL answer on a GPU that fails. Which event
   happens to which of the five A100 and one V100, and when, is in the test that runs this. */
#include <cuda_runtime.h>
#include <nccl.h>
#include <nvml.h>

#include "check.h"

static nvmlDevice_t gpu(unsigned int index) {
    nvmlDevice_t device;
    SAME(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
}

static unsigned long long errors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter) {
    unsigned long long count = 99;
    SAME(nvmlDeviceGetTotalEccErrors(device, type, counter, &count), NVML_SUCCESS);
    return count;
}

/* One all_reduce of one rank on a GPU: there its event happens. */
static ncclResult_t all_reduce(int device, ncclComm_t *communicator) {
    float *data;
    SAME(cudaSetDevice(device), cudaSuccess);
    SAME(cudaMalloc((void **)&data, 16), cudaSuccess);
    SAME(ncclCommInitAll(communicator, 1, &device), ncclSuccess);
    return ncclAllReduce(data, data, 4, ncclFloat, ncclSum, *communicator, 0);
}

int main(void) {
    SAME(nvmlInit_v2(), NVML_SUCCESS);
    nvmlDevice_t tired = gpu(0), noisy = gpu(4), old = gpu(5), found;
    nvmlEventSet_t set, other;
    nvmlEventData_t event;
    unsigned int number = 99, more = 99, rows[4] = {9, 9, 9, 9};
    unsigned long long mask = 0, count = 99;
    SAME(nvmlEventSetCreate(&set), NVML_SUCCESS);
    SAME(nvmlDeviceRegisterEvents(noisy, nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);

    /* GPU 0: from the start errors of memory, heat, and a slow link. */
    SAME(errors(tired, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC), 12);
    SAME(errors(tired, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC), 1);
    SAME(errors(tired, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC), 52);
    SAME(errors(tired, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC), 3);
    SAME(nvmlDeviceGetMemoryErrorCounter(tired, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_DRAM, &count), NVML_SUCCESS);
    SAME(count, 12);
    SAME(nvmlDeviceGetMemoryErrorCounter(tired, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_SRAM, &count), NVML_SUCCESS);
    SAME(count, 0);
    SAME(nvmlDeviceGetRemappedRows(tired, rows, rows + 1, rows + 2, rows + 3), NVML_SUCCESS);
    SAME(rows[0] * 1000 + rows[1] * 100 + rows[2] * 10 + rows[3], 2311);
    SAME(nvmlDeviceGetRetiredPages(tired, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR, &number, NULL), NVML_ERROR_NOT_SUPPORTED);
    SAME(nvmlDeviceGetTemperature(tired, NVML_TEMPERATURE_GPU, &number), NVML_SUCCESS);
    SAME(nvmlDeviceGetTemperatureThreshold(tired, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &more), NVML_SUCCESS);
    EXPECT(number > more);
    SAME(nvmlDeviceGetCurrentClocksEventReasons(tired, &mask), NVML_SUCCESS);
    SAME(mask & ~nvmlClocksEventReasonGpuIdle, nvmlClocksThrottleReasonHwThermalSlowdown | nvmlClocksThrottleReasonHwSlowdown);
    nvmlViolationTime_t slowed;
    SAME(nvmlDeviceGetViolationStatus(tired, NVML_PERF_POLICY_THERMAL, &slowed), NVML_SUCCESS);
    EXPECT(slowed.violationTime > 0);
    SAME(nvmlDeviceGetViolationStatus(tired, NVML_PERF_POLICY_POWER, &slowed), NVML_SUCCESS);
    SAME(slowed.violationTime, 0);
    SAME(nvmlDeviceGetCurrPcieLinkGeneration(tired, &number), NVML_SUCCESS);
    SAME(nvmlDeviceGetMaxPcieLinkGeneration(tired, &more), NVML_SUCCESS);
    SAME(number * 10 + more, 34);
    SAME(nvmlDeviceGetCurrPcieLinkWidth(tired, &number), NVML_SUCCESS);
    SAME(nvmlDeviceGetMaxPcieLinkWidth(tired, &more), NVML_SUCCESS);
    SAME(number * 100 + more, 816);
    SAME(nvmlDeviceGetPcieSpeed(tired, &number), NVML_SUCCESS);
    SAME(number, 8000);
    nvmlFieldValue_t fields[5] = {{.fieldId = NVML_FI_DEV_ECC_DBE_AGG_TOTAL}, {.fieldId = NVML_FI_DEV_REMAPPED_PENDING},
                                  {.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION}, {.fieldId = NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN},
                                  {.fieldId = NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN}};
    SAME(nvmlDeviceGetFieldValues(tired, 5, fields), NVML_SUCCESS);
    SAME(fields[0].value.ullVal, 3);
    SAME(fields[1].value.uiVal, 1);
    SAME(fields[2].value.uiVal, NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET);
    EXPECT(fields[3].value.ullVal > 0);
    SAME(fields[4].value.ullVal, 0);
    /* What is an old error for a process does not stop it. */
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(nvmlDeviceGetClockInfo(tired, NVML_CLOCK_SM, &number), NVML_SUCCESS);
    SAME(number, 705);

    /* The V100 retires pages. */
    unsigned long long pages[4];
    number = 0;
    SAME(nvmlDeviceGetRetiredPages(old, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR, &number, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    SAME(number, 2);
    SAME(nvmlDeviceGetRetiredPages(old, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR, &number, pages), NVML_SUCCESS);
    EXPECT(pages[0] != pages[1] && pages[0] % 4096 == 0);
    number = 4;
    SAME(nvmlDeviceGetRetiredPages(old, NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, &number, pages), NVML_SUCCESS);
    SAME(number, 1);
    nvmlEnableState_t is_pending;
    SAME(nvmlDeviceGetRetiredPagesPendingStatus(old, &is_pending), NVML_SUCCESS);
    SAME(is_pending, NVML_FEATURE_ENABLED);
    SAME(nvmlDeviceGetRemappedRows(old, rows, rows + 1, rows + 2, rows + 3), NVML_ERROR_NOT_SUPPORTED);

    /* GPU 1 is lost from the start. */
    char text[96];
    nvmlPciInfo_t pci;
    SAME(nvmlDeviceGetHandleByIndex_v2(1, &found), NVML_ERROR_GPU_IS_LOST);
    SAME(nvmlDeviceGetName(found, text, sizeof text), NVML_ERROR_GPU_IS_LOST);
    SAME(nvmlDeviceGetTemperature(found, NVML_TEMPERATURE_GPU, &number), NVML_ERROR_GPU_IS_LOST);
    SAME(nvmlDeviceGetPciInfo_v3(found, &pci), NVML_SUCCESS);
    SAME(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found), NVML_ERROR_GPU_IS_LOST);
    SAME(nvmlDeviceRegisterEvents(found, nvmlEventTypeXidCriticalError, set), NVML_ERROR_GPU_IS_LOST);
    SAME(nvmlDeviceGetCount_v2(&number), NVML_SUCCESS);
    SAME(number, 6);
    int devices = 0;
    SAME(cudaGetDeviceCount(&devices), cudaSuccess);
    SAME(devices, 6);
    SAME(cudaSetDevice(1), cudaErrorDevicesUnavailable);
    SAME(cudaDeviceSynchronize(), cudaErrorDevicesUnavailable);
    SAME(cudaFree(0), cudaErrorDevicesUnavailable);

    /* GPU 2 has an error that cannot be corrected at its first all_reduce. */
    ncclComm_t failing, lost;
    nvmlDevice_t second = gpu(2), third = gpu(3);
    SAME(nvmlEventSetCreate(&other), NVML_SUCCESS);
    SAME(nvmlDeviceRegisterEvents(second, nvmlEventTypeDoubleBitEccError | nvmlEventTypeSingleBitEccError | nvmlEventTypeXidCriticalError, other), NVML_SUCCESS);
    SAME(nvmlEventSetWait_v2(other, &event, 0), NVML_ERROR_TIMEOUT);
    all_reduce(2, &failing);
    SAME(nvmlEventSetWait_v2(other, &event, 60000), NVML_SUCCESS);
    SAME(event.eventType, nvmlEventTypeDoubleBitEccError);
    EXPECT(event.device == second);
    SAME(nvmlEventSetWait_v2(other, &event, 60000), NVML_SUCCESS);
    SAME(event.eventType, nvmlEventTypeXidCriticalError);
    SAME(event.eventData, 94);
    SAME(nvmlEventSetWait_v2(other, &event, 0), NVML_ERROR_TIMEOUT);
    SAME(cudaDeviceSynchronize(), cudaErrorECCUncorrectable);
    SAME(cudaStreamSynchronize(0), cudaErrorECCUncorrectable);
    EXPECT(strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorECCUncorrectable") == 0);
    SAME(errors(second, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC), 1);

    /* GPU 3 falls off the bus at its first all_reduce. */
    SAME(nvmlDeviceRegisterEvents(third, nvmlEventTypeXidCriticalError, other), NVML_SUCCESS);
    all_reduce(3, &lost);
    SAME(nvmlEventSetWait_v2(other, &event, 60000), NVML_SUCCESS);
    SAME(event.eventData, 79);
    EXPECT(event.device == third);
    SAME(nvmlEventSetWait_v2(other, &event, 60000), NVML_ERROR_GPU_IS_LOST);
    SAME(nvmlDeviceGetTemperature(third, NVML_TEMPERATURE_GPU, &number), NVML_ERROR_GPU_IS_LOST);
    SAME(cudaDeviceSynchronize(), cudaErrorUnknown);
    SAME(cudaStreamSynchronize(0), cudaErrorUnknown);
    float *data = NULL;
    SAME(cudaMalloc((void **)&data, 16), cudaErrorUnknown);
    EXPECT(ncclAllReduce(data, data, 4, ncclFloat, ncclSum, lost, 0) != ncclSuccess);

    /* The others go on. */
    SAME(cudaSetDevice(4), cudaSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(nvmlEventSetWait_v2(set, &event, 60000), NVML_SUCCESS);
    SAME(event.eventType, nvmlEventTypeXidCriticalError);
    SAME(event.eventData, 31);
    EXPECT(event.device == noisy);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(nvmlEventSetFree(set), NVML_SUCCESS);
    SAME(nvmlEventSetFree(other), NVML_SUCCESS);
    return failures();
}
