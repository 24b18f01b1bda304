//! Ranks that will not come any more: whose process ended as the runner saw it, whose join failed, and what that means for those
//! who wait for them.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::Rank;
use protocol::message::ErrorCode;

use crate::cluster::{Cluster, ConnectionId, Output};
use crate::gathering::Gathering;
use crate::rendezvous::Applicant;

/// Longest text about a rank that is kept, bytes.
const MAX_TEXT: usize = 4096;

/// What is known of ranks that are not in a communicator, by their place in the launch.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// The process that the runner started as the rank ended: its pid, and how, as in "ended with exit code 7".
    ended: BTreeMap<Rank, (u32, String)>,
    /// Why the rank's last try to join a communicator failed; gone when a later one did not.
    refused: BTreeMap<Rank, String>,
}

impl Endings {
    /// `rank` is in a communicator.
    pub(crate) fn joined(&mut self, rank: Rank) {
        self.refused.remove(&rank);
    }
}

impl Cluster {
    /// The process that the runner started as `rank` ended. Its connection, if it had one, may be open a moment longer.
    pub(crate) fn rank_ended(&mut self, rank: Rank, pid: u32, how: String, out: &mut Vec<Output>) {
        self.endings.ended.insert(rank, (pid, short(how)));
        self.revision += 1;
        self.fail_hopeless_rendezvous(out);
    }

    /// How `rank` ended, unless a process that plays it is still connected: what that one said may not have been heard yet.
    pub(crate) fn how_ended(&self, rank: Rank) -> Option<&str> {
        let (_, how) = self.endings.ended.get(&rank)?;
        let played = self.processes.values().any(|process| process.info.rank == Some(rank));
        (!played).then_some(how.as_str())
    }

    /// Ranks that ended or whose last try to join a communicator failed, in order.
    pub(crate) fn lost_ranks(&self) -> BTreeSet<Rank> {
        let ended = self.endings.ended.keys().copied().filter(|rank| self.how_ended(*rank).is_some());
        ended.chain(self.endings.refused.keys().copied()).collect()
    }

    /// The connection of the process that ended as `rank`, while that is open: what it sent last may still be on its way.
    pub fn connection_of_ended(&self, rank: Rank) -> Option<ConnectionId> {
        let (pid, _) = self.endings.ended.get(&rank)?;
        let theirs = self.processes.iter().find(|(_, process)| process.info.pid == *pid);
        theirs.map(|(connection, _)| *connection)
    }

    /// `rank` could not join a communicator.
    pub(crate) fn join_failed(&mut self, rank: Rank, why: &str) {
        self.endings.refused.insert(rank, short(why.to_owned()));
    }

    /// Why the last try of `rank` to join a communicator failed, if it did.
    pub(crate) fn why_refused(&self, rank: Rank) -> Option<&str> {
        self.endings.refused.get(&rank).map(String::as_str)
    }

    /// Ends every rendezvous that cannot come about: more ranks are missing than could still come.
    pub(crate) fn fail_hopeless_rendezvous(&mut self, out: &mut Vec<Output>) {
        let hopeless = |gathering: &Gathering<Applicant>| self.who_is_missed_for_ever(gathering);
        let ended: Vec<(Vec<u8>, Rank)> =
            self.rendezvous.iter().filter_map(|(id, gathering)| Some((id.clone(), hopeless(gathering)?))).collect();
        for (unique_id, rank) in ended {
            let Some(gathering) = self.rendezvous.remove(&unique_id) else { continue };
            let how = self.how_ended(rank).unwrap_or("ended");
            let node = self.settings.plan.as_ref().and_then(|plan| plan.node_of(rank));
            let place = node.map(|(_, node)| format!(" ({})", node.id)).unwrap_or_default();
            let detail = format!("rank {rank}{place} {how} without joining the communicator");
            let same = self.has_numbers_of_launch(&gathering) && gathering.missing().contains(&rank);
            let culprits: &[Rank] = if same { &[rank] } else { &[] };
            self.give_up(unique_id, gathering.size(), gathering.missing(), ErrorCode::RankLost, &detail);
            let applicants = gathering.into_seated().map(|(_, applicant)| applicant).collect();
            self.fail_init(applicants, ErrorCode::RankLost, culprits, detail, out);
        }
    }

    /// Whether this is to be a communicator of all ranks of the launch, which keep their numbers there as far as one can see.
    pub(crate) fn has_numbers_of_launch(&self, gathering: &Gathering<Applicant>) -> bool {
        let plan = || self.settings.plan.as_ref().map(|plan| plan.world_size());
        self.launched(gathering).or_else(plan) == Some(gathering.size())
            && gathering.seated().all(|(seat, applicant)| applicant.member.global_rank == seat)
    }

    /// How many ranks were launched, as one of those that wait there knows.
    fn launched(&self, gathering: &Gathering<Applicant>) -> Option<u32> {
        let mut waiting = gathering.seated();
        waiting.find_map(|(_, applicant)| self.processes.get(&applicant.connection)?.info.world_size)
    }

    /// A rank that ended and without which `gathering` cannot be complete. `None` where that is not certain.
    fn who_is_missed_for_ever(&self, gathering: &Gathering<Applicant>) -> Option<Rank> {
        let seated: BTreeSet<Rank> = gathering.seated().map(|(_, applicant)| applicant.member.global_rank).collect();
        let launched = self.launched(gathering)?;
        // A process with several devices sits down for each of them: then ranks are no processes.
        if gathering.size() > launched || seated.len() < gathering.seated().count() {
            return None;
        }
        let missing = gathering.missing().len();
        let absent = || (0..launched).map(Rank).filter(|rank| !seated.contains(rank));
        let could_come = absent().filter(|rank| self.how_ended(*rank).is_none()).count();
        if could_come >= missing {
            return None;
        }
        absent().find(|rank| self.how_ended(*rank).is_some())
    }
}

/// Whoever tells is not let fill our memory.
fn short(mut text: String) -> String {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    text
}
