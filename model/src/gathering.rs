//! Ranks that come together for one purpose before a deadline: the state behind a rendezvous, a split and a resize.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::Rank;
use protocol::message::{self, Member};

use crate::exchange::ConnectionId;

/// A rank that waits for its communicator.
#[derive(Debug)]
pub(crate) struct Applicant {
    pub(crate) connection: ConnectionId,
    pub(crate) request: u64,
    pub(crate) member: Member,
}

/// (what, arrived ranks, missing ranks).
pub(crate) type Waiting = (String, Vec<Rank>, Vec<Rank>);

/// The ranks below `size`, which arrive one by one.
#[derive(Debug)]
pub(crate) struct Gathering<T> {
    size: u32,
    deadline_us: u64,
    arrivals: BTreeMap<Rank, T>,
    /// Ranks that are not waited for.
    absent: BTreeSet<Rank>,
}

impl<T> Gathering<T> {
    /// No rank has arrived yet.
    pub(crate) fn new(size: u32, deadline_us: u64) -> Self {
        Self::without(size, BTreeSet::new(), deadline_us)
    }

    /// No rank has arrived yet, and the ranks in `absent` are not waited for.
    pub(crate) fn without(size: u32, absent: BTreeSet<Rank>, deadline_us: u64) -> Self {
        Self { size, deadline_us, arrivals: BTreeMap::new(), absent }
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn deadline_us(&self) -> u64 {
        self.deadline_us
    }

    /// The arrival of `rank`.
    pub(crate) fn arrival(&self, rank: Rank) -> Option<&T> {
        self.arrivals.get(&rank)
    }

    /// `rank` arrives; it must be below the size and not have arrived before.
    pub(crate) fn arrive(&mut self, rank: Rank, who: T) {
        debug_assert!(rank.0 < self.size && !self.arrivals.contains_key(&rank), "the caller looked");
        self.arrivals.insert(rank, who);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.arrivals.len() + self.absent.len() == self.size as usize
    }

    /// All arrivals, by rank.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = (Rank, &T)> {
        self.arrivals.iter().map(|(rank, who)| (*rank, who))
    }

    /// All arrivals, by rank.
    pub(crate) fn into_arrivals(self) -> impl Iterator<Item = (Rank, T)> {
        self.arrivals.into_iter()
    }

    /// Its arrived and missing ranks, under the name `what`.
    pub(crate) fn waiting(&self, what: String) -> Waiting {
        (what, self.arrivals.keys().copied().collect(), self.missing())
    }

    /// The ranks that have not arrived.
    pub(crate) fn missing(&self) -> Vec<Rank> {
        let expected = (0..self.size).map(Rank).filter(|rank| !self.absent.contains(rank));
        expected.filter(|rank| !self.arrivals.contains_key(rank)).collect()
    }
}

impl Gathering<Applicant> {
    /// Ranks that use the same GPU, and a sentence about them: NCCL does not form a communicator from them.
    pub(crate) fn shared_gpu(&self) -> Option<(Vec<Rank>, String)> {
        message::shared_gpu(self.arrivals().map(|(rank, applicant)| (rank, &applicant.member)))
    }

    /// The places in the launch of those of `ranks` that have arrived.
    pub(crate) fn global_ranks(&self, ranks: &[Rank]) -> Vec<Rank> {
        ranks.iter().filter_map(|rank| Some(self.arrival(*rank)?.member.global_rank)).collect()
    }
}

/// "1, 3 and 5 others": at most eight ranks by number.
pub(crate) fn list(ranks: &[Rank]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(Rank::to_string).collect();
    match ranks.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} others", shown.join(", ")),
    }
}
