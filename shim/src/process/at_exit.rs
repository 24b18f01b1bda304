//! Actions at the end of the process that used CUDA; its forked children do not run them.

use std::panic::catch_unwind;

use dataplane::lock::Mutex;

use crate::process::fork;

static ACTIONS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Runs `action` when this process exits (not when it is killed). The last one registered runs first; a second
/// registration of the same function is ignored.
pub(crate) fn at_exit(action: fn()) {
    let mut actions = ACTIONS.lock();
    if actions.is_empty() {
        // SAFETY: the handler is a function of this library, which is never unloaded (`-z nodelete`).
        unsafe { libc::atexit(run) };
    }
    if !actions.iter().any(|known| std::ptr::fn_addr_eq(*known, action)) {
        actions.push(action);
    }
}

extern "C" fn run() {
    if !fork::is_owner() {
        return;
    }
    let actions = std::mem::take(&mut *ACTIONS.lock());
    for action in actions.into_iter().rev() {
        let _ = catch_unwind(action);
    }
}
