//! The barriers around an operation: they complete for all ranks or for none, and wait for ranks that move bytes.

use std::sync::atomic::Ordering;
use std::time::Instant;

use protocol::record::ErrorCode;

use crate::futex;
use crate::shared::segment::Segment;

/// Flag in the arrivals word: a barrier was shut, so neither it nor any later one ever completes.
const SHUT: u64 = 1 << 63;
/// Bit position of the rank that shut it, above the count.
const SHUT_BY: u32 = 48;
/// The arrivals themselves.
const COUNT: u64 = (1 << SHUT_BY) - 1;

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Everybody came.
    All,
    /// These ranks will not come.
    Lost(Vec<u32>),
    /// These ranks had not arrived by the deadline.
    Missing(Vec<u32>),
}

/// The state of a barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Complete,
    /// It never completes, because this rank shut it.
    Shut(u32),
}

impl Segment {
    /// Arrives at barrier number `target` (from 1, one after the other).
    pub(crate) fn arrive(&self, rank: u32, target: u64) {
        self.arrive_and(rank, target, || {});
    }

    /// As [`Self::arrive`]. The rank that comes last also does `last`, before the others wake.
    pub(crate) fn arrive_and(&self, rank: u32, target: u64, last: impl FnOnce()) {
        self.block(rank).progress.store(target, Ordering::Release);
        self.count_arrival(target, last);
    }

    fn count_arrival(&self, target: u64, last: impl FnOnce()) {
        let arrivals = self.header().arrivals.0.fetch_add(1, Ordering::AcqRel) + 1;
        let is_shut = arrivals & SHUT != 0;
        let is_complete = !is_shut && arrivals >= target * u64::from(self.size);
        if is_complete {
            last();
        }
        // The rank that shut a barrier waits until the others are there.
        if is_shut || is_complete {
            self.wake_waiters();
        }
    }

