//! Around every call from C: settings read once, a forked child refused, panics caught, the runtime's last error kept.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::boundary::gap;
use crate::boundary::library::Library;
use crate::device::version;
use crate::process::fork;
use crate::{compute, nvml, settings};

/// A call that initialises CUDA if need be. Its status is what C gets.
pub(crate) fn call<E: Into<u32>>(
    library: Library,
    name: &'static str,
    body: impl FnOnce() -> Result<(), E>,
) -> core::ffi::c_uint {
    if IN_HOST_FUNCTION.get() && matches!(library, Library::CudaRuntime | Library::CudaDriver) {
        return finish(library, NOT_PERMITTED);
    }
    if library == Library::CudaRuntime {
        compute::before_call();
    }
    let is_lost = library.is_lost_by_fork() && !fork::enter();
    let code = if is_lost || settings::get().is_err() || !may_begin(library, name) {
        library.not_initialised()
    } else if library == Library::CudaRuntime && version::is_driver_too_old() {
        INSUFFICIENT_DRIVER
    } else {
        run(library, name, body)
    };
    finish(library, code)
}

/// `cudaErrorInsufficientDriver`
const INSUFFICIENT_DRIVER: u32 = 35;
/// `cudaErrorNotPermitted`
const NOT_PERMITTED: u32 = 800;

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Runs a program's host function, which must not call CUDA (it would wait for the stream that waits for it).
pub(crate) fn host_function(body: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    body();
    IN_HOST_FUNCTION.set(false);
}

/// The driver wants `cuInit` first; the runtime calls it by itself.
fn may_begin(library: Library, name: &str) -> bool {
    match library {
        Library::CudaRuntime => initialised(),
        Library::CudaDriver => return INITIALISED.load(Ordering::Relaxed) || name == "cuInit",
        _ => {}
    }
    true
}

/// From now on the driver's calls are answered.
pub(crate) fn initialised() {
    if !INITIALISED.load(Ordering::Relaxed) {
        INITIALISED.store(true, Ordering::Relaxed);
    }
}

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// A call that works before and without initialisation, and in a forked child.
pub(crate) fn bare<E: Into<u32>>(
    library: Library,
    name: &'static str,
    body: impl FnOnce() -> Result<(), E>,
) -> core::ffi::c_uint {
    finish(library, run(library, name, body))
}

/// A call that returns no status. Does not initialise anything.
pub(crate) fn raw<T: Nothing>(library: Library, name: &'static str, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        gap::panicked(library, name);
        T::nothing()
    })
}

/// A symbol of what the GPU does not have: the library's NotSupported, and no gap.
pub(crate) fn absent(library: Library) -> u64 {
    if library == Library::Nvml && !nvml::is_initialized() {
        return u64::from(library.not_initialised());
    }
    u64::from(finish(library, library.not_supported()))
}

/// A symbol that we owe: a gap, and the library's NotSupported.
pub(crate) fn stub(library: Library, name: &'static str) -> u64 {
    let _ = catch_unwind(|| gap::record(library, name, ""));
    u64::from(finish(library, library.not_supported()))
}

/// A symbol that is refused on purpose: the library's NotSupported, and a gap, since a program that needs it was not tested.
pub(crate) fn refused(library: Library, name: &'static str) -> u64 {
    stub(library, name)
}

fn run<E: Into<u32>>(library: Library, name: &'static str, body: impl FnOnce() -> Result<(), E>) -> u32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.into(),
        Err(_) => {
            gap::panicked(library, name);
            library.internal()
        }
    }
}

fn finish(library: Library, code: u32) -> u32 {
    if code != 0 && library == Library::CudaRuntime {
        crate::cuda_runtime::error::note(code);
    }
    code
}

/// What a call without a status returns when it broke.
pub(crate) trait Nothing {
    /// 0, NULL or nothing.
    fn nothing() -> Self;
}

impl Nothing for () {
    fn nothing() {}
}

impl<T> Nothing for *const T {
    fn nothing() -> Self {
        std::ptr::null()
    }
}

impl<T> Nothing for *mut T {
    fn nothing() -> Self {
        std::ptr::null_mut()
    }
}

macro_rules! zero {
    ($($type:ty)*) => { $(impl Nothing for $type { fn nothing() -> Self { 0 } })* };
}

impl<T> Nothing for Option<T> {
    fn nothing() -> Self {
        None
    }
}

zero!(u8 i8 i32 u32 i64 u64 usize);
