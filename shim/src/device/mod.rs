//! The state of one GPU inside a process: memory, streams, events, contexts, counters. Shared by runtime, driver and
//! NCCL.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use abi::cuda::{CudaError, CudaResult};
use protocol::device_report::Left;

use crate::report::{self, counters::Counters};
use crate::settings::visible::{self, Visible};
use protocol::gpu::Gpu;

pub(crate) mod address;
pub(crate) mod allocator;
pub(crate) mod array;
pub(crate) mod attribute;
pub(crate) mod calls;
mod children;
pub(crate) mod context;
pub(crate) mod copy;
pub(crate) mod energy;
pub(crate) mod event;
mod freed;
pub(crate) mod fresh;
pub(crate) mod graph;
mod grid;
pub(crate) mod health;
pub(crate) mod image;
pub(crate) mod ipc;
pub(crate) mod kernel;
pub(crate) mod launch;
pub(crate) mod mapping;
pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod mipmap;
pub(crate) mod misuse;
pub(crate) mod neighbors;
pub(crate) mod occupancy;
pub(crate) mod output;
pub(crate) mod pool;
pub(crate) mod program;
pub(crate) mod running;
pub(crate) mod stream;
pub(crate) mod submit;
pub(crate) mod symbol;
pub(crate) mod texture;
pub(crate) mod version;
pub(crate) mod view;

/// One GPU as CUDA shows it to this process.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its index for CUDA, after `CUDA_VISIBLE_DEVICES`.
    pub(crate) ordinal: u32,
    /// What it is.
    pub(crate) gpu: &'static Gpu,
    /// Its memory.
    pub(crate) memory: memory::DeviceMemory,
    /// The part visible to the machine's other processes.
    pub(crate) share: neighbors::Share,
    /// Its streams.
    pub(crate) streams: stream::Streams,
    /// What kernels print.
    pub(crate) output: output::Output,
    /// What kernels allocated.
    heap: grid::Heap,
    /// The error of every call on it from now on, or 0; see [`Device::fail`].
    failure: AtomicU32,
    /// Since when this process observes its health.
    health: health::Watch,
    /// Counters of its use.
    pub(crate) counters: &'static Counters,
    /// Times its primary context is retained by the driver API, plus one once the runtime has made it.
    pub(crate) primary: context::Primary,
    /// Devices whose memory this one may access; a set, because bits would not hold 1024 of them.
    pub(crate) peers: context::Peers,
    /// `cudaDeviceScheduleAuto` and friends.
    pub(crate) flags: AtomicU32,
    /// `cudaFuncCachePrefer*`.
    pub(crate) cache_config: AtomicU32,
    /// `cudaLimit*` values, by limit.
    pub(crate) limits: [AtomicUsize; context::LIMITS],
}

/// The devices that this process sees, in order.
pub(crate) fn all() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        report::left::count_with(count_left);
        let device = |(ordinal, visible): (usize, &Visible)| Device {
            ordinal: ordinal as u32,
            gpu: visible.gpu,
            memory: memory::DeviceMemory::new(visible.gpu.profile.memory.bytes),
            share: neighbors::Share::default(),
            streams: stream::Streams::default(),
            output: output::Output::default(),
            heap: grid::Heap::default(),
            failure: AtomicU32::new(0),
            health: health::Watch::default(),
            counters: &report::counters::all()[ordinal],
            primary: context::Primary::default(),
            peers: context::Peers::default(),
            flags: AtomicU32::new(0),
            cache_config: AtomicU32::new(0),
            limits: context::default_limits(),
        };
        visible::gpus().iter().enumerate().map(device).collect()
    })
}

fn count_left(left: &mut Left) {
    for device in all() {
        let (allocations, bytes) = device.memory.allocated();
        left.allocations += allocations;
        left.bytes += bytes;
    }
    let (pinned, pinned_bytes) = memory::allocated_on_host();
    (left.pinned, left.pinned_bytes) = (left.pinned + pinned, left.pinned_bytes + pinned_bytes);
    left.streams += stream::count() as u64;
    left.events += event::count() as u64;
}

/// Whether some device failed; calls check this first.
static ANY_FAILED: AtomicBool = AtomicBool::new(false);

impl Device {
    /// From now on, every call on the device returns `error`, permanently in this process, as CUDA documents for kernel errors:
    /// "this leaves the process in an inconsistent state and any further CUDA work will return the same error".
    pub(crate) fn fail(&self, error: CudaError) {
        // The first error stays.
        let _ = self.failure.compare_exchange(0, error.0, Ordering::AcqRel, Ordering::Relaxed);
        ANY_FAILED.store(true, Ordering::Release);
    }

    /// [`Device::fail`] if the case made the GPU fail and this process has a context on it.
    pub(crate) fn suffer(&self) {
        if self.primary.is_active()
            && let Some(error) = self.health.error(self.gpu)
        {
            self.fail(error);
        }
    }

    /// [`Self::suffer`], and [`Self::alive`] if the case has GPU events.
    ///
    /// # Errors
    /// The device's failure.
    pub(crate) fn healthy(&self) -> CudaResult {
        if !health::is_watched() {
            return Ok(());
        }
        self.suffer();
        self.alive()
    }

    /// [`Device::fail`] for a kernel that never ended.
    pub(crate) fn lose(&self) {
        self.fail(CudaError::LAUNCH_TIMEOUT);
    }

    /// # Errors
    /// The device's failure.
    pub(crate) fn alive(&self) -> CudaResult {
        match self.failure.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(CudaError(code)),
        }
    }
}

thread_local! {
    static ANSWERS_BEFORE: Cell<bool> = const { Cell::new(false) };
}

/// The current call only issued work: a later call reports that it failed.
pub(crate) fn answer_before_failure() {
    ANSWERS_BEFORE.set(true);
}

/// Whether the calling thread's device still works; checked at the end of every successful call of libcuda and
/// libcudart.
///
/// # Errors
/// As [`Device::alive`].
pub(crate) fn current_alive() -> Result<(), u32> {
    if ANSWERS_BEFORE.replace(false) {
        return Ok(());
    }
    if health::is_watched() {
        current().map_err(u32::from)?.suffer();
    }
    if !ANY_FAILED.load(Ordering::Acquire) {
        return Ok(());
    }
    current().and_then(Device::alive).map_err(u32::from)
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

/// The device's memory file; created at first use.
///
/// # Errors
/// `OPERATING_SYSTEM` if it cannot be created (reported on stderr).
pub(crate) fn arena_of(device: &'static Device) -> CudaResult<&'static dataplane::arena::Arena> {
    device.memory.arena(device)
}
