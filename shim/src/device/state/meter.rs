//! How busy a GPU is, as a monitor sees it: amounts (microseconds of kernels, bytes over PCIe) are summed per second, and
//! read as the sum over the last second. The values are in memory shared by processes, hence atomics.

use std::sync::atomic::{AtomicU64, Ordering};

/// One second in microseconds, the unit of all times.
const SECOND: u64 = 1_000_000;

/// Microseconds of a clock that all processes of the host share (CLOCK_MONOTONIC).
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct lives for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64 / 1000
}

/// Amounts added in the current second and in the previous one. Only one thread adds at a time.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The second in the upper half, the amount in the lower half.
    current: AtomicU64,
    before: AtomicU64,
}

/// (second, amount).
fn unpack(slot: u64) -> (u64, u64) {
    (slot >> 32, slot & 0xffff_ffff)
}

impl Window {
    /// Adds to the second of the time `at`.
    fn add(&self, at: u64, amount: u64) {
        let second = at / SECOND;
        let (known, sum) = unpack(self.current.load(Ordering::Relaxed));
        let (target, sum) = match known {
            known if known == second => (&self.current, sum),
            // Belated: the part of an interval that lies before this second.
            known if known > second => match unpack(self.before.load(Ordering::Relaxed)) {
                (before, sum) if before == second => (&self.before, sum),
                (before, _) if before < second => (&self.before, 0),
                _ => return,
            },
            known => {
                self.before.store(known << 32 | sum, Ordering::Relaxed);
                (&self.current, 0)
            }
        };
        target.store(second << 32 | (sum + amount).min(0xffff_ffff), Ordering::Relaxed);
    }

    /// The amount added in the second that ends at `at`, assuming that additions are spread evenly within a second.
    fn last_second(&self, at: u64) -> u64 {
        let (second, into) = (at / SECOND, at % SECOND);
        let slots = [&self.current, &self.before].map(|slot| unpack(slot.load(Ordering::Relaxed)));
        let of = |wanted: u64| slots.iter().find(|(second, _)| *second == wanted).map_or(0, |(_, amount)| *amount);
        of(second) + second.checked_sub(1).map_or(0, of) * (SECOND - into) / SECOND
    }

    fn clear(&self) {
        self.current.store(0, Ordering::Relaxed);
        self.before.store(0, Ordering::Relaxed);
    }
}

/// The use of one GPU by one process.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Start time of a kernel that still runs, 0 for none.
    since: AtomicU64,
    busy: Window,
    /// Bytes to and from the GPU over PCIe, in units of [`UNIT`].
    received: Window,
    sent: Window,
}

/// Bytes are counted in units of this, so that a second's worth of any bus fits.
const UNIT: u64 = 64;

impl Meter {
    /// Called when a kernel starts and none was running.
    pub(crate) fn begin(&self, at: u64) {
        self.since.store(at.max(1), Ordering::Relaxed);
    }

    /// Called when no kernel runs any more. Returns how long one did, us.
    pub(crate) fn end(&self, at: u64) -> u64 {
        let since = self.since.swap(0, Ordering::Relaxed);
        if since == 0 || since >= at {
            return 0;
        }
        let start = at / SECOND * SECOND;
        if since < start {
            self.busy.add(start - 1, (start - since).min(SECOND));
        }
        self.busy.add(at, at - since.max(start));
        at - since
    }

    /// How long a kernel has been running, us.
    pub(crate) fn running(&self, at: u64) -> u64 {
        let since = self.since.load(Ordering::Relaxed);
        if since == 0 { 0 } else { at.saturating_sub(since) }
    }

    /// Percentage of the last second during which a kernel ran.
    pub(crate) fn percent(&self, at: u64) -> u32 {
        ((self.busy.last_second(at) + self.running(at)).min(SECOND) * 100 / SECOND) as u32
    }

    /// Records bytes copied to the GPU, or (`false`) from it.
    pub(crate) fn copied(&self, at: u64, bytes: u64, to_gpu: bool) {
        let window = if to_gpu { &self.received } else { &self.sent };
        window.add(at, bytes.div_ceil(UNIT));
    }

    /// Bytes per second (to the GPU, from it).
    pub(crate) fn traffic(&self, at: u64) -> (u64, u64) {
        (self.received.last_second(at) * UNIT, self.sent.last_second(at) * UNIT)
    }

    /// Resets it for another process.
    pub(crate) fn clear(&self) {
        self.since.store(0, Ordering::Relaxed);
        for window in [&self.busy, &self.received, &self.sent] {
            window.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_second_counts() {
        let meter = Meter::default();
        assert_eq!(meter.percent(10 * SECOND), 0);
        // Half of second 10.
        meter.begin(10 * SECOND + 250_000);
        assert_eq!(meter.percent(10 * SECOND + 500_000), 25);
        meter.end(10 * SECOND + 750_000);
        assert_eq!(meter.percent(11 * SECOND), 50);
        // Of the second before, half is still within the last second.
        assert_eq!(meter.percent(11 * SECOND + 500_000), 25);
        assert_eq!(meter.percent(12 * SECOND), 0);
    }

    #[test]
    fn a_kernel_that_runs_for_long_keeps_the_gpu_busy_until_it_ends() {
        let meter = Meter::default();
        meter.begin(5 * SECOND + 1);
        assert_eq!(meter.percent(9 * SECOND), 100);
        meter.end(9 * SECOND + 500_000);
        assert_eq!(meter.percent(9 * SECOND + 500_000), 100);
        assert_eq!(meter.percent(10 * SECOND), 50);
        assert_eq!(meter.percent(11 * SECOND), 0);
    }

    #[test]
    fn an_interval_over_the_turn_of_a_second_is_split() {
        let meter = Meter::default();
        meter.begin(3 * SECOND + 100_000);
        meter.end(3 * SECOND + 200_000);
        meter.begin(3 * SECOND + 900_000);
        meter.end(4 * SECOND + 100_000);
        assert_eq!(meter.percent(4 * SECOND + 100_000), 10 + 18);
    }

    #[test]
    fn bytes_per_second_in_each_direction() {
        let meter = Meter::default();
        meter.copied(7 * SECOND, 1 << 20, true);
        meter.copied(7 * SECOND + 1, 640, false);
        assert_eq!(meter.traffic(8 * SECOND - 1), (1 << 20, 640));
        assert_eq!(meter.traffic(9 * SECOND), (0, 0));
        meter.clear();
        assert_eq!(meter.traffic(8 * SECOND - 1), (0, 0));
    }
}
