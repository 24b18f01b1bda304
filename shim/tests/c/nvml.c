/* NVML: what a monitor asks. Two A100, of which CUDA_VISIBLE_DEVICES hides none from it. */
#include <nvml.h>
#include <stdlib.h>

#include "check.h"

/* Not in the header: what NVIDIA's nvidia-smi looks up. */
nvmlReturn_t nvmlInternalGetExportTable(const void **table, const unsigned char *id);

int main(void) {
    unsigned int count = 0, number = 0, other = 0;
    int major = 0, minor = 0, version = 0;
    nvmlDevice_t first, second, found;
    char name[96], uuid[96], text[96];
    SAME(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    SAME(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
    SAME(nvmlInit_v2(), NVML_SUCCESS);
    SAME(nvmlInit_v2(), NVML_SUCCESS);
    SAME(nvmlShutdown(), NVML_SUCCESS);
    EXPECT(strcmp(nvmlErrorString(NVML_SUCCESS), nvmlErrorString(NVML_ERROR_NOT_SUPPORTED)) != 0);

    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    SAME(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    SAME(count, 2);
    SAME(nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
    EXPECT(version >= 12000);
    SAME(nvmlSystemGetDriverVersion(text, sizeof text), NVML_SUCCESS);
    EXPECT(atoi(text) >= 500);
    SAME(nvmlSystemGetDriverVersion(text, 3), NVML_ERROR_INSUFFICIENT_SIZE);

    SAME(nvmlDeviceGetHandleByIndex_v2(0, &first), NVML_SUCCESS);
    SAME(nvmlDeviceGetHandleByIndex_v2(1, &second), NVML_SUCCESS);
    SAME(nvmlDeviceGetHandleByIndex_v2(2, &found), NVML_ERROR_INVALID_ARGUMENT);
    EXPECT(first != second);
    SAME(nvmlDeviceGetName(second, name, sizeof name), NVML_SUCCESS);
    EXPECT(strcmp(name, "NVIDIA A100-SXM4-80GB") == 0);
    SAME(nvmlDeviceGetName(NULL, name, sizeof name), NVML_ERROR_INVALID_ARGUMENT);
    SAME(nvmlDeviceGetName((nvmlDevice_t)&count, name, sizeof name), NVML_ERROR_INVALID_ARGUMENT);

    SAME(nvmlDeviceGetUUID(second, uuid, sizeof uuid), NVML_SUCCESS);
    EXPECT(strncmp(uuid, "GPU-", 4) == 0 && strlen(uuid) == 40);
    SAME(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
    EXPECT(found == second);
    SAME(nvmlDeviceGetHandleByUUID("GPU-none", &found), NVML_ERROR_NOT_FOUND);
    nvmlPciInfo_t pci;
    SAME(nvmlDeviceGetPciInfo_v3(second, &pci), NVML_SUCCESS);
    SAME(pci.pciDeviceId & 0xffff, 0x10de);
    SAME(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found), NVML_SUCCESS);
    EXPECT(found == second);
    SAME(nvmlDeviceGetHandleByPciBusId_v2(pci.busIdLegacy, &found), NVML_SUCCESS);
    EXPECT(found == second);
    SAME(nvmlDeviceGetIndex(second, &number), NVML_SUCCESS);
    SAME(number, 1);

    SAME(nvmlDeviceGetCudaComputeCapability(first, &major, &minor), NVML_SUCCESS);
    SAME(major * 10 + minor, 80);
    nvmlDeviceArchitecture_t architecture = 0;
    SAME(nvmlDeviceGetArchitecture(first, &architecture), NVML_SUCCESS);
    SAME(architecture, NVML_DEVICE_ARCH_AMPERE);
    SAME(nvmlDeviceGetNumGpuCores(first, &number), NVML_SUCCESS);
    SAME(number, 6912);
    SAME(nvmlDeviceGetMaxClockInfo(first, NVML_CLOCK_SM, &number), NVML_SUCCESS);
    SAME(number, 1410);
    SAME(nvmlDeviceValidateInforom(first), NVML_SUCCESS);
    SAME(nvmlDeviceValidateInforom(NULL), NVML_ERROR_INVALID_ARGUMENT);
    SAME(nvmlDeviceGetEnforcedPowerLimit(first, &number), NVML_SUCCESS);
    SAME(number, 400000);
    SAME(nvmlDeviceGetMaxPcieLinkGeneration(first, &number), NVML_SUCCESS);
    SAME(number, 4);
    SAME(nvmlDeviceGetMigMode(first, &number, &other), NVML_SUCCESS);
    SAME(number + other, 0);

    nvmlMemory_t memory;
    SAME(nvmlDeviceGetMemoryInfo(first, &memory), NVML_SUCCESS);
    SAME(memory.total, 80LL << 30);
    SAME(memory.used + memory.free, memory.total);
    nvmlMemory_v2_t memory2 = {.version = nvmlMemory_v2};
    SAME(nvmlDeviceGetMemoryInfo_v2(first, &memory2), NVML_SUCCESS);
    SAME(memory2.total, 80LL << 30);
    memory2.version = 77;
    SAME(nvmlDeviceGetMemoryInfo_v2(first, &memory2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);

    /* Sensors of an idle GPU, by the formulas of docs/monitors.md. */
    nvmlUtilization_t utilization;
    nvmlPstates_t state;
    unsigned long long mask = 0, errors = 1;
    SAME(nvmlDeviceGetTemperature(first, NVML_TEMPERATURE_GPU, &number), NVML_SUCCESS);
    SAME(number, 30);
    SAME(nvmlDeviceGetTemperature(first, NVML_TEMPERATURE_COUNT, &number), NVML_ERROR_INVALID_ARGUMENT);
    nvmlTemperature_t temperature = {.version = nvmlTemperature_v1, .sensorType = NVML_TEMPERATURE_GPU};
    SAME(nvmlDeviceGetTemperatureV(first, &temperature), NVML_SUCCESS);
    SAME(temperature.temperature, 30);
    SAME(nvmlDeviceGetTemperatureThreshold(first, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &number), NVML_SUCCESS);
    SAME(number, 90);
    SAME(nvmlDeviceGetUtilizationRates(first, &utilization), NVML_SUCCESS);
    SAME(utilization.gpu + utilization.memory, 0);
    SAME(nvmlDeviceGetPowerUsage(first, &number), NVML_SUCCESS);
    SAME(number, 40000);
    SAME(nvmlDeviceGetPowerManagementLimitConstraints(first, &number, &other), NVML_SUCCESS);
    SAME(number, 100000);
    SAME(other, 400000);
    SAME(nvmlDeviceGetPerformanceState(first, &state), NVML_SUCCESS);
    SAME(state, NVML_PSTATE_0);
    SAME(nvmlDeviceGetClockInfo(first, NVML_CLOCK_SM, &number), NVML_SUCCESS);
    SAME(number, 210);
    SAME(nvmlDeviceGetClock(first, NVML_CLOCK_MEM, NVML_CLOCK_ID_CURRENT, &number), NVML_SUCCESS);
    SAME(nvmlDeviceGetMaxClockInfo(first, NVML_CLOCK_MEM, &other), NVML_SUCCESS);
    SAME(number, other);
    SAME(nvmlDeviceGetCurrentClocksEventReasons(first, &mask), NVML_SUCCESS);
    SAME(mask, nvmlClocksEventReasonGpuIdle);
    unsigned int clocks[128];
    count = 2;
    SAME(nvmlDeviceGetSupportedMemoryClocks(first, &count, clocks), NVML_SUCCESS);
    SAME(count, 1);
    SAME(clocks[0], other);
    count = 3;
    SAME(nvmlDeviceGetSupportedGraphicsClocks(first, other, &count, clocks), NVML_ERROR_INSUFFICIENT_SIZE);
    SAME(count, 81);
    count = 128;
    SAME(nvmlDeviceGetSupportedGraphicsClocks(first, other, &count, clocks), NVML_SUCCESS);
    SAME(clocks[0], 1410);
    SAME(clocks[80], 210);
    SAME(nvmlDeviceGetSupportedGraphicsClocks(first, 1, &count, clocks), NVML_ERROR_NOT_FOUND);
    SAME(nvmlDeviceGetFanSpeed(first, &number), NVML_ERROR_NOT_SUPPORTED);
    SAME(nvmlDeviceGetPcieThroughput(first, NVML_PCIE_UTIL_RX_BYTES, &number), NVML_SUCCESS);
    SAME(number, 0);

    /* Error correction, which counted nothing. */
    nvmlEnableState_t now, next;
    SAME(nvmlDeviceGetEccMode(first, &now, &next), NVML_SUCCESS);
    SAME(now + next, 2 * NVML_FEATURE_ENABLED);
    SAME(nvmlDeviceGetTotalEccErrors(first, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors), NVML_SUCCESS);
    SAME(errors, 0);
    errors = 1;
    SAME(nvmlDeviceGetMemoryErrorCounter(first, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC, NVML_MEMORY_LOCATION_SRAM, &errors), NVML_SUCCESS);
    SAME(errors, 0);
    unsigned int rows[4] = {9, 9, 9, 9};
    SAME(nvmlDeviceGetRemappedRows(first, rows, rows + 1, rows + 2, rows + 3), NVML_SUCCESS);
    SAME(rows[0] + rows[1] + rows[2] + rows[3], 0);
    SAME(nvmlDeviceGetRetiredPages(first, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR, &count, NULL), NVML_ERROR_NOT_SUPPORTED);

    /* Identity, stable and unique. */
    char serial[32], same[32];
    nvmlPciInfo_t remote;
    SAME(nvmlDeviceGetSerial(first, serial, sizeof serial), NVML_SUCCESS);
    SAME(strlen(serial), 13);
    SAME(nvmlDeviceGetSerial(second, same, sizeof same), NVML_SUCCESS);
    EXPECT(strcmp(serial, same) != 0);
    SAME(nvmlDeviceGetVbiosVersion(first, text, sizeof text), NVML_SUCCESS);
    SAME(nvmlDeviceGetHandleBySerial(same, &found), NVML_SUCCESS);
    EXPECT(found == second);
    SAME(nvmlDeviceGetNvLinkRemotePciInfo_v2(first, 7, &remote), NVML_SUCCESS);
    SAME(remote.pciDeviceId, 0x1af110de);
    SAME(nvmlDeviceGetNvLinkRemotePciInfo_v2(first, 12, &remote), NVML_ERROR_NOT_SUPPORTED);
    unsigned long cpus[16];
    SAME(nvmlDeviceGetCpuAffinity(first, 16, cpus), NVML_SUCCESS);
    EXPECT(cpus[0] & 1);

    /* Nobody here may change a GPU. */
    SAME(nvmlDeviceSetPersistenceMode(first, NVML_FEATURE_DISABLED), NVML_ERROR_NO_PERMISSION);
    SAME(nvmlDeviceSetPowerManagementLimit(first, 300000), NVML_ERROR_NO_PERMISSION);
    SAME(nvmlDeviceSetGpuLockedClocks(first, 210, 1410), NVML_ERROR_NO_PERMISSION);
    SAME(nvmlDeviceSetPersistenceMode(NULL, NVML_FEATURE_DISABLED), NVML_ERROR_INVALID_ARGUMENT);

    /* Events: none comes. */
    nvmlEventSet_t set;
    nvmlEventData_t event;
    SAME(nvmlEventSetCreate(&set), NVML_SUCCESS);
    SAME(nvmlDeviceGetSupportedEventTypes(first, &mask), NVML_SUCCESS);
    EXPECT((mask & nvmlEventTypeXidCriticalError) && (mask & nvmlEventTypeDoubleBitEccError));
    SAME(nvmlDeviceRegisterEvents(first, nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
    SAME(nvmlDeviceRegisterEvents(first, 1ull << 40, set), NVML_ERROR_NOT_SUPPORTED);
    SAME(nvmlEventSetWait_v2(set, &event, 1), NVML_ERROR_TIMEOUT);
    SAME(nvmlEventSetFree(set), NVML_SUCCESS);
    SAME(nvmlEventSetWait_v2(set, &event, 1), NVML_ERROR_INVALID_ARGUMENT);

    nvmlProcessInfo_t processes[4];
    count = 4;
    SAME(nvmlDeviceGetComputeRunningProcesses_v3(first, &count, processes), NVML_SUCCESS);
    SAME(count, 0);

    nvmlGpuTopologyLevel_t level;
    nvmlGpuP2PStatus_t status;
    nvmlEnableState_t active;
    SAME(nvmlDeviceGetTopologyCommonAncestor(first, first, &level), NVML_SUCCESS);
    SAME(level, NVML_TOPOLOGY_INTERNAL);
    SAME(nvmlDeviceGetTopologyCommonAncestor(first, second, &level), NVML_SUCCESS);
    SAME(level, NVML_TOPOLOGY_NODE);
    SAME(nvmlDeviceGetP2PStatus(first, second, NVML_P2P_CAPS_INDEX_READ, &status), NVML_SUCCESS);
    SAME(status, NVML_P2P_STATUS_OK);
    SAME(nvmlDeviceGetP2PStatus(first, second, NVML_P2P_CAPS_INDEX_NVLINK, &status), NVML_SUCCESS);
    SAME(status, NVML_P2P_STATUS_OK);
    SAME(nvmlDeviceGetNvLinkState(first, 11, &active), NVML_SUCCESS);
    SAME(active, NVML_FEATURE_ENABLED);
    SAME(nvmlDeviceGetNvLinkState(first, 12, &active), NVML_SUCCESS);
    SAME(active, NVML_FEATURE_DISABLED);
    SAME(nvmlDeviceGetNvLinkState(first, NVML_NVLINK_MAX_LINKS, &active), NVML_ERROR_INVALID_ARGUMENT);
    SAME(nvmlDeviceGetNvLinkVersion(first, 0, &number), NVML_SUCCESS);
    SAME(number, NVML_NVLINK_VERSION_3_0);

    nvmlGpuFabricInfoV_t fabric = {.version = nvmlGpuFabricInfo_v2};
    SAME(nvmlDeviceGetGpuFabricInfoV(first, &fabric), NVML_SUCCESS);
    SAME(fabric.state, NVML_GPU_FABRIC_STATE_NOT_SUPPORTED);
    nvmlFieldValue_t fields[5] = {{.fieldId = NVML_FI_DEV_POWER_INSTANT},
                                  {.fieldId = NVML_FI_DEV_MEMORY_TEMP},
                                  {.fieldId = NVML_FI_DEV_NVLINK_GET_SPEED, .scopeId = 11},
                                  {.fieldId = NVML_FI_DEV_NVLINK_GET_SPEED, .scopeId = 12},
                                  {.fieldId = NVML_FI_DEV_C2C_LINK_GET_MAX_BW}};
    SAME(nvmlDeviceGetFieldValues(first, 5, fields), NVML_SUCCESS);
    SAME(fields[0].nvmlReturn, NVML_SUCCESS);
    SAME(fields[0].valueType, NVML_VALUE_TYPE_UNSIGNED_INT);
    SAME(fields[0].value.uiVal, 40000);
    SAME(fields[1].nvmlReturn, NVML_SUCCESS);
    SAME(fields[1].value.uiVal, 35);
    SAME(fields[2].nvmlReturn, NVML_SUCCESS);
    SAME(fields[2].value.uiVal, 25000);
    SAME(fields[3].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    SAME(fields[4].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);

    /* What a data-centre GPU under Linux does not have, and what is on a board of its own. */
    nvmlDriverModel_t driver_now, driver_next;
    SAME(nvmlDeviceGetDriverModel(first, &driver_now, &driver_next), NVML_ERROR_NOT_SUPPORTED);
    SAME(nvmlDeviceGetMultiGpuBoard(first, &number), NVML_SUCCESS);
    SAME(number, 0);
    SAME(nvmlDeviceGetBoardId(first, &number), NVML_SUCCESS);
    SAME(nvmlDeviceGetBoardId(second, &other), NVML_SUCCESS);
    EXPECT(number != other);
    SAME(nvmlDeviceOnSameBoard(first, second, &major), NVML_SUCCESS);
    SAME(major, 0);
    SAME(nvmlGetExcludedDeviceCount(&count), NVML_SUCCESS);
    SAME(count, 0);
    nvmlUnit_t unit;
    SAME(nvmlUnitGetHandleByIndex(0, &unit), NVML_ERROR_INVALID_ARGUMENT);

    nvmlMemory_t protected_memory = {1, 1, 1};
    SAME(nvmlDeviceGetConfComputeProtectedMemoryUsage(first, &protected_memory), NVML_SUCCESS);
    EXPECT(protected_memory.total == 0 && protected_memory.used == 0 && protected_memory.free == 0);

    const unsigned char table_id[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                        0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
    const unsigned char no_table[16] = {0};
    const void *const *table = NULL;
    SAME(nvmlInternalGetExportTable((const void **)&table, no_table), NVML_ERROR_NOT_FOUND);
    SAME(nvmlInternalGetExportTable((const void **)&table, table_id), NVML_SUCCESS);
    EXPECT((size_t)table[0] >= 300 * sizeof(void *));
    unsigned int is_monitored = 0;
    SAME(((nvmlReturn_t (*)(nvmlDevice_t, unsigned int *))table[72])(first, &is_monitored), NVML_SUCCESS);
    SAME(is_monitored, 1);
    SAME(((nvmlReturn_t (*)(nvmlDevice_t))table[81])(first), NVML_ERROR_NOT_SUPPORTED);

    SAME(nvmlShutdown(), NVML_SUCCESS);
    SAME(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    SAME(nvmlDeviceGetDriverModel(first, &driver_now, &driver_next), NVML_ERROR_UNINITIALIZED);
    return failures();
}
