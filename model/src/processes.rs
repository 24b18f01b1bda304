//! The processes that have joined and not left.

use std::collections::BTreeMap;

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

/// By connection.
#[derive(Debug, Default)]
pub(crate) struct Processes(BTreeMap<ConnectionId, Process>);

impl Processes {
    pub(crate) fn join(&mut self, connection: ConnectionId, info: ProcessInfo) {
        self.0.insert(connection, Process { info, leaving: false });
    }

    /// The process announces its end.
    pub(crate) fn say_goodbye(&mut self, connection: ConnectionId) {
        if let Some(process) = self.0.get_mut(&connection) {
            process.leaving = true;
        }
    }

    pub(crate) fn remove(&mut self, connection: ConnectionId) {
        self.0.remove(&connection);
    }

    pub(crate) fn get(&self, connection: ConnectionId) -> Option<&Process> {
        self.0.get(&connection)
    }

    /// In the order of their connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Process)> {
        self.0.iter().map(|(connection, process)| (*connection, process))
    }

    /// Whether a process with this rank of the launch is connected.
    pub(crate) fn has_rank(&self, rank: Rank) -> bool {
        self.0.values().any(|process| process.info.rank == Some(rank))
    }
}
