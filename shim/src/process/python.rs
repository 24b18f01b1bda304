//! Python code of ours in the program's interpreter: its main thread runs it when it is next able to.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use super::fork;

/// What Python calls: with an argument that is not used, it returns 0.
pub(crate) type Pending = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Lets the main thread of Python call `function`, with the GIL, when it next runs Python code. False if Python takes no more
/// calls; `None` if this is not Python.
pub(crate) fn call_soon(function: Pending) -> Option<bool> {
    // SAFETY: a C string; CPython's C API gives the function's type, and it may be called by any thread.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"Py_AddPendingCall".as_ptr());
        if symbol.is_null() {
            return None;
        }
        let add = transmute::<*mut c_void, unsafe extern "C" fn(Pending, *mut c_void) -> c_int>(symbol);
        Some(add(function, std::ptr::null_mut()) == 0)
    }
}

/// What several sources need.
const INNER_STEP: &str = include_str!("inner_step.py");

/// Runs `source`, which defines `start`, and then `start` with the addresses of these C functions by name and with `is_inner`, in a
/// namespace of its own. False if Python refuses it.
///
/// # Safety
/// The thread holds the GIL.
pub(crate) unsafe fn start(source: &str, functions: &[(&str, usize)]) -> bool {
    let addresses: Vec<String> = functions.iter().map(|(name, address)| format!("{name}={address}")).collect();
    let source = format!("{INNER_STEP}\n{source}\nstart(dict(is_inner=is_inner, {}))\n", addresses.join(", "));
    // Frames of a file that is frozen are not the program's.
    let text = format!("exec(compile({source:?}, '<frozen ftest>', 'exec'), dict(__name__='ftest'))");
    let Ok(text) = CString::new(text) else { return false };
    // SAFETY: the GIL is held, and CPython's C API gives the function's type.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"PyRun_SimpleString".as_ptr());
        if symbol.is_null() {
            return false;
        }
        let run = transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(symbol);
        run(text.as_ptr()) == 0
    }
}

/// What a function that Python calls does: panics do not reach Python, and a forked child has nothing to report.
pub(crate) fn guarded<T: Default>(body: impl FnOnce() -> T) -> T {
    if fork::is_lost() {
        return T::default();
    }
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_default()
}

/// Whether code that needs PyTorch is installed, or about to be. If the program has not imported what it needs yet, the next
/// occasion asks again.
pub(crate) struct Asked(AtomicBool);

impl Asked {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Lets Python call `install`, unless that was asked for. If Python takes no more calls, nothing is installed.
    pub(crate) fn once(&self, install: Pending) {
        if !self.0.swap(true, Ordering::AcqRel) {
            call_soon(install);
        }
    }

    /// Runs `source` as [`start`] does. Unless it calls [`Asked::installed`], the next occasion asks again.
    ///
    /// # Safety
    /// The thread holds the GIL.
    pub(crate) unsafe fn start(&self, source: &str, functions: &[(&str, usize)]) {
        self.0.store(false, Ordering::Release);
        // SAFETY: the caller's promise.
        guarded(|| unsafe { start(source, functions) });
    }

    /// The code is installed.
    pub(crate) fn installed(&self) {
        self.0.store(true, Ordering::Release);
    }
}
