//! Ranks that stop: they leave, revoke, abort, die or are waited for too long.

use protocol::ids::{CommunicatorId, Rank};
use protocol::message::UNREACHABLE_AFTER;
use protocol::record::ErrorCode;

use super::Cluster;
use crate::communicator::Presence;
use crate::exchange::{ConnectionId, Output, close};
use crate::gathering::{Gathering, list};
use crate::placement::describe;
use crate::split::SplitApplicant;

impl Cluster {
    pub(super) fn leave(
        &mut self,
        from: ConnectionId,
        id: CommunicatorId,
        rank: Rank,
        aborted: Option<(ErrorCode, String)>,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get_mut(&id) else {
            return close(out, from, format!("left unknown communicator {id}"));
        };
        if communicator.participant(rank, from).is_none() {
            return close(out, from, format!("left communicator {id} as rank {rank}, which it is not"));
        }
        let participant = &mut communicator.participants[rank.0 as usize];
        if participant.presence != Presence::Present {
            return;
        }
        if aborted.is_some() {
            self.orders.leave_holes(from);
        }
        participant.presence = if aborted.is_some() { Presence::Aborted } else { Presence::Left };
        let name = describe(self.settings.plan.as_ref(), &participant.member);
        if let Some((code, why)) = aborted {
            // What failed before is the reason, whichever of the two arrives first.
            let detail = if code == ErrorCode::Aborted { format!("{name} called ncclCommAbort") } else { why };
            communicator.tell_others(rank, from, code, &detail, out);
        }
        let detail = format!("{name} left the communicator");
        self.fail_splits(id, ErrorCode::RankLost, |_| true, |_| detail.clone(), out);
        self.end_hopeless_resizes(id, None, "left the communicator", out);
    }

    pub(super) fn revoke(&mut self, from: ConnectionId, id: CommunicatorId, rank: Rank, out: &mut Vec<Output>) {
        let Some(communicator) = self.communicators.get_mut(&id) else {
            return close(out, from, format!("revoked unknown communicator {id}"));
        };
        if communicator.participant(rank, from).is_none() {
            return close(out, from, format!("revoked communicator {id} as rank {rank}, which it is not"));
        }
        self.orders.leave_holes(from);
        // The others are not notified: they wait until they revoke, too.
        if let Some(participant) = communicator.participants.get_mut(rank.0 as usize) {
            participant.revoked = true;
        }
    }

    /// The process that the runner started as `rank` ended. Its connection, if it had one, may be open a moment longer.
    pub(super) fn rank_ended(&mut self, rank: Rank, pid: u32, how: String, out: &mut Vec<Output>) {
        self.endings.ended(rank, pid, how);
        self.revision += 1;
        self.end_hopeless_rendezvous(out);
    }

    pub(super) fn disconnect(&mut self, connection: ConnectionId, reason: Option<String>, out: &mut Vec<Output>) {
        let Some(process) = self.processes.get(connection) else { return };
        if !process.leaving {
            match reason {
                Some(reason) => {
                    let how = format!("was cut off: it {reason}");
                    self.lose_process(connection, (ErrorCode::RankLost, &how), out);
                }
                None => self.lose_process(connection, (ErrorCode::RankLost, "ended unexpectedly"), out),
            }
        }
        self.processes.remove(connection);
        self.end_hopeless_rendezvous(out);
    }

    /// The host of a process can no longer be reached.
    pub(super) fn give_up(&mut self, connection: ConnectionId, out: &mut Vec<Output>) {
        let Some(process) = self.processes.get(connection) else { return };
        if !process.leaving {
            let seconds = UNREACHABLE_AFTER.as_secs();
            let how = format!("cannot be reached: nothing came from its host for {seconds} s");
            self.lose_process(connection, (ErrorCode::Unreachable, &how), out);
        }
        self.processes.remove(connection);
        self.end_hopeless_rendezvous(out);
    }

    /// Takes a process out of everything it is part of. `how` completes "rank 2 (pid 4711, node1) ...".
    pub(super) fn lose_process(
        &mut self,
        connection: ConnectionId,
        (code, how): (ErrorCode, &str),
        out: &mut Vec<Output>,
    ) {
        let died = self.processes.get(connection).is_some_and(|process| !process.leaving);
        self.orders.leave_holes(connection);
        self.replicas.closed(connection);
        for failed in self.rendezvous.lose(connection, how, self.settings.plan.as_ref()) {
            self.fail_init(failed, out);
        }
        let ids: Vec<CommunicatorId> = self.communicators.keys().copied().collect();
        for id in ids {
            let Some(communicator) = self.communicators.get_mut(&id) else { continue };
            let mut last = None;
            for index in 0..communicator.participants.len() {
                let participant = &mut communicator.participants[index];
                if participant.connection != connection || participant.presence == Presence::Gone {
                    continue;
                }
                let aborted = participant.presence == Presence::Aborted;
                if aborted && !died {
                    continue;
                }
                let was_present = participant.presence == Presence::Present;
                participant.presence = Presence::Gone;
                let rank = Rank(index as u32);
                let detail = format!("{} {how}", describe(self.settings.plan.as_ref(), &participant.member));
                communicator.tell_others(rank, connection, code, &detail, out);
                if died && was_present {
                    communicator.failed_at_us.get_or_insert(self.now_us);
                    self.failures.lost(communicator, rank, (code, &detail));
                    self.revision += 1;
                }
                // The others know of one that aborted; they may have waited for what it still moved.
                if !aborted {
                    last = Some(detail);
                }
            }
            if let Some(detail) = last {
                self.fail_splits(id, ErrorCode::RankLost, |_| true, |_| detail.clone(), out);
            }
            self.end_hopeless_resizes(id, Some(connection), how, out);
        }
    }

    /// Ends the resizes of `id` that can no longer happen.
    fn end_hopeless_resizes(
        &mut self,
        id: CommunicatorId,
        lost: Option<ConnectionId>,
        how: &str,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get(&id) else { return };
        for failed in self.resizes.end_hopeless(communicator, lost, how, self.settings.plan.as_ref()) {
            self.fail_resize(id, failed, out);
        }
    }

    /// Ends everything that ranks have waited for too long.
    pub(super) fn expire(&mut self, out: &mut Vec<Output>) {
        let (now_us, timeout_us) = (self.now_us, self.settings.timeout_us);
        let plan = self.settings.plan.as_ref();
        for failed in self.rendezvous.expire(now_us, timeout_us, &self.processes, plan) {
            self.fail_init(failed, out);
        }
        let seconds = timeout_us as f64 / 1e6;
        let ids: Vec<CommunicatorId> = self.communicators.keys().copied().collect();
        for id in ids {
            let detail = |split: &Gathering<SplitApplicant>| {
                format!("waited {seconds} s for ranks to split communicator {id}; missing: {}", list(&split.missing()))
            };
            let late = |split: &Gathering<SplitApplicant>| split.deadline_us() <= now_us;
            self.fail_splits(id, ErrorCode::TimeoutWaitingForSplit, late, detail, out);
            for failed in self.resizes.expire(id, now_us, timeout_us) {
                self.fail_resize(id, failed, out);
            }
        }
    }
}
