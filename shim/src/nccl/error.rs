//! NCCL's result codes, the mapping of our failures to them, and the text of `ncclGetLastError`.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::ManuallyDrop;

use dataplane::Failure;
use dataplane::lock::Mutex;
use protocol::record::ErrorCode;

use super::log;
use crate::boundary::args::Null;
use crate::device::{self, error::CudaError};

/// An `ncclResult_t` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NcclError(pub(crate) u32);

/// The result of a body.
pub(crate) type NcclResult<T = ()> = Result<T, NcclError>;

impl NcclError {
    pub(crate) const UNHANDLED_CUDA_ERROR: Self = Self(1);
    pub(crate) const SYSTEM: Self = Self(2);
    pub(crate) const INTERNAL: Self = Self(3);
    pub(crate) const INVALID_ARGUMENT: Self = Self(4);
    pub(crate) const INVALID_USAGE: Self = Self(5);
    pub(crate) const REMOTE: Self = Self(6);
    pub(crate) const IN_PROGRESS: Self = Self(7);

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
        code(failure.code).because(failure.detail.clone())
    }
}

impl From<Failure> for NcclError {
    fn from(failure: Failure) -> Self {
        Self::from(&failure)
    }
}

/// The result code of a kind of failure.
pub(crate) fn code(code: ErrorCode) -> NcclError {
    match code {
        ErrorCode::InvalidArgument => NcclError::INVALID_ARGUMENT,
        ErrorCode::DuplicateRank
        | ErrorCode::WorldSizeMismatch
        | ErrorCode::CollectiveTypeMismatch
        | ErrorCode::DtypeMismatch
        | ErrorCode::CountMismatch
        | ErrorCode::ReduceOpMismatch
        | ErrorCode::RootMismatch
        | ErrorCode::ShrinkExcludedRanksMismatch
        | ErrorCode::SharedDevice
        | ErrorCode::UnknownCommunicator => NcclError::INVALID_USAGE,
        ErrorCode::TimeoutWaitingForRanks
        | ErrorCode::TimeoutWaitingForCollective
        | ErrorCode::TimeoutWaitingForP2p
        | ErrorCode::TimeoutWaitingForShrink
        | ErrorCode::System => NcclError::SYSTEM,
        ErrorCode::TimeoutWaitingForSplit => NcclError::INTERNAL,
        ErrorCode::RankLost
        | ErrorCode::Unreachable
        | ErrorCode::Aborted
        | ErrorCode::Revoked
        | ErrorCode::InjectedRankFailure => NcclError::REMOTE,
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

    use super::*;

    #[test]
    fn failures_get_the_documented_codes_and_leave_their_sentence() {
        for (kind, expected) in [
            (ErrorCode::InvalidArgument, 4),
            (ErrorCode::CountMismatch, 5),
            (ErrorCode::TimeoutWaitingForCollective, 2),
            (ErrorCode::RankLost, 6),
            (ErrorCode::Unreachable, 6),
            (ErrorCode::InjectedRankFailure, 6),
        ] {
            assert_eq!(code(kind).0, expected);
        }
        let _ = NcclError::from(Failure::new(ErrorCode::RankLost, "rank 2 is gone"));
        // SAFETY: the text ends with NUL and lives until this thread asks again.
        assert_eq!(unsafe { CStr::from_ptr(last()) }.to_str(), Ok("rank 2 is gone"));
    }
}
