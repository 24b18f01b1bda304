//! CUDA does not survive a fork: in a child of a process that used it, every call returns "not initialized" immediately,
//! without taking a lock that another thread of the parent may have held.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static USED: AtomicBool = AtomicBool::new(false);
static LOST: AtomicBool = AtomicBool::new(false);

/// Marks this process as one that uses CUDA. False in a forked child of such a process.
pub(crate) fn enter() -> bool {
    if LOST.load(Ordering::Relaxed) {
        return false;
    }
    if !USED.load(Ordering::Acquire) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler only stores to an atomic, which is allowed in a forked child.
            unsafe { libc::pthread_atfork(None, None, Some(child)) };
            USED.store(true, Ordering::Release);
        });
    }
    true
}

/// True in a forked child of a process that used CUDA.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

extern "C" fn child() {
    LOST.store(true, Ordering::Relaxed);
}
