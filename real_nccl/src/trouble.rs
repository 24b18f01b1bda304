//! Failures here, as opposed to in the real NCCL: a code, and the sentence that `ncclGetLastError` returns.

use std::ffi::CString;
use std::io::Write;

use abi::nccl;
use dataplane::Failure;
use dataplane::lock::Mutex;

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
    nccl::result(failure.code)
}

/// The real library's result. After an error, its own sentence is the last one.
///
/// # Errors
/// Any code except success and in progress.
pub(crate) fn theirs(code: u32) -> Result<u32, u32> {
    if code == nccl::SUCCESS || code == nccl::IN_PROGRESS {
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
