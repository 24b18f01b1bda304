//! NVML's structures and enumerations in C layout (nvml.h of CUDA 12.9).

use std::ffi::{c_char, c_int, c_uint};

/// `nvmlPciInfo_t`, version 3.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PciInfo {
    pub(crate) legacy_bus_id: [c_char; 16],
    pub(crate) domain: c_uint,
    pub(crate) bus: c_uint,
    pub(crate) device: c_uint,
    pub(crate) pci_device_id: c_uint,
    pub(crate) pci_subsystem_id: c_uint,
    pub(crate) bus_id: [c_char; 32],
}

/// The layout before the long bus id was added: versions 1 and 2.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PciInfoV1 {
    pub(crate) bus_id: [c_char; 16],
    pub(crate) domain: c_uint,
    pub(crate) bus: c_uint,
    pub(crate) device: c_uint,
    pub(crate) pci_device_id: c_uint,
    pub(crate) pci_subsystem_id: c_uint,
    pub(crate) reserved: [c_uint; 4],
}

/// `nvmlMemory_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlMemory_v2_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MemoryV2 {
    pub(crate) version: c_uint,
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlProcessInfo_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessInfoV1 {
    pub(crate) pid: c_uint,
    pub(crate) used_memory: u64,
}

/// `nvmlProcessInfo_v2_t`, which is `nvmlProcessInfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessInfo {
    pub(crate) pid: c_uint,
    pub(crate) used_memory: u64,
    pub(crate) gpu_instance: c_uint,
    pub(crate) compute_instance: c_uint,
}

/// `nvmlUUID_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Uuid {
    pub(crate) version: c_uint,
    /// 1 for text, 2 for the 16 bytes.
    pub(crate) kind: c_uint,
    pub(crate) value: [u8; 41],
}

/// `nvmlGpuFabricInfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FabricInfo {
    pub(crate) cluster: [u8; 16],
    pub(crate) status: c_uint,
    pub(crate) clique: c_uint,
    pub(crate) state: u8,
    /// Zeroed, because bindings read the state as a wider number.
    pub(crate) padding: [u8; 3],
}

/// `nvmlGpuFabricInfo_v2_t`; version 3 appends a byte.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FabricInfoV2 {
    pub(crate) version: c_uint,
    pub(crate) cluster: [u8; 16],
    pub(crate) status: c_uint,
    pub(crate) clique: c_uint,
    pub(crate) state: u8,
    /// Zeroed, because bindings read the state as a wider number.
    pub(crate) padding: [u8; 3],
    pub(crate) health: c_uint,
}

/// `nvmlFieldValue_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FieldValue {
    pub(crate) field: c_uint,
    pub(crate) scope: c_uint,
    pub(crate) timestamp: i64,
    pub(crate) latency: i64,
    pub(crate) value_type: c_uint,
    pub(crate) status: c_uint,
    pub(crate) value: u64,
}

/// `nvmlUtilization_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Utilization {
    pub(crate) gpu: c_uint,
    pub(crate) memory: c_uint,
}

/// `nvmlBAR1Memory_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Bar1Memory {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlEccErrorCounts_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct EccErrorCounts {
    pub(crate) l1_cache: u64,
    pub(crate) l2_cache: u64,
    pub(crate) device_memory: u64,
    pub(crate) register_file: u64,
}

/// `nvmlEccSramErrorStatus_v1_t`: eleven counters between its version and a flag.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct EccSramErrorStatus {
    pub(crate) version: c_uint,
    pub(crate) counts: [u64; 11],
    pub(crate) is_threshold_exceeded: c_uint,
}

/// `nvmlTemperature_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Temperature {
    pub(crate) version: c_uint,
    pub(crate) sensor: c_int,
    pub(crate) temperature: c_int,
}

/// A version and a number: `nvmlMarginTemperature_v1_t`, `nvmlDeviceCapabilities_v1_t`, `nvmlGpmSupport_t`,
/// `nvmlDeviceAddressingMode_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Versioned {
    pub(crate) version: c_uint,
    pub(crate) value: c_uint,
}

