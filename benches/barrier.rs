//! Where processes that share memory wait for each other, without a third that could be slow.

use std::sync::atomic::{AtomicU32, Ordering};

/// Returns once `ranks` callers are here. Both words are shared by exactly these, and nothing else uses them.
pub(crate) fn barrier(count: &AtomicU32, generation: &AtomicU32, ranks: u32) {
    let seen = generation.load(Ordering::Acquire);
    if count.fetch_add(1, Ordering::AcqRel) + 1 == ranks {
        count.store(0, Ordering::Relaxed);
        generation.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the word is live; the kernel only uses its address.
        unsafe { libc::syscall(libc::SYS_futex, generation.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0usize) };
        return;
    }
    while generation.load(Ordering::Acquire) == seen {
        // SAFETY: as above; no timeout.
        unsafe { libc::syscall(libc::SYS_futex, generation.as_ptr(), libc::FUTEX_WAIT, seen, 0usize) };
    }
}
