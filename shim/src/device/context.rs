//! Contexts: a device's primary one, the peers it may reach, its limits.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Device;
use super::error::{CudaError, CudaResult};

/// Number of `cudaLimit` values.
pub(crate) const LIMITS: usize = 8;

/// What CUDA answers before a program sets a limit: stack, printf buffer, malloc heap, sync depth, pending launches,
/// L2 fetch granularity, persisting L2, (unused). Defaults of the CUDA C++ Programming Guide.
pub(crate) fn default_limits() -> [AtomicUsize; LIMITS] {
    [1024, 7_340_032, 8_388_608, 2, 2048, 128, 0, 0].map(AtomicUsize::new)
}

/// A device's primary context.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    active: AtomicBool,
    retained: AtomicU32,
}

impl Primary {
    /// True once it exists.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire) || self.retained.load(Ordering::Acquire) > 0
    }

    /// The runtime makes it at its first need and keeps it.
    pub(crate) fn activate(&self) {
        if !self.active.load(Ordering::Relaxed) {
            self.active.store(true, Ordering::Release);
        }
    }

    /// One more user.
    pub(crate) fn retain(&self) {
        self.retained.fetch_add(1, Ordering::AcqRel);
    }

    /// One user less.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` when nobody retains it.
    pub(crate) fn release(&self) -> CudaResult {
        let less = self.retained.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
        less.map(drop).map_err(|_| CudaError::INVALID_CONTEXT)
    }

    /// As after `cudaDeviceReset`.
    pub(crate) fn reset(&self) {
        self.active.store(false, Ordering::Release);
    }
}

/// The peers whose memory a device may reach.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<BTreeSet<u32>>);

impl Peers {
    /// Lets the device reach `peer`.
    ///
    /// # Errors
    /// `INVALID_DEVICE` for the device itself, `PEER_ACCESS_ALREADY_ENABLED`, `PEER_ACCESS_UNSUPPORTED`.
    pub(crate) fn enable(&self, device: &Device, peer: &Device) -> CudaResult {
        if device.ordinal == peer.ordinal {
            return Err(CudaError::INVALID_DEVICE);
        }
        if !can_reach(device, peer) {
            return Err(CudaError::PEER_ACCESS_UNSUPPORTED);
        }
        let added = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(peer.ordinal);
        if added { Ok(()) } else { Err(CudaError::PEER_ACCESS_ALREADY_ENABLED) }
    }

    /// The opposite.
    ///
    /// # Errors
    /// `PEER_ACCESS_NOT_ENABLED`.
    pub(crate) fn disable(&self, peer: &Device) -> CudaResult {
        let removed = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer.ordinal);
        if removed { Ok(()) } else { Err(CudaError::PEER_ACCESS_NOT_ENABLED) }
    }
}

/// True where one device can read another's memory: two devices of one node.
pub(crate) fn can_reach(device: &Device, peer: &Device) -> bool {
    device.ordinal != peer.ordinal && device.gpu.node == peer.gpu.node
}
