//! Actions at the end of the process that registered them; its forked children do not run them.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering};

use dataplane::lock::Mutex;

static ACTIONS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());
/// The process that registered the first.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Runs `action` when this process exits (not when it is killed). The last one registered runs first; a second
/// registration of the same function is ignored.
pub(crate) fn at_exit(action: fn()) {
    let mut actions = ACTIONS.lock();
    if actions.is_empty() {
        OWNER.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the handler is a function of this library, which is never unloaded (`-z nodelete`).
        unsafe { libc::atexit(run) };
    }
    if !actions.iter().any(|known| std::ptr::fn_addr_eq(*known, action)) {
        actions.push(action);
    }
}

extern "C" fn run() {
    if OWNER.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let actions = std::mem::take(&mut *ACTIONS.lock());
    for action in actions.into_iter().rev() {
        let _ = catch_unwind(action);
    }
}
