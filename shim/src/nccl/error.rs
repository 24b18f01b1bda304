//! The error of a call of NCCL: its code, and the text of `ncclGetLastError`.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::ManuallyDrop;

use abi::argument::Null;
use abi::cuda::CudaError;
use abi::nccl;
use dataplane::Failure;
use dataplane::lock::Mutex;

use super::log;
use crate::device;

/// An `ncclResult_t` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NcclError(pub(crate) u32);

/// The result of a body.
pub(crate) type NcclResult<T = ()> = Result<T, NcclError>;

impl NcclError {
    pub(crate) const UNHANDLED_CUDA_ERROR: Self = Self(nccl::UNHANDLED_CUDA_ERROR);
    pub(crate) const SYSTEM: Self = Self(nccl::SYSTEM);
    pub(crate) const INTERNAL: Self = Self(nccl::INTERNAL);
    pub(crate) const INVALID_ARGUMENT: Self = Self(nccl::INVALID_ARGUMENT);
    pub(crate) const INVALID_USAGE: Self = Self(nccl::INVALID_USAGE);
    pub(crate) const IN_PROGRESS: Self = Self(nccl::IN_PROGRESS);

    /// This code, with a sentence for `ncclGetLastError`.
    pub(crate) fn because(self, detail: impl Into<String>) -> Self {
        note(detail.into());
        self
    }
}

impl From<NcclError> for u32 {
    fn from(error: NcclError) -> Self {
        error.0
    }
}

impl From<Null> for NcclError {
    fn from(_: Null) -> Self {
        Self::INVALID_ARGUMENT.because("an argument is a null pointer")
    }
}

impl From<CudaError> for NcclError {
    fn from(error: CudaError) -> Self {
        Self::UNHANDLED_CUDA_ERROR.because(format!("CUDA error {}", error.0))
    }
}

impl From<&Failure> for NcclError {
    fn from(failure: &Failure) -> Self {
        Self(nccl::result(failure.code)).because(failure.detail.clone())
    }
}

impl From<Failure> for NcclError {
    fn from(failure: Failure) -> Self {
        Self::from(&failure)
    }
}

static LAST: Mutex<String> = Mutex::new(String::new());

thread_local! {
    /// Keeps the text alive that was last returned to the thread.
    static GIVEN: RefCell<ManuallyDrop<CString>> = RefCell::default();
}

/// Stores the message of the process's last error.
pub(crate) fn note(detail: String) {
    log::warn(device::current().map_or(0, |device| device.ordinal), &detail);
    *LAST.lock() = detail;
}

/// The message of the process's last error.
pub(super) fn last_text() -> String {
    LAST.lock().clone()
}

/// The last error of any thread, as returned by `ncclGetLastError`; valid until the thread asks again.
pub(crate) fn last() -> *const c_char {
    let text = CString::new(last_text().replace('\0', " ")).unwrap_or_default();
    GIVEN.with_borrow_mut(|given| {
        // What it held is freed; the slot itself never is, for exit handlers that still ask.
        drop(ManuallyDrop::into_inner(std::mem::replace(given, ManuallyDrop::new(text))));
        given.as_ptr()
    })
}

/// Body of `ncclGetErrorString`.
pub(crate) fn text(result: u32) -> *const c_char {
    let text = match result {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        8 => c"NCCL operation timed out",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use protocol::record::ErrorCode;

    use super::*;

    #[test]
    fn a_failure_leaves_its_sentence() {
        let _ = NcclError::from(Failure::new(ErrorCode::RankLost, "rank 2 is gone"));
        // SAFETY: the text ends with NUL and lives until this thread asks again.
        assert_eq!(unsafe { CStr::from_ptr(last()) }.to_str(), Ok("rank 2 is gone"));
    }
}
