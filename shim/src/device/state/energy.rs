//! The basis of a GPU's energy and performance counters: how long its processes used it and how much they copied, summed in
//! the machine's file.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use protocol::gpu_event::Throttle;

/// The use of one GPU by all processes of the machine, since one first used or queried it. Times in microseconds.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Ledger {
    /// Which GPU; 0 means none, and that the ledger is free.
    gpu: AtomicU32,
    _unused: u32,
    /// When counting began.
    start: AtomicU64,
    /// How long kernels ran, summed over processes, and reduced while clocks were throttled.
    busy: AtomicU64,
    /// How long some process has had a context, and the time since which one has a context now (0 for none).
    used: AtomicU64,
    used_since: AtomicU64,
    /// How long kernels ran, regardless of clocks.
    active: AtomicU64,
    /// Bytes over PCIe to the GPU, and from it.
    received: AtomicU64,
    sent: AtomicU64,
}

/// The use of a GPU since counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Microseconds that kernels ran, summed over processes.
    pub(crate) active: u64,
    /// Bytes over PCIe to the GPU.
    pub(crate) received: u64,
    /// Bytes over PCIe from the GPU.
    pub(crate) sent: u64,
}

/// A ledger's values at some time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Since counting began.
    pub(crate) all: u64,
    /// Time with a context, and with kernels.
    pub(crate) used: u64,
    pub(crate) busy: u64,
}

impl Ledger {
    /// The ledger of a GPU among these, starting `now` if it is new; `None` if all are taken by others.
    pub(super) fn find(ledgers: &[Self], gpu: u32, now: impl Fn() -> u64) -> Option<&Self> {
        let first = gpu as usize % ledgers.len();
        ledgers[first..].iter().chain(&ledgers[..first]).find(|ledger| {
            // Kernels end often, and a ledger begins once.
            let known = match ledger.gpu.load(Ordering::Acquire) {
                0 => ledger.gpu.compare_exchange(0, gpu, Ordering::AcqRel, Ordering::Acquire),
                known => Err(known),
            };
            if known.is_ok() {
                ledger.start.store(now(), Ordering::Release);
            }
            known.is_ok() || known == Err(gpu)
        })
    }

    /// Records that some process has a context, or (`false`) that none has. Call it under the board's lock.
    pub(super) fn set_used(&self, is_used: bool, now: u64) {
        let since = self.used_since.load(Ordering::Acquire);
        match (since, is_used) {
            (0, true) => self.used_since.store(now, Ordering::Release),
            (since, false) if since > 0 => {
                self.used.fetch_add(now.saturating_sub(since), Ordering::AcqRel);
                self.used_since.store(0, Ordering::Release);
            }
            _ => {}
        }
    }

    /// Records that kernels ran this long, at these clocks.
    pub(crate) fn ran(&self, microseconds: u64, throttle: Throttle) {
        self.active.fetch_add(microseconds, Ordering::Relaxed);
        self.busy.fetch_add(at_full_clocks(microseconds, throttle), Ordering::Relaxed);
    }

    /// Records bytes sent over PCIe to the GPU, or (`false`) from it.
    pub(super) fn copied(&self, bytes: u64, to_gpu: bool) {
        let counter = if to_gpu { &self.received } else { &self.sent };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The work done, without kernels that still run.
    pub(super) fn work(&self) -> Work {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Work { active: read(&self.active), received: read(&self.received), sent: read(&self.sent) }
    }

    pub(super) fn spent(&self, now: u64) -> Spent {
        let since = |start: u64| if start == 0 { 0 } else { now.saturating_sub(start) };
        let all = since(self.start.load(Ordering::Acquire));
        let used = self.used.load(Ordering::Acquire) + since(self.used_since.load(Ordering::Acquire));
        Spent { all, used: used.min(all), busy: self.busy.load(Ordering::Relaxed).min(all) }
    }
}

/// How long a kernel would have to run at full clocks to draw the energy it drew in `microseconds`.
fn at_full_clocks(microseconds: u64, throttle: Throttle) -> u64 {
    microseconds * u64::from(throttle.clock_percent()) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gpu_has_a_ledger_of_its_own() {
        let ledgers = [Ledger::default(), Ledger::default()];
        let [first, second] = [1, 3].map(|gpu| Ledger::find(&ledgers, gpu, || 7).unwrap());
        assert!(!std::ptr::eq(first, second));
        assert!(std::ptr::eq(first, Ledger::find(&ledgers, 1, || 9).unwrap()));
        assert!(Ledger::find(&ledgers, 5, || 9).is_none(), "all are taken");
        assert_eq!((first.spent(9).all, second.spent(9).all), (2, 2));
    }

    #[test]
    fn contexts_that_overlap_count_once_and_kernels_add_up() {
        let ledger = Ledger { start: AtomicU64::new(100), ..Ledger::default() };
        ledger.set_used(true, 110);
        ledger.set_used(true, 120);
        ledger.ran(4, Throttle::None);
        ledger.ran(8, Throttle::Thermal);
        assert_eq!(ledger.spent(130), Spent { all: 30, used: 20, busy: 8 });
        ledger.set_used(false, 140);
        ledger.set_used(false, 150);
        assert_eq!(ledger.spent(160), Spent { all: 60, used: 30, busy: 8 });
        ledger.ran(1000, Throttle::None);
        assert_eq!(ledger.spent(170).busy, 70, "never more than all the time");
    }

    #[test]
    fn work_is_counted_at_any_clocks_and_in_both_directions() {
        let ledger = Ledger::default();
        ledger.ran(8, Throttle::Thermal);
        ledger.copied(640, true);
        ledger.copied(64, false);
        ledger.copied(1, false);
        assert_eq!(ledger.work(), Work { active: 8, received: 640, sent: 65 });
    }
}
