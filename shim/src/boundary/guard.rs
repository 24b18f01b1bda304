//! The guard around every call from C: settings are read once, forked children refused, panics caught; libraries can add
//! to that.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{gap, library::Library};
use crate::process::fork;
use crate::report::finding;
use crate::settings;

/// What a library adds to the guard around its calls.
pub(crate) struct Rules {
    /// The library whose calls it guards.
    pub(crate) library: Library,
    /// Runs first; an error becomes the call's result.
    pub(crate) arrive: fn() -> Result<(), u32>,
    /// Whether the function with this name may run now, provided CUDA can be used at all.
    pub(crate) admit: fn(&str) -> Result<(), u32>,
    /// May replace the result of a successful call with an error of the device that it worked on.
    pub(crate) settle: fn() -> Result<(), u32>,
    /// Gets every code other than success.
    pub(crate) failed: fn(u32),
    /// Whether calls to features that the GPU lacks already return NotSupported.
    pub(crate) is_initialized: fn() -> bool,
}

impl Rules {
    /// Nothing but the guard.
    pub(crate) const fn for_library(library: Library) -> Self {
        Self {
            library,
            arrive: || Ok(()),
            admit: |_| Ok(()),
            settle: || Ok(()),
            failed: |_| (),
            is_initialized: || true,
        }
    }
}

/// A call that needs CUDA. Returns its status to C.
pub(crate) fn call<E: Into<u32>>(
    rules: &Rules,
    name: &'static str,
    body: impl FnOnce() -> Result<(), E>,
) -> core::ffi::c_uint {
    let library = rules.library;
    if let Err(code) = (rules.arrive)() {
        return finish(rules, code);
    }
    let is_lost = library.is_lost_by_fork() && !fork::enter();
    let code = if is_lost || settings::get().is_err() {
        library.not_initialized()
    } else {
        match (rules.admit)(name).map_or_else(|code| code, |()| run(library, name, body)) {
            0 => (rules.settle)().err().unwrap_or(0),
            code => code,
        }
    };
    finish(rules, code)
}

/// `cudaErrorNotPermitted`, `CUDA_ERROR_NOT_PERMITTED`
const NOT_PERMITTED: u32 = 800;

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Runs a program's host function. It must not call CUDA, because it would wait for the stream that waits for it.
pub(crate) fn host_function(body: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    body();
    IN_HOST_FUNCTION.set(false);
}

/// Whether the caller is a host function. Here it may run on a thread of the program; on hardware it runs on one of the
/// driver's.
pub(crate) fn is_in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

/// Refuses a call from a host function.
///
/// # Errors
/// CUDA's code for "not permitted".
pub(crate) fn outside_host_function() -> Result<(), u32> {
    if is_in_host_function() { Err(NOT_PERMITTED) } else { Ok(()) }
}

/// A call that works before and without initialization, and in a forked child.
pub(crate) fn bare<E: Into<u32>>(
    rules: &Rules,
    name: &'static str,
    body: impl FnOnce() -> Result<(), E>,
) -> core::ffi::c_uint {
    finish(rules, run(rules.library, name, body))
}

/// A call that returns no status. Does not initialize anything.
pub(crate) fn raw<T: Nothing>(rules: &Rules, name: &'static str, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        gap::panicked(rules.library, name);
        T::nothing()
    })
}

/// A symbol for a feature that the GPU does not have: the library's NotSupported, and no gap.
pub(crate) fn absent(rules: &Rules) -> u64 {
    let library = rules.library;
    if !(rules.is_initialized)() {
        return u64::from(library.not_initialized());
    }
    u64::from(finish(rules, library.not_supported()))
}

/// A symbol that is not implemented yet: a gap, and the library's NotSupported.
pub(crate) fn stub(rules: &Rules, name: &'static str) -> u64 {
    let _ = catch_unwind(|| gap::record(rules.library, name, ""));
    u64::from(finish(rules, rules.library.not_supported()))
}

/// A symbol that is refused on purpose: the library's NotSupported, and a gap, because a program that needs it was not
/// tested.
pub(crate) fn refused(rules: &Rules, name: &'static str) -> u64 {
    stub(rules, name)
}

fn run<E: Into<u32>>(library: Library, name: &'static str, body: impl FnOnce() -> Result<(), E>) -> u32 {
    match finding::during(name, || catch_unwind(AssertUnwindSafe(body))) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.into(),
        Err(_) => {
            gap::panicked(library, name);
            library.internal()
        }
    }
}

fn finish(rules: &Rules, code: u32) -> u32 {
    if code != 0 {
        (rules.failed)(code);
    }
    code
}

/// What a call without a status returns if it failed internally.
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
