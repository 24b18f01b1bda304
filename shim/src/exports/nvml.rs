//! The symbols of libnvidia-ml.

use std::ffi::{c_char, c_int, c_uint};

use crate::boundary::args::{Out, Text};
use crate::boundary::table::exports;
use crate::nvml::abi::{
    FabricInfo, FabricInfoV2, FieldValue, Memory, MemoryV2, PciInfo, PciInfoV1, ProcessInfo, ProcessInfoV1, Uuid,
};
use crate::nvml::device::Handle;
use crate::nvml::{device, error, hardware, link, system, usage};

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
    absent {
        nvmlComputeInstanceDestroy nvmlComputeInstanceGetInfo nvmlComputeInstanceGetInfo_v2
        nvmlDeviceCreateGpuInstance nvmlDeviceCreateGpuInstanceWithPlacement nvmlDeviceGetActiveVgpus
        nvmlDeviceGetAdaptiveTgpModeInfo_v1 nvmlDeviceGetAttributes nvmlDeviceGetAttributes_v2
        nvmlDeviceGetBBXTimeData_v1 nvmlDeviceGetClkMonStatus nvmlDeviceGetComputeInstanceId
        nvmlDeviceGetConfComputeGpuAttestationReport nvmlDeviceGetConfComputeGpuCertificate
        nvmlDeviceGetConfComputeMemSizeInfo nvmlDeviceGetConfComputeProtectedMemoryUsage
        nvmlDeviceGetCreatableVgpus nvmlDeviceGetDeviceHandleFromMigDeviceHandle nvmlDeviceGetDramEncryptionMode
        nvmlDeviceGetDriverModel nvmlDeviceGetDriverModel_v2 nvmlDeviceGetEncoderCapacity
        nvmlDeviceGetEncoderSessions nvmlDeviceGetEncoderStats nvmlDeviceGetFBCSessions nvmlDeviceGetFBCStats
        nvmlDeviceGetGpuInstanceById nvmlDeviceGetGpuInstanceId nvmlDeviceGetGpuInstancePossiblePlacements
        nvmlDeviceGetGpuInstancePossiblePlacements_v2 nvmlDeviceGetGpuInstanceProfileInfo
        nvmlDeviceGetGpuInstanceProfileInfoByIdV nvmlDeviceGetGpuInstanceProfileInfoV
        nvmlDeviceGetGpuInstanceRemainingCapacity nvmlDeviceGetGpuInstances nvmlDeviceGetGpuOperationMode
        nvmlDeviceGetGridLicensableFeatures nvmlDeviceGetGridLicensableFeatures_v2
        nvmlDeviceGetGridLicensableFeatures_v3 nvmlDeviceGetGridLicensableFeatures_v4 nvmlDeviceGetHostVgpuMode
        nvmlDeviceGetHostname_v1 nvmlDeviceGetLastBBXFlushTime nvmlDeviceGetMemoryLimits_v1
        nvmlDeviceGetMigDeviceHandleByIndex nvmlDeviceGetNvlinkBwMode nvmlDeviceGetNvlinkNvlePrivateInfo_v1
        nvmlDeviceGetNvlinkRemapTableInfo_v1 nvmlDeviceGetPgpuMetadataString nvmlDeviceGetPowerMizerMode_v1
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
        nvmlDeviceSetupNvlinkNvleEncryptionKey_v1 nvmlDeviceVgpuForceGspUnload nvmlGetVgpuCompatibility
        nvmlGetVgpuDriverCapabilities nvmlGetVgpuVersion nvmlGpuInstanceCreateComputeInstance
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
        nvmlDeviceGetAPIRestriction nvmlDeviceGetAccountingBufferSize nvmlDeviceGetAccountingPids
        nvmlDeviceGetAccountingStats nvmlDeviceGetAccountingStats_v2 nvmlDeviceGetAdaptiveClockInfoStatus
        nvmlDeviceGetAddressingMode nvmlDeviceGetApplicationsClock nvmlDeviceGetAutoBoostedClocksEnabled
        nvmlDeviceGetBAR1MemoryInfo nvmlDeviceGetBankRemapperStatus_v1 nvmlDeviceGetBoardPartNumber
        nvmlDeviceGetBridgeChipInfo nvmlDeviceGetC2cModeInfoV nvmlDeviceGetCapabilities nvmlDeviceGetClock
        nvmlDeviceGetClockInfo nvmlDeviceGetClockOffsets nvmlDeviceGetCoolerInfo nvmlDeviceGetCpuAffinity
        nvmlDeviceGetCurrentClockFreqs nvmlDeviceGetCurrentClocksEventReasons
        nvmlDeviceGetCurrentClocksThrottleReasons nvmlDeviceGetDecoderUtilization
        nvmlDeviceGetDefaultApplicationsClock nvmlDeviceGetDefaultEccMode nvmlDeviceGetDetailedEccErrors
        nvmlDeviceGetDynamicPstatesInfo nvmlDeviceGetEccMode nvmlDeviceGetEncoderUtilization
        nvmlDeviceGetFanControlPolicy_v2 nvmlDeviceGetFanSpeed nvmlDeviceGetFanSpeedRPM nvmlDeviceGetFanSpeed_v2
        nvmlDeviceGetGpcClkMinMaxVfOffset nvmlDeviceGetGpcClkVfOffset nvmlDeviceGetGpuUptime_v1
        nvmlDeviceGetInforomConfigurationChecksum nvmlDeviceGetInforomImageVersion nvmlDeviceGetInforomVersion
        nvmlDeviceGetIrqNum nvmlDeviceGetJpgUtilization nvmlDeviceGetMarginTemperature
        nvmlDeviceGetMaxCustomerBoostClock nvmlDeviceGetMemClkMinMaxVfOffset nvmlDeviceGetMemClkVfOffset
        nvmlDeviceGetMemoryErrorCounter nvmlDeviceGetMinMaxClockOfPState nvmlDeviceGetMinMaxFanSpeed
        nvmlDeviceGetNumFans nvmlDeviceGetNumaNodeId nvmlDeviceGetNvLinkErrorCounter
        nvmlDeviceGetNvLinkRemotePciInfo nvmlDeviceGetNvLinkRemotePciInfo_v2
        nvmlDeviceGetNvLinkUtilizationControl nvmlDeviceGetNvLinkUtilizationCounter
        nvmlDeviceGetNvlinkSupportedBwModes nvmlDeviceGetOfaUtilization nvmlDeviceGetPcieReplayCounter
        nvmlDeviceGetPcieThroughput nvmlDeviceGetPdi nvmlDeviceGetPerformanceModes nvmlDeviceGetPerformanceState
        nvmlDeviceGetPersistenceMode nvmlDeviceGetPowerManagementLimitConstraints
        nvmlDeviceGetPowerManagementMode nvmlDeviceGetPowerSource nvmlDeviceGetPowerState
        nvmlDeviceGetPowerUsage nvmlDeviceGetProcessesUtilizationInfo nvmlDeviceGetRemappedRows
        nvmlDeviceGetRemappedRows_v2 nvmlDeviceGetRetiredPages nvmlDeviceGetRetiredPagesPendingStatus
        nvmlDeviceGetRetiredPages_v2 nvmlDeviceGetRowRemapperHistogram nvmlDeviceGetSamples nvmlDeviceGetSerial
        nvmlDeviceGetSramEccErrorStatus nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts
        nvmlDeviceGetSupportedClocksEventReasons nvmlDeviceGetSupportedClocksThrottleReasons
        nvmlDeviceGetSupportedGraphicsClocks nvmlDeviceGetSupportedMemoryClocks
        nvmlDeviceGetSupportedPerformanceStates nvmlDeviceGetTargetFanSpeed nvmlDeviceGetTemperature
        nvmlDeviceGetTemperatureThreshold nvmlDeviceGetTemperatureV nvmlDeviceGetThermalSettings
        nvmlDeviceGetTotalEccErrors nvmlDeviceGetTotalEnergyConsumption nvmlDeviceGetUnrepairableMemoryFlag_v1
        nvmlDeviceGetUtilizationRates nvmlDeviceGetVbiosVersion nvmlDeviceGetViolationStatus
        nvmlDeviceWorkloadPowerProfileGetCurrentProfiles nvmlDeviceWorkloadPowerProfileGetProfilesInfo
        nvmlSystemGetConfComputeState nvmlSystemGetHicVersion
    }
    stub {
        nvmlDeviceClearAccountingPids nvmlDeviceClearCpuAffinity nvmlDeviceClearEccErrorCounts
        nvmlDeviceClearFieldValues nvmlDeviceDiscoverGpus nvmlDeviceFreezeNvLinkUtilizationCounter
        nvmlDeviceGetAccountingMode nvmlDeviceGetCpuAffinityWithinScope nvmlDeviceGetGpuFabricInfo_v4
        nvmlDeviceGetGspFirmwareMode nvmlDeviceGetGspFirmwareVersion nvmlDeviceGetHandleBySerial
        nvmlDeviceGetMemoryAffinity nvmlDeviceGetModuleId nvmlDeviceGetNvLinkInfo nvmlDeviceGetNvLinkInfo_v3
        nvmlDeviceGetNvLinkTelemetrySamples_v1 nvmlDeviceGetPciInfoExt nvmlDeviceGetPlatformInfo
        nvmlDeviceGetProcessUtilization nvmlDeviceGetRepairStatus nvmlDeviceGetRunningProcessDetailList
        nvmlDeviceGetSupportedEventTypes nvmlDeviceModifyDrainState nvmlDevicePerfMetricsGetSamples_v1
        nvmlDeviceQueryDrainState nvmlDeviceRegisterEvents nvmlDeviceRemoveGpu nvmlDeviceRemoveGpu_v2
        nvmlDeviceResetApplicationsClocks nvmlDeviceResetGpuLockedClocks nvmlDeviceResetMemoryLockedClocks
        nvmlDeviceResetNvLinkErrorCounters nvmlDeviceResetNvLinkUtilizationCounter nvmlDeviceSetAPIRestriction
        nvmlDeviceSetAccountingMode nvmlDeviceSetApplicationsClocks nvmlDeviceSetAutoBoostedClocksEnabled
        nvmlDeviceSetClockOffsets nvmlDeviceSetComputeMode nvmlDeviceSetCpuAffinity
        nvmlDeviceSetDefaultAutoBoostedClocksEnabled nvmlDeviceSetDefaultFanSpeed_v2 nvmlDeviceSetEccMode
        nvmlDeviceSetFanControlPolicy nvmlDeviceSetFanSpeed_v2 nvmlDeviceSetGpcClkVfOffset
        nvmlDeviceSetGpuLockedClocks nvmlDeviceSetMemClkVfOffset nvmlDeviceSetMemoryLockedClocks
        nvmlDeviceSetMigMode nvmlDeviceSetNvLinkDeviceLowPowerThreshold nvmlDeviceSetNvLinkUtilizationControl
        nvmlDeviceSetPersistenceMode nvmlDeviceSetPowerManagementLimit nvmlDeviceSetPowerManagementLimit_v2
        nvmlDeviceSetTemperatureThreshold nvmlDeviceSetVirtualizationMode nvmlDeviceValidateInforom
        nvmlDeviceWorkloadPowerProfileClearRequestedProfiles nvmlDeviceWorkloadPowerProfileSetRequestedProfiles
        nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1 nvmlEventSetCreate nvmlEventSetFree
        nvmlEventSetGetContextCount_v1 nvmlEventSetGetContextData_v1 nvmlEventSetGetContextInfo_v1
        nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1 nvmlEventSetRegisterGpuOperationalEvents_v1
        nvmlEventSetWait nvmlEventSetWait_v2 nvmlEventSetWait_v3 nvmlGpmMetricsGet nvmlGpmMigSampleGet
        nvmlGpmQueryDeviceSupport nvmlGpmQueryIfStreamingEnabled nvmlGpmSampleAlloc nvmlGpmSampleFree
        nvmlGpmSampleGet nvmlGpmSetStreamingEnabled nvmlSystemEventSetCreate nvmlSystemEventSetFree
        nvmlSystemEventSetWait nvmlSystemGetDriverBranch nvmlSystemGetTopologyGpuSet nvmlSystemRegisterEvents
    }
}
