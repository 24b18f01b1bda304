//! One communicator: its participants, and which of them are still present.

use std::collections::BTreeSet;

use protocol::ids::{CommunicatorId, Rank};
use protocol::message::{Member, ToRank};
use protocol::record::ErrorCode;

use crate::exchange::{ConnectionId, Output, send};

/// A formed communicator. It stays known after its last member has left, because late records and the report refer to
/// it.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(crate) id: CommunicatorId,
    pub(crate) parent: Option<CommunicatorId>,
    pub(crate) participants: Vec<Participant>,
    /// When its first failure was noticed.
    pub(crate) failed_at_us: Option<u64>,
}

/// One rank of the communicator.
#[derive(Debug)]
pub(crate) struct Participant {
    pub(crate) connection: ConnectionId,
    pub(crate) member: Member,
    /// The place in the launch of its process, which may be several ranks. If the launcher gave it none, that of the rank.
    pub(crate) process: Rank,
    pub(crate) presence: Presence,
    /// It takes part in no more operations; the others are not notified.
    pub(crate) revoked: bool,
}

/// Whether a member still takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It takes part.
    Present,
    /// It destroyed its handle; the others do not know, since they may still be finishing.
    Left,
    /// It aborted; the others know.
    Aborted,
    /// Its process ended; the others know.
    Gone,
}

impl Communicator {
    pub(crate) fn size(&self) -> u32 {
        self.participants.len() as u32
    }

    /// The participant with `rank`, if it belongs to `connection`.
    pub(crate) fn participant(&self, rank: Rank, connection: ConnectionId) -> Option<&Participant> {
        self.participants.get(rank.0 as usize).filter(|participant| participant.connection == connection)
    }

    /// The position of `rank` in the whole launch.
    pub(crate) fn global_rank(&self, rank: Rank) -> Option<Rank> {
        self.participants.get(rank.0 as usize).map(|participant| participant.member.global_rank)
    }

    /// The places in the launch of the processes of these ranks, given by their own places in the launch.
    pub(crate) fn processes_of(&self, globals: &[Rank]) -> Vec<Rank> {
        let own = self.participants.iter().filter(|participant| globals.contains(&participant.member.global_rank));
        let processes: BTreeSet<Rank> = own.map(|participant| participant.process).collect();
        processes.into_iter().collect()
    }

    /// All members' positions in the whole launch, in communicator order.
    pub(crate) fn global_ranks(&self) -> Vec<Rank> {
        self.participants.iter().map(|participant| participant.member.global_rank).collect()
    }

    /// The first member that is no longer present.
    pub(crate) fn first_absent(&self) -> Option<(Rank, &Participant)> {
        let (rank, participant) =
            self.participants.iter().enumerate().find(|(_, participant)| participant.presence != Presence::Present)?;
        Some((Rank(rank as u32), participant))
    }

    /// The connections of the members that are still present, each once, without `except`.
    pub(crate) fn listeners(&self, except: ConnectionId) -> Vec<ConnectionId> {
        let mut connections: Vec<ConnectionId> = self
            .participants
            .iter()
            .filter(|participant| participant.presence == Presence::Present && participant.connection != except)
            .map(|participant| participant.connection)
            .collect();
        connections.sort_unstable();
        connections.dedup();
        connections
    }

    /// Notifies the remaining members, except for the process of `from`, that `rank` is lost.
    pub(crate) fn tell_others(
        &self,
        rank: Rank,
        from: ConnectionId,
        code: ErrorCode,
        detail: &str,
        out: &mut Vec<Output>,
    ) {
        for connection in self.listeners(from) {
            let detail = detail.to_owned();
            send(out, connection, ToRank::MemberLost { communicator: self.id, rank, code, detail });
        }
    }
}
