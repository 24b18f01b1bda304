//! Sleeps on a word of shared memory until it changes, and wakes the sleepers. Works across processes.

use std::sync::atomic::AtomicU32;
use std::time::Instant;

/// Sleeps while `word` holds `expected`, until woken or until `deadline`. May return early without a reason: check
/// again.
pub fn wait(word: &AtomicU32, expected: u32, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(left.subsec_nanos()),
    };
    // SAFETY: `word` and `timeout` are live for the call; the kernel reads them only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const timeout, 0usize, 0u32);
    }
}

/// Wakes all sleepers on `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: `word` is live for the call; the kernel only uses its address.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0usize, 0usize, 0u32);
    }
}
