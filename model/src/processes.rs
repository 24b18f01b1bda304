//! The processes that have joined and not left.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::Rank;
use protocol::message::ProcessInfo;

use crate::exchange::ConnectionId;

/// One process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) info: ProcessInfo,
    /// It announced its end.
    pub(crate) leaving: bool,
}

/// The processes, by connection.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    present: BTreeMap<ConnectionId, Process>,
    /// The places in the launch of those that were here and are gone.
    gone: BTreeSet<Rank>,
}

impl Processes {
    pub(crate) fn join(&mut self, connection: ConnectionId, info: ProcessInfo) {
        self.present.insert(connection, Process { info, leaving: false });
    }

    /// The process announces its end.
    pub(crate) fn say_goodbye(&mut self, connection: ConnectionId) {
        if let Some(process) = self.present.get_mut(&connection) {
            process.leaving = true;
        }
    }

    pub(crate) fn remove(&mut self, connection: ConnectionId) {
        let process = self.present.remove(&connection);
        self.gone.extend(process.and_then(|process| process.info.rank));
    }

    pub(crate) fn get(&self, connection: ConnectionId) -> Option<&Process> {
        self.present.get(&connection)
    }

    /// The processes in the order of their connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Process)> {
        self.present.iter().map(|(connection, process)| (*connection, process))
    }

    /// The place in the launch of a process; `otherwise` if its launcher gave it none.
    pub(crate) fn rank_of(&self, connection: ConnectionId, otherwise: Rank) -> Rank {
        self.get(connection).and_then(|process| process.info.rank).unwrap_or(otherwise)
    }

    /// Whether a process with this rank of the launch was connected, and none goes on.
    pub(crate) fn has_ended(&self, rank: Rank) -> bool {
        let mut same = self.present.values().filter(|process| process.info.rank == Some(rank)).peekable();
        (self.gone.contains(&rank) || same.peek().is_some()) && same.all(|process| process.leaving)
    }

    /// Whether a process with this rank of the launch is connected.
    pub(crate) fn has_rank(&self, rank: Rank) -> bool {
        self.present.values().any(|process| process.info.rank == Some(rank))
    }
}
