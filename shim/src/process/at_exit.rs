//! Exit actions of the process that registered them; its forked children do not run them.

use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use dataplane::lock::Mutex;

/// An exit action; gets the process's exit status as passed to `exit`.
pub(crate) type Action = fn(c_int);

static ACTIONS: Mutex<Vec<Action>> = Mutex::new(Vec::new());
/// The process that registered the first action.
static OWNER: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    /// As `atexit`, with the status (glibc).
    fn on_exit(action: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Runs `action` when this process exits (not when it is killed). The last one registered runs first; a second
/// registration of the same function is ignored.
pub(crate) fn at_exit(action: Action) {
    let mut actions = ACTIONS.lock();
    if actions.is_empty() {
        OWNER.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the handler is a function of this library, which is never unloaded (`-z nodelete`).
        unsafe { on_exit(run, ptr::null_mut()) };
    }
    if !actions.iter().any(|known| ptr::fn_addr_eq(*known, action)) {
        actions.push(action);
    }
}

/// Runs the actions, flushes the streams of C, and ends the process.
pub(crate) fn leave(status: c_int) -> ! {
    run(status, ptr::null_mut());
    // SAFETY: all streams of C, which `exit` would flush; this process runs nothing after it.
    unsafe {
        libc::fflush(ptr::null_mut());
        libc::_exit(status)
    }
}

extern "C" fn run(status: c_int, _argument: *mut c_void) {
    if OWNER.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let actions = std::mem::take(&mut *ACTIONS.lock());
    for action in actions.into_iter().rev() {
        let _ = catch_unwind(|| action(status));
    }
}
