//! The outcome of a collective whose contributions travel with their descriptors. The rank that comes last looks at the calls of all
//! ranks and combines what they contribute, once, so that a collective among n ranks costs n steps and not n times n. The others
//! take their part of the result. If that rank dies in the middle, each of the others does it for itself.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use protocol::ready::Ready;

use crate::shared::segment::{INLINE_BYTES, Segment};

/// What the last rank worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The calls agree, and what combines contributions is in [`Segment::results`].
    Ready {
        /// The last of the ranks.
        latest: Ready,
    },
    /// Each rank has to look at the calls itself: they differ, or each has something to report.
    Each,
}

/// An [`Outcome`] in shared memory. Only the last rank of a collective writes it, and nobody comes last at the next one before all
/// have read it.
#[repr(C)]
pub(super) struct OutcomeWords {
    /// The collective that it belongs to; written last.
    sequence: AtomicU64,
    latest_ns: AtomicU64,
    latest_rank: AtomicU32,
    /// 1 for [`Outcome::Ready`].
    is_ready: AtomicU32,
    /// 1 once a rank reports what sums lose.
    is_watched: AtomicU32,
}

impl Segment {
    /// Where the last rank puts results, [`INLINE_BYTES`] for each rank. Nobody else writes there.
    pub(crate) fn results(&self) -> *mut u8 {
        let size = self.size as usize;
        // SAFETY: the file is longer than the layout, as checked when it was mapped.
        unsafe { self.arena.base().add(Self::payloads_start(size) + 2 * size * INLINE_BYTES) }
    }

    /// Publishes the outcome of `sequence`. Only the rank that came last calls this, before it wakes the others.
    pub(crate) fn conclude(&self, sequence: u64, outcome: Outcome) {
        let words = &self.header().outcome.0;
        if let Outcome::Ready { latest } = outcome {
            words.latest_ns.store(latest.ns, Ordering::Relaxed);
            words.latest_rank.store(latest.rank, Ordering::Relaxed);
        }
        words.is_ready.store(u32::from(outcome != Outcome::Each), Ordering::Relaxed);
        words.sequence.store(sequence, Ordering::Release);
    }

    /// The outcome of `sequence`, once it is there.
    pub(crate) fn outcome(&self, sequence: u64) -> Option<Outcome> {
        let words = &self.header().outcome.0;
        if words.sequence.load(Ordering::Acquire) != sequence {
            return None;
        }
        Some(match words.is_ready.load(Ordering::Relaxed) {
            1 => {
                let ns = words.latest_ns.load(Ordering::Relaxed);
                Outcome::Ready { latest: Ready { ns, rank: words.latest_rank.load(Ordering::Relaxed) } }
            }
            _ => Outcome::Each,
        })
    }

    /// A rank reports what sums lose: from its next arrival on, whoever comes last looks for that.
    pub(crate) fn watch_losses(&self) {
        let is_watched = &self.header().outcome.0.is_watched;
        if is_watched.load(Ordering::Relaxed) == 0 {
            is_watched.store(1, Ordering::Relaxed);
        }
    }

    /// Whether a rank reports what sums lose.
    pub(crate) fn watches_losses(&self) -> bool {
        self.header().outcome.0.is_watched.load(Ordering::Relaxed) != 0
    }
}
