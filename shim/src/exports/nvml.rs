//! The symbols of libnvidia-ml.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use abi::argument::{Out, Text};

use crate::boundary::table::exports;
use crate::nvml::device::Handle;
use crate::nvml::header::{
    Bar1Memory, ConfidentialState, DriverBranch, EccErrorCounts, EccSramErrorStatus, EventData, FabricInfo,
    FabricInfoV2, FabricInfoV4, FieldValue, GpmMetrics, Memory, MemoryV2, PciInfo, PciInfoExt, PciInfoV1, Pdi,
    ProcessDetails, ProcessInfo, ProcessInfoV1, ProcessSample, ProcessesUtilization, Sample, SystemEventSetRequest,
    SystemRegistration, SystemWait, Temperature, ThermalSettings, Utilization, Uuid, Versioned, ViolationTime,
};
use crate::nvml::{
    affinity, board, device, error, event, field, gpm, hardware, health, internal, link, sensors, system, system_event,
    usage,
};

exports! {
    library Nvml with crate::nvml::RULES;
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
        fn nvmlInternalGetExportTable(table: Out<*const c_void>, id: Out<[u8; 16]>) = internal::export_table;
        fn nvmlUnitGetCount(count: Out<c_uint>) = system::unit_count;
        fn nvmlUnitGetDevices(unit: usize) = system::no_such_unit;
        fn nvmlUnitGetFanSpeedInfo(unit: usize) = system::no_such_unit;
        fn nvmlUnitGetLedState(unit: usize) = system::no_such_unit;
        fn nvmlUnitGetPsuInfo(unit: usize) = system::no_such_unit;
        fn nvmlUnitGetTemperature(unit: usize) = system::no_such_unit;
        fn nvmlUnitGetUnitInfo(unit: usize) = system::no_such_unit;
        fn nvmlUnitSetLedState(unit: usize) = system::no_such_unit;
        fn nvmlUnitGetHandleByIndex(index: c_uint, unit: Out<usize>) = |_, _| system::no_such_unit(0);
        fn nvmlGetExcludedDeviceCount(count: Out<c_uint>) = system::unit_count;
        fn nvmlGetExcludedDeviceInfoByIndex(index: c_uint, info: Out<u8>) = |_, _| system::no_such_unit(0);
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
        fn nvmlDeviceGetBoardId(device: Handle, id: Out<c_uint>) = hardware::board_id;
        fn nvmlDeviceGetMultiGpuBoard(device: Handle, is: Out<c_uint>) = hardware::no_display;
        fn nvmlDeviceOnSameBoard(device: Handle, other: Handle, is: Out<c_int>) = hardware::same_board;
        fn nvmlDeviceGetBusType(device: Handle, kind: Out<c_uint>) = hardware::bus_type;
        fn nvmlDeviceGetNumGpuCores(device: Handle, count: Out<c_uint>) = hardware::core_count;
        fn nvmlDeviceGetMemoryBusWidth(device: Handle, bits: Out<c_uint>) = hardware::memory_bus_width;
        fn nvmlDeviceGetMaxPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = hardware::pcie_generation;
        fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = hardware::pcie_generation;
        fn nvmlDeviceGetCurrPcieLinkGeneration(device: Handle, generation: Out<c_uint>) = hardware::current_pcie_generation;
        fn nvmlDeviceGetMaxPcieLinkWidth(device: Handle, lanes: Out<c_uint>) = hardware::pcie_width;
        fn nvmlDeviceGetCurrPcieLinkWidth(device: Handle, lanes: Out<c_uint>) = hardware::current_pcie_width;
        fn nvmlDeviceGetPcieLinkMaxSpeed(device: Handle, speed: Out<c_uint>) = hardware::pcie_max_speed;
        fn nvmlDeviceGetPcieSpeed(device: Handle, megabits: Out<c_uint>) = hardware::pcie_speed;
        fn nvmlDeviceGetMaxClockInfo(device: Handle, which: c_int, mhz: Out<c_uint>) = hardware::max_clock;
        fn nvmlDeviceValidateInforom(device: Handle) = hardware::validate_inforom;
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
        fn nvmlDeviceGetFieldValues(device: Handle, count: c_int, values: *mut FieldValue) = field::values;
        fn nvmlDeviceGetNvLinkState(device: Handle, link: c_uint, active: Out<c_uint>) = link::state;
        fn nvmlDeviceGetNvLinkVersion(device: Handle, link: c_uint, version: Out<c_uint>) = link::version;
        fn nvmlDeviceGetNvLinkCapability(device: Handle, link: c_uint, which: c_int, has: Out<c_uint>) = link::capability;
        fn nvmlDeviceGetNvLinkRemoteDeviceType(device: Handle, link: c_uint, kind: Out<c_int>) = link::remote_type;
        fn nvmlDeviceGetGpuFabricInfo(device: Handle, info: Out<FabricInfo>) = link::fabric;
        fn nvmlDeviceGetGpuFabricInfoV(device: Handle, info: Out<FabricInfoV2>) = link::fabric_versioned;
        fn nvmlDeviceGetGpuFabricInfo_v4(device: Handle, info: Out<FabricInfoV4>) = link::fabric_v4;
        fn nvmlDeviceGetNvLinkInfo(device: Handle, info: Out<Versioned>) = link::encryption;
        fn nvmlDeviceGetTopologyCommonAncestor(device: Handle, other: Handle, level: Out<c_int>) = link::common_ancestor;
        fn nvmlDeviceGetTopologyNearestGpus(device: Handle, level: c_int, count: Out<c_uint>, list: *mut Handle) = link::nearest;
        fn nvmlDeviceGetP2PStatus(device: Handle, other: Handle, which: c_int, status: Out<c_int>) = link::peer_status;
        fn nvmlDeviceGetUtilizationRates(device: Handle, rates: Out<Utilization>) = sensors::utilization;
        fn nvmlDeviceGetEncoderUtilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) = sensors::video_utilization;
        fn nvmlDeviceGetDecoderUtilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) = sensors::video_utilization;
        fn nvmlDeviceGetJpgUtilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) = sensors::video_utilization;
        fn nvmlDeviceGetOfaUtilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) = sensors::video_utilization;
        fn nvmlDeviceGetEncoderStats(device: Handle, count: Out<c_uint>, rate: Out<c_uint>, latency: Out<c_uint>) = sensors::no_sessions;
        fn nvmlDeviceGetFBCStats(device: Handle, stats: Out<[c_uint; 3]>) = sensors::no_captures;
        fn nvmlDeviceGetPowerUsage(device: Handle, milliwatts: Out<c_uint>) = sensors::power;
        fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, millijoules: Out<u64>) = sensors::energy;
        fn nvmlDeviceGetPowerManagementLimitConstraints(device: Handle, least: Out<c_uint>, most: Out<c_uint>) = sensors::power_limits;
        fn nvmlDeviceGetPowerManagementMode(device: Handle, mode: Out<c_uint>) = sensors::power_management;
        fn nvmlDeviceGetPowerSource(device: Handle, source: Out<c_uint>) = sensors::power_source;
        fn nvmlDeviceGetTemperature(device: Handle, sensor: c_int, degrees: Out<c_uint>) = sensors::temperature;
        fn nvmlDeviceGetTemperatureV(device: Handle, temperature: Out<Temperature>) = sensors::temperature_versioned;
        fn nvmlDeviceGetMarginTemperature(device: Handle, margin: Out<Versioned>) = sensors::margin;
        fn nvmlDeviceGetTemperatureThreshold(device: Handle, which: c_int, degrees: Out<c_uint>) = sensors::threshold;
        fn nvmlDeviceGetThermalSettings(device: Handle, sensor: c_uint, settings: Out<ThermalSettings>) = sensors::thermal_settings;
        fn nvmlDeviceGetFanSpeed(device: Handle, percent: Out<c_uint>) = |device, out| sensors::fan_speed(device, 0, out);
        fn nvmlDeviceGetFanSpeed_v2(device: Handle, fan: c_uint, percent: Out<c_uint>) = sensors::fan_speed;
        fn nvmlDeviceGetTargetFanSpeed(device: Handle, fan: c_uint, percent: Out<c_uint>) = sensors::fan_speed;
        fn nvmlDeviceGetNumFans(device: Handle, count: Out<c_uint>) = sensors::fan_count;
        fn nvmlDeviceGetMinMaxFanSpeed(device: Handle, least: Out<c_uint>, most: Out<c_uint>) = sensors::fan_limits;
        fn nvmlDeviceGetPerformanceState(device: Handle, state: Out<c_int>) = sensors::performance_state;
        fn nvmlDeviceGetPowerState(device: Handle, state: Out<c_int>) = sensors::performance_state;
        fn nvmlDeviceGetSupportedPerformanceStates(device: Handle, list: *mut c_int, bytes: c_uint) = sensors::performance_states;
        fn nvmlDeviceGetClockInfo(device: Handle, which: c_int, mhz: Out<c_uint>) = sensors::clock;
        fn nvmlDeviceGetClock(device: Handle, which: c_int, id: c_int, mhz: Out<c_uint>) = sensors::clock_by_id;
        fn nvmlDeviceGetApplicationsClock(device: Handle, which: c_int, mhz: Out<c_uint>) = sensors::applications_clock;
        fn nvmlDeviceGetDefaultApplicationsClock(device: Handle, which: c_int, mhz: Out<c_uint>) = sensors::applications_clock;
        fn nvmlDeviceGetMaxCustomerBoostClock(device: Handle, which: c_int, mhz: Out<c_uint>) = sensors::applications_clock;
        fn nvmlDeviceGetMinMaxClockOfPState(device: Handle, which: c_int, state: c_int, least: Out<c_uint>, most: Out<c_uint>) = sensors::clocks_of_state;
        fn nvmlDeviceGetSupportedMemoryClocks(device: Handle, count: Out<c_uint>, clocks: *mut c_uint) = sensors::memory_clocks;
        fn nvmlDeviceGetSupportedGraphicsClocks(device: Handle, memory: c_uint, count: Out<c_uint>, clocks: *mut c_uint) = sensors::graphics_clocks;
        fn nvmlDeviceGetCurrentClocksEventReasons(device: Handle, reasons: Out<u64>) = sensors::clock_reasons;
        fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Handle, reasons: Out<u64>) = sensors::clock_reasons;
        fn nvmlDeviceGetSupportedClocksEventReasons(device: Handle, reasons: Out<u64>) = sensors::supported_clock_reasons;
        fn nvmlDeviceGetSupportedClocksThrottleReasons(device: Handle, reasons: Out<u64>) = sensors::supported_clock_reasons;
        fn nvmlDeviceGetViolationStatus(device: Handle, which: c_int, time: Out<ViolationTime>) = sensors::violation;
        fn nvmlDeviceGetPcieThroughput(device: Handle, which: c_int, kilobytes: Out<c_uint>) = sensors::pcie_throughput;
        fn nvmlDeviceGetProcessUtilization(device: Handle, list: *mut ProcessSample, count: Out<c_uint>, last_seen: u64) = usage::process_samples;
        fn nvmlDeviceGetProcessesUtilizationInfo(device: Handle, info: Out<ProcessesUtilization>) = usage::process_utilization;
        fn nvmlDeviceGetRunningProcessDetailList(device: Handle, list: Out<ProcessDetails>) = usage::process_details;
        fn nvmlDeviceGetSamples(device: Handle, which: c_int, last_seen: u64, kind: Out<c_int>, count: Out<c_uint>, list: *mut Sample) = usage::samples;
        fn nvmlDeviceGetEccMode(device: Handle, current: Out<c_uint>, pending: Out<c_uint>) = health::ecc_mode;
        fn nvmlDeviceGetDefaultEccMode(device: Handle, mode: Out<c_uint>) = health::default_ecc_mode;
        fn nvmlDeviceGetTotalEccErrors(device: Handle, error: c_int, counter: c_int, count: Out<u64>) = health::total_errors;
        fn nvmlDeviceGetDetailedEccErrors(device: Handle, error: c_int, counter: c_int, counts: Out<EccErrorCounts>) = health::detailed_errors;
        fn nvmlDeviceGetMemoryErrorCounter(device: Handle, error: c_int, counter: c_int, location: c_int, count: Out<u64>) = health::errors_at;
        fn nvmlDeviceGetSramEccErrorStatus(device: Handle, status: Out<EccSramErrorStatus>) = health::sram_status;
        fn nvmlDeviceGetRetiredPages(device: Handle, cause: c_int, count: Out<c_uint>, addresses: *mut u64) = health::retired_pages;
        fn nvmlDeviceGetRetiredPages_v2(device: Handle, cause: c_int, count: Out<c_uint>, addresses: *mut u64) = health::retired_pages;
        fn nvmlDeviceGetRetiredPagesPendingStatus(device: Handle, is: Out<c_uint>) = health::retirement_pending;
        fn nvmlDeviceGetRemappedRows(device: Handle, corrected: Out<c_uint>, uncorrected: Out<c_uint>, pending: Out<c_uint>, failed: Out<c_uint>) = health::remapped_rows;
        fn nvmlDeviceGetPcieReplayCounter(device: Handle, count: Out<c_uint>) = health::no_count;
        fn nvmlDeviceGetRepairStatus(device: Handle, status: Out<[c_uint; 3]>) = health::repair_status;
        fn nvmlDeviceGetSerial(device: Handle, buffer: *mut c_char, length: c_uint) = board::serial;
        fn nvmlDeviceGetHandleBySerial(serial: Text, device: Out<Handle>) = board::by_serial;
        fn nvmlDeviceGetVbiosVersion(device: Handle, buffer: *mut c_char, length: c_uint) = board::vbios;
        fn nvmlDeviceGetGspFirmwareVersion(device: Handle, buffer: *mut c_char) = board::firmware_version;
        fn nvmlDeviceGetGspFirmwareMode(device: Handle, current: Out<c_uint>, default: Out<c_uint>) = board::firmware_mode;
        fn nvmlDeviceGetModuleId(device: Handle, id: Out<c_uint>) = board::module_id;
        fn nvmlDeviceGetPdi(device: Handle, pdi: Out<Pdi>) = board::pdi;
        fn nvmlDeviceGetPciInfoExt(device: Handle, info: Out<PciInfoExt>) = board::pci_info;
        fn nvmlDeviceGetBAR1MemoryInfo(device: Handle, memory: Out<Bar1Memory>) = board::bar1;
        fn nvmlDeviceGetPersistenceMode(device: Handle, mode: Out<c_uint>) = board::persistence;
        fn nvmlDeviceGetAPIRestriction(device: Handle, which: c_int, is: Out<c_uint>) = board::restriction;
        fn nvmlDeviceGetAccountingMode(device: Handle, mode: Out<c_uint>) = board::off;
        fn nvmlDeviceGetAccountingBufferSize(device: Handle, size: Out<c_uint>) = board::accounting_buffer;
        fn nvmlDeviceGetAccountingPids(device: Handle, count: Out<c_uint>, pids: *mut c_uint) = board::accounted;
        fn nvmlDeviceGetC2cModeInfoV(device: Handle, is: Out<c_uint>) = board::off;
        fn nvmlDeviceGetCapabilities(device: Handle, mask: Out<Versioned>) = board::off_versioned;
        fn nvmlDeviceGetAddressingMode(device: Handle, mode: Out<Versioned>) = board::off_versioned;
        fn nvmlGpmQueryDeviceSupport(device: Handle, support: Out<Versioned>) = gpm::support;
        fn nvmlGpmSampleAlloc(sample: Out<usize>) = gpm::allocate;
        fn nvmlGpmSampleFree(sample: usize) = gpm::free;
        fn nvmlGpmSampleGet(device: Handle, sample: usize) = gpm::take;
        fn nvmlGpmMigSampleGet(device: Handle, instance: c_uint, sample: usize) = gpm::take_of_instance;
        fn nvmlGpmMetricsGet(metrics: Out<GpmMetrics>) = gpm::metrics;
        fn nvmlGpmQueryIfStreamingEnabled(device: Handle, state: Out<c_uint>) = gpm::streaming;
        fn nvmlGpmSetStreamingEnabled(device: Handle, state: c_uint) = gpm::set_streaming;
        fn nvmlDeviceQueryDrainState(address: Out<PciInfo>, is: Out<c_uint>) = board::not_draining;
        fn nvmlDeviceGetConfComputeProtectedMemoryUsage(device: Handle, memory: Out<Memory>) = board::protected_memory;
        fn nvmlSystemGetConfComputeState(state: Out<ConfidentialState>) = board::confidential;
        fn nvmlSystemGetHicVersion(count: Out<c_uint>, entries: usize) = board::no_cards;
        fn nvmlSystemGetDriverBranch(branch: Out<DriverBranch>, length: c_uint) = board::branch;
        fn nvmlDeviceGetCpuAffinity(device: Handle, words: c_uint, set: *mut c_ulong) = affinity::cpu_set;
        fn nvmlDeviceGetCpuAffinityWithinScope(device: Handle, words: c_uint, set: *mut c_ulong, scope: c_uint) = affinity::cpu_set_within;
        fn nvmlDeviceGetMemoryAffinity(device: Handle, words: c_uint, set: *mut c_ulong, scope: c_uint) = affinity::memory_set;
        fn nvmlDeviceSetCpuAffinity(device: Handle) = affinity::bind;
        fn nvmlDeviceClearCpuAffinity(device: Handle) = affinity::bind;
        fn nvmlSystemGetTopologyGpuSet(cpu: c_uint, count: Out<c_uint>, list: *mut Handle) = affinity::gpus_near;
        fn nvmlDeviceGetNvLinkRemotePciInfo(device: Handle, link: c_uint, info: Out<PciInfo>) = link::remote_pci;
        fn nvmlDeviceGetNvLinkRemotePciInfo_v2(device: Handle, link: c_uint, info: Out<PciInfo>) = link::remote_pci;
        fn nvmlDeviceGetNvLinkErrorCounter(device: Handle, link: c_uint, which: c_int, count: Out<u64>) = link::errors;
        fn nvmlDeviceGetSupportedEventTypes(device: Handle, types: Out<u64>) = event::supported;
        fn nvmlEventSetCreate(set: Out<usize>) = event::create;
        fn nvmlEventSetFree(set: usize) = event::free;
        fn nvmlDeviceRegisterEvents(device: Handle, types: u64, set: usize) = event::register;
        fn nvmlEventSetWait(set: usize, data: Out<EventData>, milliseconds: c_uint) = event::wait;
        fn nvmlEventSetWait_v2(set: usize, data: Out<EventData>, milliseconds: c_uint) = event::wait;
        fn nvmlSystemEventSetCreate(request: Out<SystemEventSetRequest>) = system_event::create;
        fn nvmlSystemEventSetFree(request: Out<SystemEventSetRequest>) = system_event::free;
        fn nvmlSystemRegisterEvents(request: Out<SystemRegistration>) = system_event::register;
        fn nvmlSystemEventSetWait(request: Out<SystemWait>) = system_event::wait;
        fn nvmlDeviceClearAccountingPids(device: Handle) = board::denied;
        fn nvmlDeviceClearEccErrorCounts(device: Handle) = board::denied;
        fn nvmlDeviceFreezeNvLinkUtilizationCounter(device: Handle) = board::denied;
        fn nvmlDeviceResetApplicationsClocks(device: Handle) = board::denied;
        fn nvmlDeviceResetGpuLockedClocks(device: Handle) = board::denied;
        fn nvmlDeviceResetMemoryLockedClocks(device: Handle) = board::denied;
        fn nvmlDeviceResetNvLinkErrorCounters(device: Handle) = board::denied;
        fn nvmlDeviceResetNvLinkUtilizationCounter(device: Handle) = board::denied;
        fn nvmlDeviceSetAPIRestriction(device: Handle) = board::denied;
        fn nvmlDeviceSetAccountingMode(device: Handle) = board::denied;
        fn nvmlDeviceSetApplicationsClocks(device: Handle) = board::denied;
        fn nvmlDeviceSetAutoBoostedClocksEnabled(device: Handle) = board::denied;
        fn nvmlDeviceSetClockOffsets(device: Handle) = board::denied;
        fn nvmlDeviceSetComputeMode(device: Handle) = board::denied;
        fn nvmlDeviceSetDefaultAutoBoostedClocksEnabled(device: Handle) = board::denied;
        fn nvmlDeviceSetDefaultFanSpeed_v2(device: Handle) = board::denied;
        fn nvmlDeviceSetEccMode(device: Handle) = board::denied;
        fn nvmlDeviceSetFanControlPolicy(device: Handle) = board::denied;
        fn nvmlDeviceSetFanSpeed_v2(device: Handle) = board::denied;
        fn nvmlDeviceSetGpcClkVfOffset(device: Handle) = board::denied;
        fn nvmlDeviceSetGpuLockedClocks(device: Handle) = board::denied;
        fn nvmlDeviceSetMemClkVfOffset(device: Handle) = board::denied;
        fn nvmlDeviceSetMemoryLockedClocks(device: Handle) = board::denied;
        fn nvmlDeviceSetMigMode(device: Handle) = board::denied;
        fn nvmlDeviceSetNvLinkDeviceLowPowerThreshold(device: Handle) = board::denied;
        fn nvmlDeviceSetNvLinkUtilizationControl(device: Handle) = board::denied;
        fn nvmlDeviceSetPersistenceMode(device: Handle) = board::denied;
        fn nvmlDeviceSetPowerManagementLimit(device: Handle) = board::denied;
        fn nvmlDeviceSetPowerManagementLimit_v2(device: Handle) = board::denied;
        fn nvmlDeviceSetTemperatureThreshold(device: Handle) = board::denied;
        fn nvmlDeviceSetVirtualizationMode(device: Handle) = board::denied;
        fn nvmlDeviceClearFieldValues(device: Handle) = board::denied;
        fn nvmlDeviceDiscoverGpus(address: Out<PciInfo>) = board::denied_by_address;
        fn nvmlDeviceModifyDrainState(address: Out<PciInfo>) = board::denied_by_address;
        fn nvmlDeviceRemoveGpu(address: Out<PciInfo>) = board::denied_by_address;
        fn nvmlDeviceRemoveGpu_v2(address: Out<PciInfo>) = board::denied_by_address;
    }
    raw {
        fn nvmlErrorString(code: c_int) -> *const c_char = error::string;
    }
    absent {
        nvmlComputeInstanceDestroy nvmlComputeInstanceGetInfo nvmlComputeInstanceGetInfo_v2 nvmlDeviceGetRowRemapperHistogram
        nvmlDeviceCreateGpuInstance nvmlDeviceCreateGpuInstanceWithPlacement nvmlDeviceGetAccountingStats
        nvmlDeviceGetAccountingStats_v2 nvmlDeviceGetActiveVgpus nvmlDeviceGetAdaptiveClockInfoStatus
        nvmlDeviceGetAdaptiveTgpModeInfo_v1 nvmlDeviceGetAttributes nvmlDeviceGetAttributes_v2
        nvmlDeviceGetAutoBoostedClocksEnabled nvmlDeviceGetBBXTimeData_v1 nvmlDeviceGetBoardPartNumber
        nvmlDeviceGetBridgeChipInfo nvmlDeviceGetClkMonStatus nvmlDeviceGetClockOffsets
        nvmlDeviceGetComputeInstanceId nvmlDeviceGetConfComputeGpuAttestationReport
        nvmlDeviceGetConfComputeGpuCertificate nvmlDeviceGetConfComputeMemSizeInfo
        nvmlDeviceGetCoolerInfo nvmlDeviceGetCreatableVgpus
        nvmlDeviceGetCurrentClockFreqs nvmlDeviceGetDeviceHandleFromMigDeviceHandle
        nvmlDeviceGetDramEncryptionMode nvmlDeviceGetDriverModel nvmlDeviceGetDriverModel_v2
        nvmlDeviceGetDynamicPstatesInfo nvmlDeviceGetEncoderCapacity nvmlDeviceGetEncoderSessions
        nvmlDeviceGetFBCSessions nvmlDeviceGetFanControlPolicy_v2 nvmlDeviceGetFanSpeedRPM
        nvmlDeviceGetGpcClkMinMaxVfOffset nvmlDeviceGetGpcClkVfOffset nvmlDeviceGetGpuInstanceById
        nvmlDeviceGetGpuInstanceId nvmlDeviceGetGpuInstancePossiblePlacements
        nvmlDeviceGetGpuInstancePossiblePlacements_v2 nvmlDeviceGetGpuInstanceProfileInfo
        nvmlDeviceGetGpuInstanceProfileInfoByIdV nvmlDeviceGetGpuInstanceProfileInfoV
        nvmlDeviceGetGpuInstanceRemainingCapacity nvmlDeviceGetGpuInstances nvmlDeviceGetGpuOperationMode
        nvmlDeviceGetGridLicensableFeatures nvmlDeviceGetGridLicensableFeatures_v2
        nvmlDeviceGetGridLicensableFeatures_v3 nvmlDeviceGetGridLicensableFeatures_v4 nvmlDeviceGetHostVgpuMode
        nvmlDeviceGetHostname_v1 nvmlDeviceGetInforomConfigurationChecksum nvmlDeviceGetInforomImageVersion
        nvmlDeviceGetInforomVersion nvmlDeviceGetIrqNum nvmlDeviceGetLastBBXFlushTime
        nvmlDeviceGetMemClkMinMaxVfOffset nvmlDeviceGetMemClkVfOffset nvmlDeviceGetMemoryLimits_v1
        nvmlDeviceGetMigDeviceHandleByIndex nvmlDeviceGetNumaNodeId nvmlDeviceGetNvLinkUtilizationControl
        nvmlDeviceGetNvLinkUtilizationCounter nvmlDeviceGetNvlinkBwMode nvmlDeviceGetNvlinkNvlePrivateInfo_v1
        nvmlDeviceGetNvlinkRemapTableInfo_v1 nvmlDeviceGetNvlinkSupportedBwModes nvmlDeviceGetPerformanceModes
        nvmlDeviceGetPgpuMetadataString nvmlDeviceGetPlatformInfo nvmlDeviceGetPowerMizerMode_v1
        nvmlDeviceGetSupportedVgpus nvmlDeviceGetVgpuCapabilities nvmlDeviceGetVgpuHeterogeneousMode
        nvmlDeviceGetVgpuInstancesUtilizationInfo nvmlDeviceGetVgpuMetadata nvmlDeviceGetVgpuProcessUtilization
        nvmlDeviceGetVgpuProcessesUtilizationInfo nvmlDeviceGetVgpuSchedulerCapabilities
        nvmlDeviceGetVgpuSchedulerLog nvmlDeviceGetVgpuSchedulerLog_v2 nvmlDeviceGetVgpuSchedulerState
        nvmlDeviceGetVgpuSchedulerState_v2 nvmlDeviceGetVgpuTypeCreatablePlacements
        nvmlDeviceGetVgpuTypeSupportedPlacements nvmlDeviceGetVgpuUtilization nvmlDeviceLockNvlinkRemapTable_v1
        nvmlDevicePowerSmoothingActivatePresetProfile nvmlDevicePowerSmoothingSetState
        nvmlDevicePowerSmoothingUpdatePresetProfileParam nvmlDeviceReadPRMCounters_v1 nvmlDeviceReadWritePRM_v1
        nvmlDeviceSetAdaptiveTgpMode_v1 nvmlDeviceSetConfComputeUnprotectedMemSize
        nvmlDeviceSetDramEncryptionMode nvmlDeviceSetDriverModel nvmlDeviceSetGpuOperationMode
        nvmlDeviceSetHostname_v1 nvmlDeviceSetMemoryLimits_v1 nvmlDeviceSetNvlinkBwMode
        nvmlDeviceSetNvlinkBwModeAsync_v1 nvmlDeviceSetNvlinkNvleReady_v1 nvmlDeviceSetPowerMizerMode_v1
        nvmlDeviceSetRusdSettings_v1 nvmlDeviceSetVgpuCapabilities nvmlDeviceSetVgpuHeterogeneousMode
        nvmlDeviceSetVgpuSchedulerState nvmlDeviceSetVgpuSchedulerState_v2
        nvmlDeviceSetupNvlinkNvleEncryptionKey_v1 nvmlDeviceVgpuForceGspUnload
        nvmlDeviceWorkloadPowerProfileClearRequestedProfiles nvmlDeviceWorkloadPowerProfileGetCurrentProfiles
        nvmlDeviceWorkloadPowerProfileGetProfilesInfo nvmlDeviceWorkloadPowerProfileSetRequestedProfiles
        nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1 nvmlGetVgpuCompatibility nvmlGetVgpuDriverCapabilities
        nvmlGetVgpuVersion nvmlGpuInstanceCreateComputeInstance
        nvmlGpuInstanceCreateComputeInstanceWithPlacement nvmlGpuInstanceDestroy nvmlGpuInstanceGetActiveVgpus
        nvmlGpuInstanceGetComputeInstanceById nvmlGpuInstanceGetComputeInstancePossiblePlacements
        nvmlGpuInstanceGetComputeInstanceProfileInfo nvmlGpuInstanceGetComputeInstanceProfileInfoV
        nvmlGpuInstanceGetComputeInstanceRemainingCapacity nvmlGpuInstanceGetComputeInstances
        nvmlGpuInstanceGetCreatableVgpus nvmlGpuInstanceGetInfo nvmlGpuInstanceGetVgpuHeterogeneousMode
        nvmlGpuInstanceGetVgpuSchedulerLog nvmlGpuInstanceGetVgpuSchedulerLog_v2
        nvmlGpuInstanceGetVgpuSchedulerState nvmlGpuInstanceGetVgpuSchedulerState_v2
        nvmlGpuInstanceGetVgpuTypeCreatablePlacements nvmlGpuInstanceSetVgpuHeterogeneousMode
        nvmlGpuInstanceSetVgpuSchedulerState nvmlGpuInstanceSetVgpuSchedulerState_v2 nvmlSetVgpuVersion
        nvmlSystemGetCPER_v1 nvmlSystemGetConfComputeCapabilities nvmlSystemGetConfComputeGpusReadyState
        nvmlSystemGetConfComputeKeyRotationThresholdInfo nvmlSystemGetConfComputeSettings
        nvmlSystemGetConfComputeSettings_v2 nvmlSystemGetNvlinkBwMode nvmlSystemSetConfComputeGpusReadyState
        nvmlSystemSetConfComputeKeyRotationThresholdInfo nvmlSystemSetNvlinkBwMode
        nvmlVgpuInstanceClearAccountingPids nvmlVgpuInstanceGetAccountingMode nvmlVgpuInstanceGetAccountingPids
        nvmlVgpuInstanceGetAccountingStats nvmlVgpuInstanceGetEccMode nvmlVgpuInstanceGetEncoderCapacity
        nvmlVgpuInstanceGetEncoderSessions nvmlVgpuInstanceGetEncoderStats nvmlVgpuInstanceGetFBCSessions
        nvmlVgpuInstanceGetFBCStats nvmlVgpuInstanceGetFbUsage nvmlVgpuInstanceGetFrameRateLimit
        nvmlVgpuInstanceGetGpuInstanceId nvmlVgpuInstanceGetGpuPciId nvmlVgpuInstanceGetLicenseInfo
        nvmlVgpuInstanceGetLicenseInfo_v2 nvmlVgpuInstanceGetLicenseStatus nvmlVgpuInstanceGetMdevUUID
        nvmlVgpuInstanceGetMetadata nvmlVgpuInstanceGetPlacementId nvmlVgpuInstanceGetRuntimeStateSize
        nvmlVgpuInstanceGetType nvmlVgpuInstanceGetUUID nvmlVgpuInstanceGetVmDriverVersion
        nvmlVgpuInstanceGetVmID nvmlVgpuInstanceSetEncoderCapacity nvmlVgpuTypeGetBAR1Info
        nvmlVgpuTypeGetCapabilities nvmlVgpuTypeGetClass nvmlVgpuTypeGetDeviceID nvmlVgpuTypeGetFbReservation
        nvmlVgpuTypeGetFrameRateLimit nvmlVgpuTypeGetFramebufferSize nvmlVgpuTypeGetGpuInstanceProfileId
        nvmlVgpuTypeGetGspHeapSize nvmlVgpuTypeGetLicense nvmlVgpuTypeGetMaxInstances
        nvmlVgpuTypeGetMaxInstancesPerGpuInstance nvmlVgpuTypeGetMaxInstancesPerVm nvmlVgpuTypeGetName
        nvmlVgpuTypeGetNumDisplayHeads nvmlVgpuTypeGetResolution
    }
    refused {
        nvmlDeviceGetBankRemapperStatus_v1 nvmlDeviceGetGpuUptime_v1 nvmlDeviceGetRemappedRows_v2
        nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts nvmlDeviceGetUnrepairableMemoryFlag_v1
    }
    stub {
        nvmlDeviceGetNvLinkInfo_v3 nvmlDeviceGetNvLinkTelemetrySamples_v1 nvmlDevicePerfMetricsGetSamples_v1
        nvmlEventSetGetContextCount_v1 nvmlEventSetGetContextData_v1 nvmlEventSetGetContextInfo_v1
        nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1 nvmlEventSetRegisterGpuOperationalEvents_v1
        nvmlEventSetWait_v3
    }
}
