//! What crosses NCCL's C boundary, as NVIDIA's nccl.h lays it out (checked against 2.27 and 2.30; both agree on these parts).

use std::ffi::{c_float, c_int, c_uint};

/// `ncclUniqueId`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId(pub(crate) [u8; 128]);

/// The head of `ncclConfig_t`; what follows differs between versions and changes nothing here.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) size: usize,
    pub(crate) magic: c_uint,
    pub(crate) version: c_uint,
    pub(crate) blocking: c_int,
}

/// `NCCL_API_MAGIC`.
pub(crate) const CONFIG_MAGIC: c_uint = 0xcafe_beef;
/// `NCCL_CONFIG_UNDEF_INT`.
pub(crate) const CONFIG_UNDEFINED: c_int = c_int::MIN;
/// `NCCL_SPLIT_NOCOLOR`.
pub(crate) const NO_COLOR: c_int = -1;

/// `ncclSimInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SimulationInfo {
    pub(crate) size: usize,
    pub(crate) magic: c_uint,
    pub(crate) version: c_uint,
    pub(crate) estimated_time: c_float,
}

/// `NCCL_UNDEF_FLOAT`.
pub(crate) const UNDEFINED_TIME: c_float = -1.0;

/// Version told to programs of CUDA 12 builds: NCCL 2.27.5, as PyTorch 2.9 is built with.
pub(crate) const VERSION_TWELVE: c_int = 22705;
/// Version told to all others: NCCL 2.30.7, as PyTorch 2.15 is built with.
pub(crate) const VERSION_NEWEST: c_int = 23007;

const _: () = assert!(size_of::<UniqueId>() == 128 && align_of::<UniqueId>() == 1);
const _: () = assert!(std::mem::offset_of!(Config, blocking) == 16 && std::mem::offset_of!(Config, magic) == 8);
const _: () = assert!(std::mem::offset_of!(SimulationInfo, estimated_time) == 16);
