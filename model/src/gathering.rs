//! Ranks coming together for one thing until a deadline: the state behind a rendezvous, a split and a resize.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::Rank;
use protocol::message::Member;

use crate::exchange::ConnectionId;

/// A rank that waits for its communicator.
#[derive(Debug)]
pub(crate) struct Applicant {
    pub(crate) connection: ConnectionId,
    pub(crate) request: u64,
    pub(crate) member: Member,
}

/// (what, who is there, who is missing).
pub(crate) type Waiting = (String, Vec<Rank>, Vec<Rank>);

/// `size` seats, one per rank, filled one by one.
#[derive(Debug)]
pub(crate) struct Gathering<T> {
    size: u32,
    deadline_us: u64,
    seats: BTreeMap<Rank, T>,
    /// Seats that nobody is to take.
    absent: BTreeSet<Rank>,
}

impl<T> Gathering<T> {
    /// Nobody is there yet.
    pub(crate) fn new(size: u32, deadline_us: u64) -> Self {
        Self::without(size, BTreeSet::new(), deadline_us)
    }

    /// Nobody is there yet, and those of `absent` are not waited for.
    pub(crate) fn without(size: u32, absent: BTreeSet<Rank>, deadline_us: u64) -> Self {
        Self { size, deadline_us, seats: BTreeMap::new(), absent }
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn deadline_us(&self) -> u64 {
        self.deadline_us
    }

    /// Who holds the seat of `rank`.
    pub(crate) fn seat(&self, rank: Rank) -> Option<&T> {
        self.seats.get(&rank)
    }

    /// Takes the seat of `rank`, which must be free and below the size.
    pub(crate) fn sit(&mut self, rank: Rank, who: T) {
        debug_assert!(rank.0 < self.size && !self.seats.contains_key(&rank), "the caller looked");
        self.seats.insert(rank, who);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.seats.len() + self.absent.len() == self.size as usize
    }

    /// Everybody who is there, by rank.
    pub(crate) fn seated(&self) -> impl Iterator<Item = (Rank, &T)> {
        self.seats.iter().map(|(rank, who)| (*rank, who))
    }

    /// Everybody who came, by rank.
    pub(crate) fn into_seated(self) -> impl Iterator<Item = (Rank, T)> {
        self.seats.into_iter()
    }

    /// Who waits for whom in it; it is called `what`.
    pub(crate) fn waiting(&self, what: String) -> Waiting {
        (what, self.seats.keys().copied().collect(), self.missing())
    }

    /// Who has not come.
    pub(crate) fn missing(&self) -> Vec<Rank> {
        let expected = (0..self.size).map(Rank).filter(|rank| !self.absent.contains(rank));
        expected.filter(|rank| !self.seats.contains_key(rank)).collect()
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