    /// Wakes all ranks that wait at a barrier.
    pub(super) fn wake_waiters(&self) {
        let header = self.header();
        // Sequentially consistent with the sleeper's count: either it is seen here, or the sleeper sees the new bell.
        header.bell.0.fetch_add(1, Ordering::SeqCst);
        if header.sleepers.0.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&header.bell.0);
        }
    }

    /// Sleeps until the bell differs from `seen`, or until `deadline`.
    fn sleep(&self, seen: u32, deadline: Instant) {
        let header = self.header();
        header.sleepers.0.fetch_add(1, Ordering::SeqCst);
        futex::wait(&header.bell.0, seen, deadline);
        header.sleepers.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn gate(&self, target: u64) -> Gate {
        let word = self.header().arrivals.0.load(Ordering::Acquire);
        // Whoever shut a barrier had set `shut_at` before. A later one is shut only after this one was complete.
        if word & SHUT != 0 && self.header().shut_at.load(Ordering::Acquire) == target {
            Gate::Shut(((word & !SHUT) >> SHUT_BY) as u32)
        } else if word & COUNT >= target * u64::from(self.size) {
            Gate::Complete
        } else {
            Gate::Open
        }
    }

    /// Keeps barrier `target` from completing, on behalf of `rank`, which leaves it. False if everybody had arrived: then it is
    /// too late to leave.
    fn shut(&self, rank: u32, target: u64) -> bool {
        let header = self.header();
        header.shut_at.fetch_max(target, Ordering::AcqRel);
        let _ = header.arrivals.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let open = word & SHUT == 0 && word < target * u64::from(self.size);
            open.then_some(word | SHUT | u64::from(rank) << SHUT_BY)
        });
        self.gate(target) != Gate::Complete
    }

    /// True once everybody has arrived at barrier `target`, and the outcome is there that it brings, if one is awaited.
    fn is_past(&self, target: u64, outcome: Option<u64>) -> bool {
        self.gate(target) == Gate::Complete && outcome.is_none_or(|sequence| self.outcome(sequence).is_some())
    }

    /// [`Self::is_past`]; polls a few times if there are enough processors.
    fn is_past_soon(&self, target: u64, outcome: Option<u64>) -> bool {
        for _ in 0..self.spins {
            if self.is_past(target, outcome) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    fn missing(&self, target: u64) -> Vec<u32> {
        (0..self.size).filter(|rank| !self.has_come(*rank, target)).collect()
    }

    /// Whether `rank` has arrived at barrier `target`.
    pub(crate) fn has_come(&self, rank: u32, target: u64) -> bool {
        self.count_look();
        self.block(rank).progress.load(Ordering::Acquire) >= target
    }

    /// Waits until all ranks have arrived at barrier `target`, or until `leaves` returns a reason to go; it is called
    /// with the state of the barrier and the missing ranks whenever something changed that could be one. The barrier is then shut,
    /// unless everybody has arrived in the meantime. Waits for the `outcome` of a collective, too, unless the rank that works it
    /// out may be gone, or takes too long.
    fn pass(
        &self,
        rank: u32,
        target: u64,
        outcome: Option<u64>,
        deadline: Instant,
        leaves: impl Fn(Gate, Vec<u32>) -> Option<Arrival>,
    ) -> Arrival {
        if self.is_past_soon(target, outcome) {
            return Arrival::All;
        }
        loop {
            let bell = self.header().bell.0.load(Ordering::Acquire);
            if self.is_past(target, outcome) {
                return Arrival::All;
            }
            // Nobody was lost, left or shut the barrier: there is no need to look at every rank.
            let may_leave = self.has_losses() || Instant::now() >= deadline;
            match self.gate(target) {
                Gate::Complete if may_leave => return Arrival::All,
                Gate::Complete => self.sleep(bell, deadline),
                Gate::Open if !may_leave => self.sleep(bell, deadline),
                gate => match leaves(gate, self.missing(target)) {
                    Some(why) if self.shut(rank, target) => return why,
                    // Everybody came since we looked.
                    Some(_) => return Arrival::All,
                    None => self.sleep(bell, deadline),
                },
            }
        }
    }

    /// Waits until all ranks have arrived at barrier `target`, after which an operation begins. `rank` is the waiter: once it is
    /// itself lost (aborted), it stops. If one rank stops here, the operation begins for none. `outcome` is the collective whose
    /// [`Outcome`](crate::shared::segment::Outcome) is awaited as well, if there is one; it may be missing nevertheless.
    pub(crate) fn wait(&self, rank: u32, target: u64, outcome: Option<u64>, deadline: Instant) -> Arrival {
        self.pass(rank, target, outcome, deadline, |gate, missing| {
            if self.status(rank).is_some() {
                return Some(Arrival::Lost(vec![rank]));
            }
            let mut lost = self.lost_among(&missing, target);
            // One that came and aborted need not have waited for the others. Whatever else stopped one matters once all have come:
            // a rank that gave up at the deadline missed the same ranks as we do. A revoke is not announced.
            let stopped = |other: &u32| {
                !missing.contains(other)
                    && self.absence(*other).is_some_and(|(code, _)| code == ErrorCode::Aborted || missing.is_empty())
            };
            lost.extend((0..self.size).filter(stopped));
            if !lost.is_empty() {
                return Some(Arrival::Lost(lost));
            }
            self.late(gate, missing, deadline)
        })
    }

    /// Arrives at barrier `target`, which ends an operation, and waits until no rank moves bytes for it any more. Ranks do not
    /// wait for each other on the way here, so neither an abort nor a revoke ends this wait: a rank that stopped still arrives,
    /// and so does one whose move failed (`moved` is false). Only ranks that are gone do not.
    pub(crate) fn settle(&self, rank: u32, target: u64, moved: bool, deadline: Instant) -> Arrival {
        if !moved {
            self.shut(rank, target);
        }
        self.arrive(rank, target);
        self.pass(rank, target, None, deadline, |gate, missing| {
            let split = |missing: Vec<u32>| missing.into_iter().partition(|other| self.is_gone(*other));
            let (mut gone, mut moving): (Vec<u32>, Vec<u32>) = split(missing);
            if !gone.is_empty() && gate == Gate::Open {
                // It cannot complete. A rank that comes from now on knows that and wakes us; one that came just before did not.
                self.shut(rank, target);
                (gone, moving) = split(self.missing(target));
            }
            if !moving.is_empty() {
                return self.late(gate, moving, deadline);
            }
            if !gone.is_empty() {
                return Some(Arrival::Lost(gone));
            }
            if !moved {
                return Some(Arrival::Lost(vec![rank]));
            }
            // Someone's move failed, or someone died between its two marks of having come.
            let failed = |other: &u32| match gate {
                Gate::Shut(by) => *other == by && self.absence(by).is_some(),
                _ => *other != rank && self.is_gone(*other),
            };
            let failed: Vec<u32> = (0..self.size).filter(failed).collect();
            if failed.is_empty() { self.late(gate, Vec::new(), deadline) } else { Some(Arrival::Lost(failed)) }
        })
    }

    /// The result of a wait for `missing`, once the deadline has passed.
    fn late(&self, gate: Gate, missing: Vec<u32>, deadline: Instant) -> Option<Arrival> {
        // If all have come, someone keeps the barrier from completing.
        let missing = match gate {
            Gate::Shut(by) if missing.is_empty() => vec![by],
            _ => missing,
        };
        (Instant::now() >= deadline).then_some(Arrival::Missing(missing))
    }

    /// Those of `missing` that are lost and did not arrive at barrier `target`. Checked in this order, because a rank may have
    /// arrived and left since it was found missing.
    fn lost_among(&self, missing: &[u32], target: u64) -> Vec<u32> {
        let is_lost = |rank: &u32| self.absence(*rank).is_some() && !self.has_come(*rank, target);
        missing.iter().copied().filter(is_lost).collect()
    }
}

#[cfg(test)]
mod tests;