/// `nvmlViolationTime_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ViolationTime {
    pub(crate) reference: u64,
    pub(crate) violation: u64,
}

/// `nvmlSample_t`; the value is the union of its types.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Sample {
    pub(crate) timestamp: u64,
    pub(crate) value: u64,
}

/// `nvmlProcessUtilizationSample_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessSample {
    pub(crate) pid: c_uint,
    pub(crate) timestamp: u64,
    pub(crate) sm: c_uint,
    pub(crate) memory: c_uint,
    pub(crate) encoder: c_uint,
    pub(crate) decoder: c_uint,
}

/// `nvmlProcessUtilizationInfo_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessUtilization {
    pub(crate) timestamp: u64,
    pub(crate) pid: c_uint,
    pub(crate) sm: c_uint,
    pub(crate) memory: c_uint,
    pub(crate) encoder: c_uint,
    pub(crate) decoder: c_uint,
    pub(crate) jpeg: c_uint,
    pub(crate) optical_flow: c_uint,
}

/// `nvmlProcessesUtilizationInfo_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessesUtilization {
    pub(crate) version: c_uint,
    pub(crate) count: c_uint,
    pub(crate) last_seen: u64,
    pub(crate) list: *mut ProcessUtilization,
}

/// `nvmlProcessDetail_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessDetail {
    pub(crate) pid: c_uint,
    pub(crate) used_memory: u64,
    pub(crate) gpu_instance: c_uint,
    pub(crate) compute_instance: c_uint,
    pub(crate) protected_memory: u64,
}

/// `nvmlProcessDetailList_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessDetails {
    pub(crate) version: c_uint,
    pub(crate) mode: c_uint,
    pub(crate) count: c_uint,
    pub(crate) list: *mut ProcessDetail,
}

/// `nvmlEventData_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct EventData {
    pub(crate) device: usize,
    pub(crate) kind: u64,
    pub(crate) data: u64,
    pub(crate) gpu_instance: c_uint,
    pub(crate) compute_instance: c_uint,
}

/// `nvmlPciInfoExt_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PciInfoExt {
    pub(crate) version: c_uint,
    pub(crate) domain: c_uint,
    pub(crate) bus: c_uint,
    pub(crate) device: c_uint,
    pub(crate) pci_device_id: c_uint,
    pub(crate) pci_subsystem_id: c_uint,
    pub(crate) base_class: c_uint,
    pub(crate) sub_class: c_uint,
    pub(crate) bus_id: [c_char; 32],
}

/// `nvmlSystemDriverBranchInfo_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct DriverBranch {
    pub(crate) version: c_uint,
    pub(crate) branch: [c_char; 80],
}

/// `nvmlPdi_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Pdi {
    pub(crate) version: c_uint,
    pub(crate) value: u64,
}

/// `nvmlConfComputeSystemState_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ConfidentialState {
    pub(crate) environment: c_uint,
    pub(crate) feature: c_uint,
    pub(crate) developer_tools: c_uint,
}

/// One sensor of `nvmlGpuThermalSettings_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ThermalSensor {
    pub(crate) controller: c_int,
    pub(crate) least: c_int,
    pub(crate) most: c_int,
    pub(crate) current: c_int,
    pub(crate) target: c_int,
}

/// `nvmlGpuThermalSettings_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ThermalSettings {
    pub(crate) count: c_uint,
    pub(crate) sensors: [ThermalSensor; 3],
}

/// One metric of `nvmlGpmMetricsGet_t`: an entry of the array at its end.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct GpmMetric {
    pub(crate) id: c_uint,
    pub(crate) status: c_uint,
    pub(crate) value: f64,
    /// Short name, long name and unit; NULL if they are not defined.
    pub(crate) texts: [*const c_char; 3],
}

/// `nvmlGpmMetricsGet_t` up to its array, whose length differs between headers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct GpmMetrics {
    pub(crate) version: c_uint,
    pub(crate) count: c_uint,
    pub(crate) samples: [usize; 2],
    pub(crate) metrics: [GpmMetric; 0],
}

