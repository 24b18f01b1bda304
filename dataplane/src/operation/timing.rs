//! How long an operation waited and worked, and when it ended.

use std::time::Instant;

use protocol::ready::Ready;

/// How long an operation waited for others and how long it moved bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    pub(crate) wait_us: f64,
    pub(crate) execute_us: f64,
    /// When it ended, by the machine's monotonic clock, ns.
    pub(crate) ended_ns: u64,
    /// The last rank that it needs, and when that was ready.
    pub(crate) latest: Ready,
    /// For send and recv: the number of the transfer within the ordered pair, from 1.
    pub(crate) transfer: u64,
}

/// The timing of an operation that began at `start`, had all ranks present at `met` and is done now. `transfer` as in
/// [`Timing`].
pub(crate) fn timing(start: Instant, met: Instant, transfer: u64) -> Timing {
    let wait_us = microseconds(start, met);
    Timing {
        wait_us,
        execute_us: microseconds(met, Instant::now()),
        ended_ns: monotonic_ns(),
        latest: Ready::default(),
        transfer,
    }
}

impl Timing {
    /// The same with [`Timing::latest`].
    pub(crate) fn after(self, latest: Ready) -> Self {
        Self { latest, ..self }
    }
}

/// The clock behind [`Instant`], which all processes of a machine share.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written to, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Microseconds between two moments.
fn microseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e6
}
