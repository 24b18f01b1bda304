//! Counters for each device.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use dataplane::lock::Mutex;

use crate::settings::visible;

/// Maximum number of kernel names counted separately; further ones are counted as `_other_`.
const KERNEL_NAMES: usize = 10_000;

/// Calls and bytes of one kind.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    /// One more call.
    pub(crate) fn add(&self, bytes: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// (calls, bytes).
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Bytes copied from host memory to host memory by CUDA calls.
pub(crate) static HOST_COPIES: Tally = Tally { calls: AtomicU64::new(0), bytes: AtomicU64::new(0) };

/// Bytes held: current and peak.
#[derive(Debug, Default)]
pub(crate) struct Held {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Held {
    /// Takes `bytes` more.
    pub(crate) fn take(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    /// Gives `bytes` back.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// (now, peak).
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.now.load(Ordering::Relaxed), self.peak.load(Ordering::Relaxed))
    }
}

/// One device's counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) allocations: Tally,
    /// Memory, as requested by the program.
    pub(crate) held: Held,
    pub(crate) frees: Tally,
    /// Allocations that failed for lack of memory.
    pub(crate) refused: Tally,
    /// Peak of pages in use, bytes.
    pub(crate) most_pages: AtomicU64,
    pub(crate) host_to_device: Tally,
    pub(crate) device_to_host: Tally,
    pub(crate) device_to_device: Tally,
    pub(crate) peer_sent: Tally,
    pub(crate) peer_received: Tally,
    pub(crate) memset: Tally,
    kernels: Mutex<BTreeMap<String, u64>>,
}

/// The counters of every device that this process sees, by ordinal.
pub(crate) fn all() -> &'static [Counters] {
    static COUNTERS: OnceLock<Vec<Counters>> = OnceLock::new();
    COUNTERS.get_or_init(|| visible::gpus().iter().map(|_| Counters::default()).collect())
}

impl Counters {
    /// Counts a launch of the kernel `name`.
    pub(crate) fn launched(&self, name: &str) {
        let mut kernels = self.kernels.lock();
        if let Some(count) = kernels.get_mut(name) {
            *count += 1;
        } else {
            let name = if kernels.len() < KERNEL_NAMES { name } else { "_other_" };
            *kernels.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Launches by kernel name.
    pub(crate) fn kernels(&self) -> BTreeMap<String, u64> {
        self.kernels.lock().clone()
    }
}