/// `nvmlSystemEventSetCreateRequest_v1_t` and `nvmlSystemEventSetFreeRequest_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SystemEventSetRequest {
    pub(crate) version: c_uint,
    pub(crate) set: usize,
}

/// `nvmlSystemRegisterEventRequest_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SystemRegistration {
    pub(crate) version: c_uint,
    pub(crate) types: u64,
    pub(crate) set: usize,
}

/// `nvmlSystemEventSetWaitRequest_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SystemWait {
    pub(crate) version: c_uint,
    pub(crate) milliseconds: c_uint,
    pub(crate) set: usize,
    pub(crate) list: usize,
    pub(crate) room: c_uint,
    pub(crate) count: c_uint,
}

/// `nvmlGpuFabricInfo_v4_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FabricInfoV4 {
    pub(crate) cluster: [u8; 16],
    pub(crate) status: c_uint,
    /// Type and id of each.
    pub(crate) cliques: [[c_uint; 2]; 64],
    pub(crate) clique_count: c_uint,
    /// `NVML_GPU_FABRIC_STATE_*`, of which C sets the first byte.
    pub(crate) state: c_uint,
    pub(crate) health: c_uint,
    pub(crate) health_summary: c_uint,
}

/// The number that a versioned structure begins with.
pub(crate) const fn version<T>(number: c_uint) -> c_uint {
    size_of::<T>() as c_uint | number << 24
}

/// "No instance": the process runs on the whole GPU.
pub(crate) const NO_INSTANCE: c_uint = 0xffff_ffff;
/// Links a GPU may have, `NVML_NVLINK_MAX_LINKS`.
pub(crate) const MAX_LINKS: c_uint = 18;
/// Devices at either end of an NVLink.
pub(crate) const LINK_TO_SWITCH: c_int = 2;

/// `nvmlGpuTopologyLevel_t`.
pub(crate) mod topology {
    use std::ffi::c_int;

    pub(in crate::nvml) const INTERNAL: c_int = 0;
    pub(in crate::nvml) const NODE: c_int = 40;
    pub(in crate::nvml) const SYSTEM: c_int = 50;
}

/// `nvmlGpuP2PStatus_t`.
pub(crate) mod peer {
    use std::ffi::c_int;

    pub(in crate::nvml) const OK: c_int = 0;
    pub(in crate::nvml) const NOT_SUPPORTED: c_int = 5;
}

// Sizes as cc computes them from nvml.h.
const _: () = assert!(size_of::<PciInfo>() == 68);
const _: () = assert!(size_of::<PciInfoV1>() == 52);
const _: () = assert!(size_of::<MemoryV2>() == 40 && size_of::<Memory>() == 24);
const _: () = assert!(size_of::<ProcessInfoV1>() == 16 && size_of::<ProcessInfo>() == 24);
const _: () = assert!(size_of::<Uuid>() == 52);
const _: () = assert!(size_of::<FabricInfo>() == 28 && size_of::<FabricInfoV2>() == 36);
const _: () = assert!(size_of::<GpmMetric>() == 40 && size_of::<GpmMetrics>() == 24);
const _: () = assert!(size_of::<SystemRegistration>() == 24 && size_of::<SystemWait>() == 32);
const _: () = assert!(size_of::<FabricInfoV4>() == 548);
const _: () = assert!(size_of::<FieldValue>() == 40);
const _: () = assert!(size_of::<EccSramErrorStatus>() == 104 && size_of::<Pdi>() == 16);
const _: () = assert!(size_of::<ProcessSample>() == 32 && size_of::<ProcessUtilization>() == 40);
const _: () = assert!(size_of::<ProcessesUtilization>() == 24 && size_of::<ProcessDetails>() == 24);
const _: () = assert!(size_of::<ProcessDetail>() == 32 && size_of::<EventData>() == 32);
const _: () = assert!(size_of::<PciInfoExt>() == 64 && size_of::<DriverBranch>() == 84);
const _: () = assert!(size_of::<ThermalSettings>() == 64 && size_of::<Sample>() == 16);
