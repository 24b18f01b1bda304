//! Structures at NCCL's C boundary, as laid out in NVIDIA's nccl.h (checked against 2.27 and 2.30; a shorter config is a prefix
//! of a longer one).

use std::ffi::{c_char, c_float, c_int, c_uint};

/// `ncclUniqueId`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId(pub(crate) [u8; 128]);

/// `ncclConfig_t` of NCCL 2.30. That of 2.27 ends after `nvls_ctas`; newer ones are longer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) size: usize,
    pub(crate) magic: c_uint,
    pub(crate) version: c_uint,
    pub(crate) blocking: c_int,
    pub(crate) cga_cluster_size: c_int,
    pub(crate) min_ctas: c_int,
    pub(crate) max_ctas: c_int,
    pub(crate) net_name: *const c_char,
    pub(crate) split_share: c_int,
    pub(crate) traffic_class: c_int,
    pub(crate) comm_name: *const c_char,
    pub(crate) collnet_enable: c_int,
    pub(crate) cta_policy: c_int,
    pub(crate) shrink_share: c_int,
    pub(crate) nvls_ctas: c_int,
    pub(crate) channels_per_net_peer: c_int,
    pub(crate) nvlink_centric_sched: c_int,
    pub(crate) graph_usage_mode: c_int,
    pub(crate) num_rma_ctx: c_int,
    pub(crate) max_p2p_peers: c_int,
    pub(crate) graph_stream_ordering: c_int,
}

/// `NCCL_API_MAGIC`.
pub(crate) const CONFIG_MAGIC: c_uint = 0xcafe_beef;
/// `NCCL_CONFIG_UNDEF_INT`.
pub(crate) const CONFIG_UNDEFINED: c_int = c_int::MIN;
/// `NCCL_SPLIT_NOCOLOR`.
pub(crate) const NO_COLOR: c_int = -1;
/// `NCCL_SHRINK_ABORT`.
pub(crate) const SHRINK_ABORT: c_int = 1;
/// `NCCL_REVOKE_DEFAULT`.
pub(crate) const REVOKE_DEFAULT: c_int = 0;
/// `NCCL_SUSPEND_MEM`.
pub(crate) const SUSPEND_MEMORY: c_int = 1;

/// `ncclSimInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SimulationInfo {
    pub(crate) size: usize,
    pub(crate) magic: c_uint,
    pub(crate) version: c_uint,
    pub(crate) estimated_time: c_float,
}

/// `ncclWaitSignalDesc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SignalWait {
    /// Number of signals to wait for.
    pub(crate) count: c_int,
    /// The rank that sends them.
    pub(crate) peer: c_int,
    pub(crate) signal: c_int,
    pub(crate) context: c_int,
}

/// `NCCL_UNDEF_FLOAT`.
pub(crate) const UNDEFINED_TIME: c_float = -1.0;

/// Version reported to CUDA 12 programs: NCCL 2.27.5, which PyTorch 2.9 is built with.
pub(crate) const VERSION_TWELVE: c_int = 22705;
/// Version reported to all others: NCCL 2.30.7, which PyTorch 2.15 is built with.
pub(crate) const VERSION_NEWEST: c_int = 23007;

const _: () = assert!(size_of::<UniqueId>() == 128 && align_of::<UniqueId>() == 1);
const _: () = assert!(std::mem::offset_of!(Config, blocking) == 16 && std::mem::offset_of!(Config, magic) == 8);
const _: () = assert!(std::mem::offset_of!(Config, channels_per_net_peer) == 72 && size_of::<Config>() == 96);
const _: () = assert!(std::mem::offset_of!(SimulationInfo, estimated_time) == 16);
