//! What the shim's guard does around a call from C: settings are read once, forked children refused, panics counted; libraries can
//! add to that.

use std::cell::Cell;
use std::panic::catch_unwind;

use abi::cuda::CudaError;
use abi::guard::{Guard, Success};
use abi::library::Library;
use abi::table::Status;

use super::{calls, forbidden, gap};
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

impl Guard for Rules {
    /// A call that needs CUDA.
    #[inline]
    fn call<S: Success, E: Into<u32>>(&self, name: &'static str, body: impl FnOnce() -> Result<S, E>) -> u32 {
        let library = self.library;
        if let Err(code) = (self.arrive)() {
            if is_in_host_function() {
                forbidden::in_host_function(name);
            }
            return finish(self, code);
        }
        let is_lost = library.is_lost_by_fork() && !fork::enter();
        if is_lost {
            forbidden::in_forked_child(name);
        }
        // A forked child must not wait for a thread of its parent that was reading them.
        let settings = if is_lost { None } else { settings::get().ok() };
        let Some(settings) = settings else { return finish(self, library.not_initialized()) };
        let code = match (self.admit)(name).map_or_else(|code| code, |()| run(self, name, body)) {
            0 => (self.settle)().err().unwrap_or(0),
            code => code,
        };
        let code = finish(self, code);
        if let Some(byte) = settings.fresh_memory {
            fill_stack(byte);
        }
        code
    }

    /// Works in a forked child, too.
    #[inline]
    fn bare<S: Success, E: Into<u32>>(&self, name: &'static str, body: impl FnOnce() -> Result<S, E>) -> u32 {
        finish(self, run(self, name, body))
    }

    fn panicked(&self, name: &'static str) -> u32 {
        gap::panicked(self.library, name);
        self.library.internal()
    }

    /// Whatever is not absent from the GPU is a gap. So is what is refused on purpose, because a program that needs it was not
    /// tested.
    fn missing(&self, name: &'static str, status: Status) -> u32 {
        let library = self.library;
        if status == Status::Absent {
            if !(self.is_initialized)() {
                return library.not_initialized();
            }
        } else {
            let _ = catch_unwind(|| gap::record(library, name, ""));
        }
        finish(self, library.not_supported())
    }
}

#[inline]
fn run<S: Success, E: Into<u32>>(rules: &Rules, name: &'static str, body: impl FnOnce() -> Result<S, E>) -> u32 {
    finding::during(name, || calls::during(rules.library, name, || rules.caught(name, body)))
}

#[inline]
fn finish(rules: &Rules, code: u32) -> u32 {
    if code != 0 {
        (rules.failed)(code);
    }
    code
}

/// Fills the stack below the call, where the program's next functions have their variables.
#[cold]
#[inline(never)]
fn fill_stack(byte: u8) {
    std::hint::black_box(&[byte; 16 << 10]);
}

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
    if is_in_host_function() { Err(CudaError::NOT_PERMITTED.0) } else { Ok(()) }
}
