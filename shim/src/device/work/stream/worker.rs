//! How the thread of a stream starts, and how long it sleeps while threads that wait for the stream do its work.

use std::time::Duration;

/// While a stream's waiters do its work, its thread is not woken for every task: it checks now and then whether one is left over,
/// at most this often.
pub(super) const DOZE: Duration = Duration::from_micros(200);
/// And at least this often.
pub(super) const LONGEST_DOZE: Duration = Duration::from_millis(200);
/// Tasks that waiters do, for each time that it checks: with many ranks on few processors a task takes long, and a thread that wakes
/// for each would double the wake-ups of the machine.
const HELPED: u32 = 4;

/// How long a worker sleeps after it slept for `doze`, while waiters did `helped` tasks.
pub(super) fn next_doze(doze: Duration, helped: u32) -> Duration {
    (doze * HELPED / helped.max(1)).clamp(DOZE, LONGEST_DOZE)
}

/// Signals go to the program's own threads, never to ours.
pub(super) fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialized by the calls before they are read; the mask is put back below.
    let before = unsafe {
        let mut every = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &every, &mut before);
        before
    };
    let value = body();
    // SAFETY: `before` is the mask that the thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    value
}
