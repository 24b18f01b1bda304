//! Devices that failed: from the first error on, every call on such a device returns it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use abi::cuda::{CudaError, CudaResult};

use super::device::{Device, current};
use super::health;

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

    /// [`Device::fail`] when the host synchronizes next, as for work that failed while nobody looked.
    pub(crate) fn fail_later(&self, error: CudaError) {
        let _ = self.failure_to_come.compare_exchange(0, error.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether it fails when the host synchronizes.
    pub(crate) fn fails_later(&self) -> bool {
        self.failure_to_come.load(Ordering::Acquire) != 0
    }

    /// The host synchronized with the device's work: what kernels wrote appears, and their errors.
    pub(crate) fn synchronized(&self) {
        self.output.flush();
        match self.failure_to_come.load(Ordering::Acquire) {
            0 => {}
            code => self.fail(CudaError(code)),
        }
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
