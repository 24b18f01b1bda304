//! NVML's structures and enumerations as C lays them out (nvml.h of CUDA 12.9).

use std::ffi::{c_char, c_int, c_uint};

/// `nvmlPciInfo_t`, version 3.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PciInfo {
    pub(super) legacy_bus_id: [c_char; 16],
    pub(super) domain: c_uint,
    pub(super) bus: c_uint,
    pub(super) device: c_uint,
    pub(super) pci_device_id: c_uint,
    pub(super) pci_subsystem_id: c_uint,
    pub(super) bus_id: [c_char; 32],
}

/// The same before the long bus id was added: versions 1 and 2.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PciInfoV1 {
    pub(super) bus_id: [c_char; 16],
    pub(super) domain: c_uint,
    pub(super) bus: c_uint,
    pub(super) device: c_uint,
    pub(super) pci_device_id: c_uint,
    pub(super) pci_subsystem_id: c_uint,
    pub(super) reserved: [c_uint; 4],
}

/// `nvmlMemory_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Memory {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) used: u64,
}

/// `nvmlMemory_v2_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MemoryV2 {
    pub(super) version: c_uint,
    pub(super) total: u64,
    pub(super) reserved: u64,
    pub(super) free: u64,
    pub(super) used: u64,
}

/// `nvmlProcessInfo_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessInfoV1 {
    pub(super) pid: c_uint,
    pub(super) used_memory: u64,
}

/// `nvmlProcessInfo_v2_t`, which is `nvmlProcessInfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProcessInfo {
    pub(super) pid: c_uint,
    pub(super) used_memory: u64,
    pub(super) gpu_instance: c_uint,
    pub(super) compute_instance: c_uint,
}

/// `nvmlUUID_v1_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Uuid {
    pub(super) version: c_uint,
    /// 1 text, 2 the 16 bytes.
    pub(super) kind: c_uint,
    pub(super) value: [u8; 41],
}

/// `nvmlGpuFabricInfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FabricInfo {
    pub(super) cluster: [u8; 16],
    pub(super) status: c_uint,
    pub(super) clique: c_uint,
    pub(super) state: u8,
    /// Zeroed, as bindings read the state as a wider number.
    pub(super) padding: [u8; 3],
}

/// `nvmlGpuFabricInfo_v2_t`; version 3 appends a byte.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FabricInfoV2 {
    pub(super) version: c_uint,
    pub(super) cluster: [u8; 16],
    pub(super) status: c_uint,
    pub(super) clique: c_uint,
    pub(super) state: u8,
    /// Zeroed, as bindings read the state as a wider number.
    pub(super) padding: [u8; 3],
    pub(super) health: c_uint,
}

/// `nvmlFieldValue_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FieldValue {
    pub(super) field: c_uint,
    pub(super) scope: c_uint,
    pub(super) timestamp: i64,
    pub(super) latency: i64,
    pub(super) value_type: c_uint,
    pub(super) status: c_uint,
    pub(super) value: u64,
}

/// The number that a versioned structure begins with.
pub(super) const fn version<T>(number: c_uint) -> c_uint {
    size_of::<T>() as c_uint | number << 24
}

/// "No instance": the process runs on the whole GPU.
pub(super) const NO_INSTANCE: c_uint = 0xffff_ffff;
/// Links a GPU may have, `NVML_NVLINK_MAX_LINKS`.
pub(super) const MAX_LINKS: c_uint = 18;
/// Devices at either end of an NVLink.
pub(super) const LINK_TO_SWITCH: c_int = 2;

/// `nvmlGpuTopologyLevel_t`.
pub(super) mod topology {
    use std::ffi::c_int;

    pub(in crate::nvml) const INTERNAL: c_int = 0;
    pub(in crate::nvml) const NODE: c_int = 40;
    pub(in crate::nvml) const SYSTEM: c_int = 50;
}

/// `nvmlGpuP2PStatus_t`.
pub(super) mod peer {
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
const _: () = assert!(size_of::<FieldValue>() == 40);
