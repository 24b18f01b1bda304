//! The primary context of a device, which the runtime makes and the driver retains.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use abi::cuda::{CudaError, CudaResult};

/// Whether it exists, and for whom.
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

    /// The runtime needs it; whether that is new.
    pub(super) fn activate(&self) -> bool {
        !self.active.load(Ordering::Relaxed) && !self.active.swap(true, Ordering::AcqRel)
    }

    /// One more user; whether it is the first.
    pub(super) fn retain(&self) -> bool {
        self.retained.fetch_add(1, Ordering::AcqRel) == 0
    }

    /// One user less.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` if it is not retained.
    pub(super) fn release(&self) -> CudaResult {
        let less = self.retained.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
        less.map(drop).map_err(|_| CudaError::INVALID_CONTEXT)
    }

    /// The runtime no longer needs it.
    pub(super) fn deactivate(&self) {
        self.active.store(false, Ordering::Release);
    }
}
