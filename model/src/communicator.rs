//! One communicator: who is in it, who is still there, and its splits and resizes under way.

use std::collections::BTreeMap;

use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::Member;

use crate::cluster::ConnectionId;
use crate::gathering::Gathering;
use crate::resize::Resizes;

/// A formed communicator. It stays known after its last member left: late records and the report refer to it.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(crate) id: CommunicatorId,
    pub(crate) parent: Option<CommunicatorId>,
    pub(crate) seats: Vec<Seat>,
    pub(crate) splits: BTreeMap<Sequence, Gathering<SplitApplicant>>,
    pub(crate) resizes: Resizes,
    /// When its first failure was noticed.
    pub(crate) failed_at_us: Option<u64>,
}

/// One member.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) connection: ConnectionId,
    pub(crate) member: Member,
    pub(crate) presence: Presence,
    /// It takes part in no operation any more; the others are not told.
    pub(crate) revoked: bool,
}

/// Whether a member still takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It does.
    Present,
    /// It destroyed its handle; the others have not been told, they may still be finishing.
    Left,
    /// It aborted; the others were told.
    Aborted,
    /// Its process ended; the others were told.
    Gone,
}

/// A rank waiting in a split.
#[derive(Debug)]
pub(crate) struct SplitApplicant {
    pub(crate) connection: ConnectionId,
    pub(crate) request: u64,
    pub(crate) color: Option<u32>,
    pub(crate) key: i32,
    pub(crate) member: Member,
}

impl Communicator {
    pub(crate) fn new(
        id: CommunicatorId,
        parent: Option<CommunicatorId>,
        members: Vec<(ConnectionId, Member)>,
    ) -> Self {
        let seats = members
            .into_iter()
            .map(|(connection, member)| Seat { connection, member, presence: Presence::Present, revoked: false })
            .collect();
        let (splits, resizes) = (BTreeMap::new(), Resizes::default());
        Self { id, parent, seats, splits, resizes, failed_at_us: None }
    }

    pub(crate) fn size(&self) -> u32 {
        self.seats.len() as u32
    }

    /// The seat of `rank`, if `connection` holds it.
    pub(crate) fn seat_of(&self, rank: Rank, connection: ConnectionId) -> Option<&Seat> {
        self.seats.get(rank.0 as usize).filter(|seat| seat.connection == connection)
    }

    /// The position of `rank` in the whole launch.
    pub(crate) fn global_rank(&self, rank: Rank) -> Option<Rank> {
        self.seats.get(rank.0 as usize).map(|seat| seat.member.global_rank)
    }

    /// All members' positions in the whole launch, in communicator order.
    pub(crate) fn global_ranks(&self) -> Vec<Rank> {
        self.seats.iter().map(|seat| seat.member.global_rank).collect()
    }

    /// The first member that is not there any more.
    pub(crate) fn first_absent(&self) -> Option<(Rank, &Seat)> {
        let (rank, seat) = self.seats.iter().enumerate().find(|(_, seat)| seat.presence != Presence::Present)?;
        Some((Rank(rank as u32), seat))
    }

    /// The connections of the members still there, each once, without `except`.
    pub(crate) fn listeners(&self, except: ConnectionId) -> Vec<ConnectionId> {
        let mut connections: Vec<ConnectionId> = self
            .seats
            .iter()
            .filter(|seat| seat.presence == Presence::Present && seat.connection != except)
            .map(|seat| seat.connection)
            .collect();
        connections.sort_unstable();
        connections.dedup();
        connections
    }
}

/// The children of a full split: per color, in color order, the members by (key, parent rank).
pub(crate) fn children(split: Gathering<SplitApplicant>) -> (BTreeMap<u32, Vec<SplitApplicant>>, Vec<SplitApplicant>) {
    let mut by_color: BTreeMap<u32, Vec<SplitApplicant>> = BTreeMap::new();
    let mut colorless = Vec::new();
    for (_, applicant) in split.into_seated() {
        match applicant.color {
            Some(color) => by_color.entry(color).or_default().push(applicant),
            None => colorless.push(applicant),
        }
    }
    for members in by_color.values_mut() {
        // Stable: equal keys keep the order of their parent ranks.
        members.sort_by_key(|applicant| applicant.key);
    }
    (by_color, colorless)
}
