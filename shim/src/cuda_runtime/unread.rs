//! Errors of launches written `<<<...>>>` that nobody has read. The compiler drops the code that such a launch returns, so only
//! `cudaGetLastError` and `cudaPeekAtLastError` tell the program.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;

use crate::call_site::{self, cpp_name};
use crate::device::kernel::Kernel;
use crate::device::state::error_names;
use crate::process::at_exit::at_exit;
use crate::report::finding;

/// What is wrong with the launch itself, which no other call returns. A device that has failed returns its error from every call,
/// and what ftest does not execute is a gap.
const OF_THE_LAUNCH: &[CudaError] = &[
    CudaError::INVALID_VALUE,
    CudaError::INVALID_CONFIGURATION,
    CudaError::INVALID_DEVICE_FUNCTION,
    CudaError::INVALID_HANDLE,
    CudaError::LAUNCH_OUT_OF_RESOURCES,
];

struct Failed {
    thread: u64,
    error: CudaError,
    kernel: String,
    site: SiteId,
}

static FAILED: Mutex<Vec<Failed>> = Mutex::new(Vec::new());
/// The length of the list: nearly always 0, which costs a reader nothing.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread has taken a launch's configuration from the stack and not launched yet, as only compiled code does.
    static IS_CONFIGURED: Cell<bool> = const { Cell::new(false) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number that no other thread has.
fn thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(1 + LAST.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}

/// Called when compiled code takes the configuration of a launch.
pub(super) fn configured() {
    IS_CONFIGURED.set(true);
}

/// Called after the launch of the kernel behind the host function `function`, with its result.
pub(super) fn launched(function: usize, result: CudaResult) -> CudaResult {
    let is_compiled = IS_CONFIGURED.replace(false);
    if let Err(error) = result
        && is_compiled
        && OF_THE_LAUNCH.contains(&error)
    {
        failed(function, error);
    }
    result
}

#[cold]
fn failed(function: usize, error: CudaError) {
    let kernel = Kernel::find(function).map(|kernel| cpp_name::of_kernel(&kernel.name().to_string_lossy()));
    let kernel = kernel.map_or_else(|| "an unknown kernel".to_owned(), |name| format!("the kernel {name}"));
    let site = call_site::of_mistake().unwrap_or_default();
    let mut failed = FAILED.lock();
    at_exit(judge);
    failed.push(Failed { thread: thread(), error, kernel, site });
    COUNT.store(failed.len(), Ordering::Relaxed);
}

/// Called when the program reads the last error of this thread.
pub(super) fn read() {
    if COUNT.load(Ordering::Relaxed) > 0 {
        let mut failed = FAILED.lock();
        let thread = thread();
        failed.retain(|failed| failed.thread != thread);
        COUNT.store(failed.len(), Ordering::Relaxed);
    }
}

/// Who ends with an error has noticed something.
fn judge(status: i32) {
    if status != 0 {
        return;
    }
    for Failed { error, kernel, site, .. } in FAILED.lock().drain(..) {
        // SAFETY: a constant.
        let name = unsafe { CStr::from_ptr(error_names::name(error.0)) }.to_string_lossy();
        let sentence = format!("{kernel} is not launched ({name}), and the program never reads the error");
        finding::record_at(FindingKind::IgnoredError, "cudaLaunchKernel", sentence, site);
    }
}
