//! One GPU inside a process, and which one is the calling thread's. What is done with its memory, its streams and its kernels is in
//! the rooms above, which keep their own state of each device.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use abi::cuda::{CudaError, CudaResult};
use protocol::gpu::Gpu;
use protocol::profile::context_bytes;

use super::health::Watch;
use super::output::Output;
use super::peers::Peers;
use super::primary::Primary;
use super::share::Share;
use crate::report::counters::{self, Counters};
use crate::settings::visible::{self, Visible};

/// Number of `cudaLimit` values.
const LIMITS: usize = 8;

/// CUDA's limits before a program sets any: stack, printf buffer, malloc heap, sync depth, pending launches, L2 fetch
/// granularity, persisting L2, (unused). Defaults of the CUDA C++ Programming Guide.
const DEFAULT_LIMITS: [usize; LIMITS] = [1024, 7_340_032, 8_388_608, 2, 2048, 128, 0, 0];

/// One GPU as CUDA shows it to this process.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its index for CUDA, after `CUDA_VISIBLE_DEVICES`.
    pub(crate) ordinal: u32,
    /// What it is.
    pub(crate) gpu: &'static Gpu,
    /// Pages of its memory that are in use, bytes; read without a lock, even by NVML in a forked child.
    pub(crate) pages: AtomicU64,
    /// The part visible to the machine's other processes.
    pub(crate) share: Share,
    /// What kernels print.
    pub(crate) output: Output,
    /// The error of every call on it from now on, or 0; see [`Device::fail`].
    pub(super) failure: AtomicU32,
    /// The error that it fails with when the host synchronizes, or 0.
    pub(super) failure_to_come: AtomicU32,
    /// Since when this process observes its health.
    pub(super) health: Watch,
    /// Counters of its use.
    pub(crate) counters: &'static Counters,
    /// Times its primary context is retained by the driver API, plus one once the runtime has made it.
    pub(crate) primary: Primary,
    /// Devices whose memory this one may access.
    pub(crate) peers: Peers,
    /// `cudaDeviceScheduleAuto` and friends.
    pub(crate) flags: AtomicU32,
    /// `cudaFuncCachePrefer*`.
    pub(crate) cache_config: AtomicU32,
    /// `cudaLimit*` values, by limit.
    pub(crate) limits: [AtomicUsize; LIMITS],
}

impl Device {
    /// Its memory in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.gpu.profile.memory.bytes
    }

    /// Bytes taken from it by a process that has a context on it; what NVML shows.
    pub(crate) fn taken(&self) -> u64 {
        self.pages.load(Ordering::Relaxed) + context_bytes(self.capacity())
    }
}

/// The devices that this process sees, in order.
pub(crate) fn all() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let device = |(ordinal, visible): (usize, &Visible)| Device {
            ordinal: ordinal as u32,
            gpu: visible.gpu,
            pages: AtomicU64::new(0),
            share: Share::new(visible.gpu),
            output: Output::default(),
            failure: AtomicU32::new(0),
            failure_to_come: AtomicU32::new(0),
            health: Watch::default(),
            counters: &counters::all()[ordinal],
            primary: Primary::default(),
            peers: Peers::default(),
            flags: AtomicU32::new(0),
            cache_config: AtomicU32::new(0),
            limits: DEFAULT_LIMITS.map(AtomicUsize::new),
        };
        visible::gpus().iter().enumerate().map(device).collect()
    })
}

/// The device with this ordinal.
///
/// # Errors
/// `NO_DEVICE` if none is visible, else `INVALID_DEVICE`.
pub(crate) fn get(ordinal: i32) -> CudaResult<&'static Device> {
    let devices = all();
    if devices.is_empty() {
        return Err(CudaError::NO_DEVICE);
    }
    usize::try_from(ordinal).ok().and_then(|ordinal| devices.get(ordinal)).ok_or(CudaError::INVALID_DEVICE)
}

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's device: 0 until it chooses another.
///
/// # Errors
/// `NO_DEVICE` if none is visible.
pub(crate) fn current() -> CudaResult<&'static Device> {
    get(CURRENT.get() as i32)
}

/// Makes `device` the calling thread's.
pub(crate) fn make_current(device: &Device) {
    CURRENT.set(device.ordinal);
}
