//! Ranks that will no longer come: those whose process the runner saw end, and those whose join failed.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::Rank;

use crate::exchange::ConnectionId;
use crate::processes::Processes;

/// The longest text about a rank that is kept, in bytes.
const MAX_TEXT: usize = 4096;

/// What is known about ranks that are not in a communicator, by their place in the launch.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// The process that the runner started as the rank ended: its pid, and how, as in "ended with exit code 7".
    ended: BTreeMap<Rank, (u32, String)>,
    /// Why the rank's last attempt to join a communicator failed; cleared when a later one succeeds.
    refused: BTreeMap<Rank, String>,
}

impl Endings {
    /// `rank` is in a communicator.
    pub(crate) fn joined(&mut self, rank: Rank) {
        self.refused.remove(&rank);
    }

    /// `rank` could not join a communicator.
    pub(crate) fn join_failed(&mut self, rank: Rank, why: &str) {
        self.refused.insert(rank, short(why.to_owned()));
    }

    /// The process that the runner started as `rank` ended. Its connection, if it had one, may be open a moment longer.
    pub(crate) fn ended(&mut self, rank: Rank, pid: u32, how: String) {
        self.ended.insert(rank, (pid, short(how)));
    }

    /// How `rank` ended, unless a process with that rank is still connected: its last messages may not have been read
    /// yet.
    pub(crate) fn how_ended(&self, rank: Rank, processes: &Processes) -> Option<&str> {
        let (_, how) = self.ended.get(&rank)?;
        (!processes.has_rank(rank)).then_some(how.as_str())
    }

    /// Ranks that ended or whose last attempt to join a communicator failed, in order.
    pub(crate) fn lost_ranks(&self, processes: &Processes) -> BTreeSet<Rank> {
        let ended = self.ended.keys().copied().filter(|rank| self.how_ended(*rank, processes).is_some());
        ended.chain(self.refused.keys().copied()).collect()
    }

    /// The connection of the process that ended as `rank`, as long as it is open.
    pub(crate) fn connection(&self, rank: Rank, processes: &Processes) -> Option<ConnectionId> {
        let (pid, _) = self.ended.get(&rank)?;
        processes.iter().find(|(_, process)| process.info.pid == *pid).map(|(connection, _)| connection)
    }

    /// Why the last attempt of `rank` to join a communicator failed, if it did.
    pub(crate) fn why_refused(&self, rank: Rank) -> Option<&str> {
        self.refused.get(&rank).map(String::as_str)
    }
}

/// A peer must not fill our memory.
fn short(mut text: String) -> String {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    text
}
