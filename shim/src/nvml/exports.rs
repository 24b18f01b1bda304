//! The symbols of libnvidia-ml.

use std::ffi::{c_char, c_int, c_uint};

use super::abi::{
    FabricInfo, FabricInfoV2, FieldValue, Memory, MemoryV2, PciInfo, PciInfoV1, ProcessInfo, ProcessInfoV1, Uuid,
};
use super::device::Handle;
use super::{device, error, hardware, link, system, usage};
use crate::boundary::args::{Out, Text};
use crate::boundary::exports::exports;

exports! {
    library Nvml;
    real {
        fn nvmlInit() = system::init;
        fn nvmlInit_v2() = system::init;
        fn nvmlInitWithFlags(flags: c_uint) = |_| system::init();
        fn nvmlShutdown() = system::shutdown;
        fn nvmlSystemGetDriverVersion(buffer: *mut c_char, length: c_uint) = system::driver_version;
        fn nvmlSystemGetNVMLVersion(buffer: *mut c_char, length: c_uint) = system::nvml_version;
        fn nvmlSystemGetCudaDriverVersion(version: Out<c_int>) = system::cuda_driver_version;
        fn nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) = system::cuda_driver_version;
        fn nvmlSystemGetProcessName(pid: c_uint, buffer: *mut c_char, length: c_uint) = system::process_name;
        fn nvmlUnitGetCount(count: Out<c_uint>) = system::unit_count;
        fn nvmlDeviceGetCount(count: Out<c_uint>) = device::count;
        fn nvmlDeviceGetCount_v2(count: Out<c_uint>) = device::count;
        fn nvmlDeviceGetHandleByIndex(index: c_uint, device: Out<Handle>) = device::by_index;
        fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<Handle>) = device::by_index;
        fn nvmlDeviceGetHandleByUUID(uuid: Text, device: Out<Handle>) = device::by_uuid;
        fn nvmlDeviceGetHandleByUUIDV(uuid: Out<Uuid>, device: Out<Handle>) = device::by_uuid_struct;
        fn nvmlDeviceGetHandleByPciBusId(address: Text, device: Out<Handle>) = device::by_pci_bus_id;
        fn nvmlDeviceGetHandleByPciBusId_v2(address: Text, device: Out<Handle>) = device::by_pci_bus_id;
        fn nvmlDeviceGetIndex(device: Handle, index: Out<c_uint>) = device::index;
        fn nvmlDeviceGetName(device: Handle, buffer: *mut c_char, length: c_uint) = device::name;
        fn nvmlDeviceGetUUID(device: Handle, buffer: *mut c_char, length: c_uint) = device::uuid;
        fn nvmlDeviceGetBrand(device: Handle, brand: Out<c_int>) = device::brand;
        fn nvmlDeviceGetArchitecture(device: Handle, architecture: Out<c_uint>) = device::architecture;
        fn nvmlDeviceGetCudaComputeCapability(device: Handle, major: Out<c_int>, minor: Out<c_int>) = device::compute_capability;
        fn nvmlDeviceGetPciInfo(device: Handle, info: Out<PciInfoV1>) = device::pci_info_v1;
        fn nvmlDeviceGetPciInfo_v2(device: Handle, info: Out<PciInfoV1>) = device::pci_info_v1;
        fn nvmlDeviceGetPciInfo_v3(device: Handle, info: Out<PciInfo>) = device::pci_info;
        fn nvmlDeviceGetMinorNumber(device: Handle, minor: Out<c_uint>) = hardware::minor_number;
        fn nvmlDeviceGetBusType(device: Handle, kind: Out<c_uint>) = hardware::bus_type;
        fn nvmlDeviceGetNumGpuCores(device: Handle, count: Out<c_uint>) = hardware::core_count;
        fn nvmlDeviceGetMemoryBusWidth(device: Handle, bits: Out<c_uint>) = hardware::memory_bus_width;
        fn nvmlDeviceGetMaxPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = hardware::pcie_generation;
        fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = hardware::pcie_generation;
        fn nvmlDeviceGetCurrPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = hardware::pcie_generation;
        fn nvmlDeviceGetMaxPcieLinkWidth(device: Handle, lanes: Out<c_uint>) = hardware::pcie_width;
        fn nvmlDeviceGetCurrPcieLinkWidth(device: Handle, lanes: Out<c_uint>) = hardware::pcie_width;
        fn nvmlDeviceGetPcieLinkMaxSpeed(device: Handle, speed: Out<c_uint>) = hardware::pcie_max_speed;
        fn nvmlDeviceGetPcieSpeed(device: Handle, megabits: Out<c_uint>) = hardware::pcie_speed;
        fn nvmlDeviceGetMaxClockInfo(device: Handle, which: c_int, mhz: Out<c_uint>) = hardware::max_clock;
        fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, milliwatts: Out<c_uint>) = hardware::power_limit;
        fn nvmlDeviceGetPowerManagementLimit(device: Handle, milliwatts: Out<c_uint>) = hardware::power_limit;
        fn nvmlDeviceGetPowerManagementDefaultLimit(device: Handle, milliwatts: Out<c_uint>) = hardware::power_limit;
        fn nvmlDeviceGetComputeMode(device: Handle, mode: Out<c_int>) = hardware::compute_mode;
        fn nvmlDeviceGetVirtualizationMode(device: Handle, mode: Out<c_int>) = hardware::virtualization_mode;
        fn nvmlDeviceGetMigMode(device: Handle, current: Out<c_uint>, pending: Out<c_uint>) = hardware::mig_mode;
        fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: Out<c_uint>) = hardware::is_mig_handle;
        fn nvmlDeviceIsMigDeviceHandle(device: Handle, is: Out<c_uint>) = hardware::is_mig_handle;
        fn nvmlDeviceGetDisplayMode(device: Handle, mode: Out<c_uint>) = hardware::no_display;
        fn nvmlDeviceGetDisplayActive(device: Handle, active: Out<c_uint>) = hardware::no_display;
        fn nvmlDeviceGetMemoryInfo(device: Handle, memory: Out<Memory>) = usage::memory_info;
        fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: Out<MemoryV2>) = usage::memory_info_v2;
        fn nvmlDeviceGetComputeRunningProcesses(device: Handle, count: Out<c_uint>, list: *mut ProcessInfoV1) = usage::compute_processes_v1;
        fn nvmlDeviceGetComputeRunningProcesses_v2(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) = usage::compute_processes;
        fn nvmlDeviceGetComputeRunningProcesses_v3(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) = usage::compute_processes;
        fn nvmlDeviceGetGraphicsRunningProcesses(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) = usage::no_processes;
        fn nvmlDeviceGetGraphicsRunningProcesses_v2(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) = usage::no_processes;
        fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) = usage::no_processes;
        fn nvmlDeviceGetMPSComputeRunningProcesses(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) = usage::no_processes;
        fn nvmlDeviceGetMPSComputeRunningProcesses_v2(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) = usage::no_processes;
        fn nvmlDeviceGetMPSComputeRunningProcesses_v3(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) = usage::no_processes;
        fn nvmlDeviceGetFieldValues(device: Handle, count: c_int, values: *mut FieldValue) = usage::field_values;
        fn nvmlDeviceGetNvLinkState(device: Handle, link: c_uint, active: Out<c_uint>) = link::state;
        fn nvmlDeviceGetNvLinkVersion(device: Handle, link: c_uint, version: Out<c_uint>) = link::version;
        fn nvmlDeviceGetNvLinkCapability(device: Handle, link: c_uint, which: c_int, has: Out<c_uint>) = link::capability;
        fn nvmlDeviceGetNvLinkRemoteDeviceType(device: Handle, link: c_uint, kind: Out<c_int>) = link::remote_type;
        fn nvmlDeviceGetGpuFabricInfo(device: Handle, info: Out<FabricInfo>) = link::fabric;
        fn nvmlDeviceGetGpuFabricInfoV(device: Handle, info: Out<FabricInfoV2>) = link::fabric_versioned;
        fn nvmlDeviceGetTopologyCommonAncestor(device: Handle, other: Handle, level: Out<c_int>) = link::common_ancestor;
        fn nvmlDeviceGetTopologyNearestGpus(device: Handle, level: c_int, count: Out<c_uint>, list: *mut Handle) = link::nearest;
        fn nvmlDeviceGetP2PStatus(device: Handle, other: Handle, which: c_int, status: Out<c_int>) = link::peer_status;
    }
    raw {
        fn nvmlErrorString(code: c_int) -> *const c_char = error::string;
    }
    refused {
        nvmlDeviceGetApplicationsClock nvmlDeviceGetAutoBoostedClocksEnabled nvmlDeviceGetBAR1MemoryInfo
        nvmlDeviceGetBoardPartNumber nvmlDeviceGetBridgeChipInfo nvmlDeviceGetC2cModeInfoV nvmlDeviceGetClock
        nvmlDeviceGetClockInfo nvmlDeviceGetCpuAffinity nvmlDeviceGetCurrentClocksEventReasons
        nvmlDeviceGetCurrentClocksThrottleReasons nvmlDeviceGetDecoderUtilization nvmlDeviceGetDefaultApplicationsClock
        nvmlDeviceGetDetailedEccErrors nvmlDeviceGetEccMode nvmlDeviceGetEncoderUtilization nvmlDeviceGetFanSpeed
        nvmlDeviceGetFanSpeed_v2 nvmlDeviceGetInforomImageVersion nvmlDeviceGetMemoryErrorCounter
        nvmlDeviceGetNumFans nvmlDeviceGetNumaNodeId nvmlDeviceGetNvLinkErrorCounter nvmlDeviceGetNvLinkRemotePciInfo
        nvmlDeviceGetNvLinkRemotePciInfo_v2 nvmlDeviceGetNvLinkUtilizationCounter nvmlDeviceGetPcieReplayCounter
        nvmlDeviceGetPcieThroughput nvmlDeviceGetPerformanceState nvmlDeviceGetPersistenceMode
        nvmlDeviceGetPowerManagementLimitConstraints nvmlDeviceGetPowerManagementMode nvmlDeviceGetPowerState
        nvmlDeviceGetPowerUsage nvmlDeviceGetRemappedRows nvmlDeviceGetRetiredPages nvmlDeviceGetSamples
        nvmlDeviceGetSerial nvmlDeviceGetSupportedClocksEventReasons nvmlDeviceGetSupportedClocksThrottleReasons
        nvmlDeviceGetSupportedGraphicsClocks nvmlDeviceGetSupportedMemoryClocks nvmlDeviceGetTemperature
        nvmlDeviceGetTemperatureThreshold nvmlDeviceGetTemperatureV nvmlDeviceGetTotalEccErrors
        nvmlDeviceGetTotalEnergyConsumption nvmlDeviceGetUtilizationRates nvmlDeviceGetVbiosVersion
        nvmlDeviceGetViolationStatus nvmlSystemGetConfComputeState nvmlSystemGetHicVersion
    }
    stub {
        nvmlDeviceGetAccountingMode nvmlDeviceGetAttributes_v2 nvmlDeviceGetComputeInstanceId
        nvmlDeviceGetCpuAffinityWithinScope nvmlDeviceGetDeviceHandleFromMigDeviceHandle nvmlDeviceGetGpuInstanceId
        nvmlDeviceGetGspFirmwareMode nvmlDeviceGetGspFirmwareVersion nvmlDeviceGetHandleBySerial
        nvmlDeviceGetMemoryAffinity nvmlDeviceGetMigDeviceHandleByIndex nvmlDeviceGetModuleId nvmlDeviceGetPciInfoExt
        nvmlDeviceGetProcessUtilization nvmlDeviceGetRunningProcessDetailList nvmlDeviceGetSupportedEventTypes
        nvmlDeviceRegisterEvents nvmlDeviceResetGpuLockedClocks nvmlDeviceSetAccountingMode
        nvmlDeviceSetApplicationsClocks nvmlDeviceSetComputeMode nvmlDeviceSetCpuAffinity nvmlDeviceSetEccMode
        nvmlDeviceSetGpuLockedClocks nvmlDeviceSetMigMode nvmlDeviceSetPersistenceMode
        nvmlDeviceSetPowerManagementLimit nvmlEventSetCreate nvmlEventSetFree nvmlEventSetWait nvmlEventSetWait_v2
        nvmlSystemGetDriverBranch nvmlSystemGetTopologyGpuSet nvmlUnitGetHandleByIndex
    }
}
