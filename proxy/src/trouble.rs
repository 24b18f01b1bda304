//! Failures here, as opposed to in the real NCCL: a code, and the sentence that `ncclGetLastError` returns.

use std::ffi::CString;
use std::io::Write;

use dataplane::Failure;
use dataplane::lock::Mutex;
use protocol::record::ErrorCode;

/// `ncclSuccess`.
pub(crate) const SUCCESS: u32 = 0;
/// `ncclSystemError`.
pub(crate) const SYSTEM: u32 = 2;
/// `ncclInternalError`.
pub(crate) const INTERNAL: u32 = 3;
/// `ncclInvalidArgument`.
pub(crate) const INVALID_ARGUMENT: u32 = 4;
/// `ncclInvalidUsage`.
pub(crate) const INVALID_USAGE: u32 = 5;
/// `ncclRemoteError`.
pub(crate) const REMOTE: u32 = 6;
/// `ncclInProgress`.
pub(crate) const IN_PROGRESS: u32 = 7;

/// Our last sentence; empty once the real library has returned an error of its own.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Prints what the program may never ask for, in one piece, because other ranks write to the same stream.
pub(crate) fn report(detail: &str) {
    let _ = std::io::stderr().write_all(format!("fakegpu: NCCL (proxy): {detail}\n").as_bytes());
}

/// Keeps `detail` for `ncclGetLastError` and prints it. Returns `code`.
pub(crate) fn refuse(code: u32, detail: &str) -> u32 {
    report(detail);
    *LAST.lock() = detail.to_owned();
    code
}

/// The code of a failure in the books; keeps its sentence.
pub(crate) fn keep(failure: &Failure) -> u32 {
    *LAST.lock() = failure.detail.clone();
    code(failure.code)
}

/// The result code for a kind of failure, the same as in the simulated NCCL.
fn code(code: ErrorCode) -> u32 {
    match code {
        ErrorCode::InvalidArgument => INVALID_ARGUMENT,
        ErrorCode::DuplicateRank
        | ErrorCode::WorldSizeMismatch
        | ErrorCode::CollectiveTypeMismatch
        | ErrorCode::DtypeMismatch
        | ErrorCode::CountMismatch
        | ErrorCode::ReduceOpMismatch
        | ErrorCode::RootMismatch
        | ErrorCode::ShrinkExcludedRanksMismatch
        | ErrorCode::SharedDevice
        | ErrorCode::UnknownCommunicator => INVALID_USAGE,
        ErrorCode::TimeoutWaitingForRanks
        | ErrorCode::TimeoutWaitingForCollective
        | ErrorCode::TimeoutWaitingForP2p
        | ErrorCode::TimeoutWaitingForShrink
        | ErrorCode::System => SYSTEM,
        ErrorCode::TimeoutWaitingForSplit => INTERNAL,
        ErrorCode::RankLost
        | ErrorCode::Unreachable
        | ErrorCode::Aborted
        | ErrorCode::Revoked
        | ErrorCode::InjectedRankFailure => REMOTE,
    }
}

/// The real library's result. After an error, its own sentence is the last one.
///
/// # Errors
/// Any code except success and in progress.
pub(crate) fn theirs(code: u32) -> Result<u32, u32> {
    if code == SUCCESS || code == IN_PROGRESS {
        return Ok(code);
    }
    LAST.lock().clear();
    Err(code)
}

/// Our last sentence, if nothing has failed in the real library since. It is never freed, because programs keep the pointer.
pub(crate) fn last() -> Option<&'static std::ffi::CStr> {
    let text = LAST.lock().clone();
    (!text.is_empty())
        .then(|| &*Box::leak(CString::new(text.replace('\0', " ")).unwrap_or_default().into_boxed_c_str()))
}
