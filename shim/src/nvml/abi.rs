//! NVML's structures and enumerations as C lays them out (nvml.h of CUDA 12.9).

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

/// The same before the long bus id was added: versions 1 and 2.
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
    /// 1 text, 2 the 16 bytes.
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
    /// Zeroed, as bindings read the state as a wider number.
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
    /// Zeroed, as bindings read the state as a wider number.
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
const _: () = assert!(size_of::<FieldValue>() == 40);
