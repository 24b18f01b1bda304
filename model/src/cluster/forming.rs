//! Communicators that form, from a unique id or a parent, and those that fail to.

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{Member, ToRank};
use protocol::record::ErrorCode;

use super::Cluster;
use crate::communicator::{Communicator, Participant, Presence};
use crate::exchange::{Output, refuse, send};
use crate::failure::RankFailure;
use crate::gathering::{Applicant, Gathering};
use crate::ledger::NO_SEQUENCE;
use crate::placement::describe;
use crate::rendezvous;
use crate::resize::{self, Recovery, Resize, Times, shrink_of};
use crate::site::Call;
use crate::split::{self, SplitApplicant};

impl Cluster {
    pub(super) fn init(
        &mut self,
        unique_id: Vec<u8>,
        size: u32,
        rank: Rank,
        applicant: Applicant,
        out: &mut Vec<Output>,
    ) {
        let (next, deadline) = (self.next_id(), self.deadline_from_now());
        let plan = self.settings.plan.as_ref();
        match self.rendezvous.come(unique_id, (size, rank), applicant, plan, deadline, next) {
            rendezvous::Outcome::Waits => self.end_hopeless_rendezvous(out),
            rendezvous::Outcome::Failed(failed) => self.fail_init(failed, out),
            rendezvous::Outcome::Complete(applicants) => {
                self.form(None, applicants, out);
            }
        }
    }

    pub(super) fn split(
        &mut self,
        (parent, sequence, rank): (CommunicatorId, Sequence, Rank),
        who: SplitApplicant,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get(&parent) else {
            return refuse_unknown(parent, &who.applicant, out);
        };
        let deadline = self.deadline_from_now();
        match self.splits.come(communicator, sequence, rank, who, self.settings.plan.as_ref(), deadline) {
            split::Outcome::Waits => {}
            split::Outcome::Refused(Applicant { connection, request, .. }, code, detail) => {
                refuse(out, connection, request, code, detail);
            }
            split::Outcome::Complete(children) => {
                for group in children.groups {
                    self.form(Some(parent), group, out);
                }
                for Applicant { connection, request, .. } in children.colorless {
                    send(out, connection, ToRank::NoCommunicator { request });
                }
            }
        }
    }

    pub(super) fn shrink(
        &mut self,
        (parent, sequence, rank): (CommunicatorId, Sequence, Rank),
        excluded: Vec<Rank>,
        abort: bool,
        applicant: Applicant,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get(&parent) else {
            return refuse_unknown(parent, &applicant, out);
        };
        let resize = match shrink_of(communicator, (sequence, rank), excluded, applicant.connection) {
            Ok(resize) => resize,
            Err((code, detail)) => return refuse(out, applicant.connection, applicant.request, code, detail),
        };
        if abort {
            self.announce_stop(communicator, rank, out);
        }
        let (plan, times) = (self.settings.plan.as_ref(), self.times());
        let outcome = self.resizes.come_to_shrink(communicator, resize, (rank, abort), applicant, plan, times);
        self.resized(parent, outcome, out);
    }

    pub(super) fn grow(
        &mut self,
        (parent, sequence, rank): (CommunicatorId, Sequence, Rank),
        size: u32,
        applicant: Applicant,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get(&parent) else {
            let detail = format!("the unique id is of communicator {parent}, which is not known in this run");
            return refuse(out, applicant.connection, applicant.request, ErrorCode::InvalidArgument, detail);
        };
        let (plan, times) = (self.settings.plan.as_ref(), self.times());
        let outcome = self.resizes.come_to_grow(communicator, (sequence, rank), size, applicant, plan, times);
        self.resized(parent, outcome, out);
    }

    /// Wakes the ranks that wait for `rank`, which ended its operations to shrink. If a rank was lost before, that counts as a
    /// consequence of the loss.
    fn announce_stop(&self, communicator: &Communicator, rank: Rank, out: &mut Vec<Output>) {
        let loss = communicator
            .participants
            .iter()
            .any(|participant| matches!(participant.presence, Presence::Gone | Presence::Aborted));
        let code = if loss { ErrorCode::RankLost } else { ErrorCode::Aborted };
        let participant = &communicator.participants[rank.0 as usize];
        let name = describe(self.settings.plan.as_ref(), &participant.member);
        let detail = format!("{name} called ncclCommShrink with NCCL_SHRINK_ABORT");
        communicator.tell_others(rank, participant.connection, code, &detail, out);
    }

    /// Carries out the results of a rank's request to resize `parent`.
    fn resized(&mut self, parent: CommunicatorId, outcome: resize::Outcome, out: &mut Vec<Output>) {
        if let Some((Applicant { connection, request, .. }, code, detail)) = outcome.refused {
            refuse(out, connection, request, code, detail);
        }
        for failed in outcome.failed {
            self.fail_resize(parent, failed, out);
        }
        let Some(resize::Complete { resize, gathering, abort, since_us }) = outcome.complete else { return };
        let Some(communicator) = self.communicators.get(&parent) else { return };
        let failed_at = communicator.failed_at_us.unwrap_or(since_us);
        let recovery = resize.excluded().map(|excluded| {
            let global = |rank: &Rank| communicator.global_rank(*rank).unwrap_or(*rank);
            let survivors: Vec<Rank> = gathering.arrivals().map(|(rank, _)| global(&rank)).collect();
            (excluded.iter().map(global).collect(), survivors)
        });
        let sequence = Sequence(self.ledger.completed(parent).0 + 1);
        let applicants = gathering.into_arrivals().map(|(_, applicant)| applicant).collect();
        let child = self.form(Some(parent), applicants, out);
        if let Some((excluded, survivors)) = recovery {
            let time_us = self.now_us.saturating_sub(failed_at);
            self.recoveries.push(Recovery { parent, child, sequence, abort, excluded, survivors, time_us });
        }
    }

    /// Ends every rendezvous that can no longer complete.
    pub(super) fn end_hopeless_rendezvous(&mut self, out: &mut Vec<Output>) {
        let plan = self.settings.plan.as_ref();
        for failed in self.rendezvous.end_hopeless(&self.endings, &self.processes, plan) {
            self.fail_init(failed, out);
        }
    }

    pub(super) fn fail_init(&mut self, failed: rendezvous::Failed, out: &mut Vec<Output>) {
        let rendezvous::Failed { applicants, code, culprits, detail } = failed;
        self.revision += 1;
        let call = |applicant: &Applicant| (applicant.member.global_rank, Call::from_applicant(applicant, None));
        let observed: Vec<(Rank, Call)> = applicants.iter().map(call).collect();
        for applicant in &applicants {
            let global = applicant.member.global_rank;
            self.ledger.count_failure(global, code);
            self.endings.join_failed(self.processes.rank_of(applicant.connection, global), &detail);
        }
        self.failures.rendezvous(code, observed, culprits, detail.clone());
        for Applicant { connection, request, .. } in applicants {
            refuse(out, connection, request, code, detail.clone());
        }
    }

    /// Ends the splits of `id` that `which` selects.
    pub(super) fn fail_splits(
        &mut self,
        id: CommunicatorId,
        code: ErrorCode,
        which: impl Fn(&Gathering<SplitApplicant>) -> bool,
        detail: impl Fn(&Gathering<SplitApplicant>) -> String,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get(&id) else { return };
        for (sequence, split) in self.splits.take(id, which) {
            self.revision += 1;
            let detail = detail(&split);
            let missing = split.missing();
            for (rank, SplitApplicant { applicant, .. }) in split.arrivals() {
                refuse(out, applicant.connection, applicant.request, code, detail.clone());
                self.ledger.count_failure(applicant.member.global_rank, code);
                let (operation, attempted_bytes) = (Operation::Split, 0);
                let (detail, culprits) = (detail.as_str(), &missing[..]);
                let call = Call::from_applicant(applicant, Some(operation));
                let failure = RankFailure { sequence, rank, operation, code, detail, culprits, attempted_bytes, call };
                self.failures.by_rank(communicator, failure);
            }
        }
    }

    /// Answers all ranks that wait for a failed resize of `parent`.
    pub(super) fn fail_resize(&mut self, parent: CommunicatorId, failed: resize::Failed, out: &mut Vec<Output>) {
        let Some(communicator) = self.communicators.get(&parent) else { return };
        let resize::Failed { resize, gathering, code, detail, culprits } = failed;
        self.revision += 1;
        let shrinks = matches!(resize, Resize::Shrink { .. });
        let mut observed = Vec::new();
        for (rank, applicant) in gathering.arrivals() {
            refuse(out, applicant.connection, applicant.request, code, detail.clone());
            self.ledger.count_failure(applicant.member.global_rank, code);
            let call = Call::from_applicant(applicant, Some(resize.operation()));
            observed.push((applicant.member.global_rank, call));
            if shrinks {
                let (sequence, operation, attempted_bytes) = (NO_SEQUENCE, resize.operation(), 0);
                let (detail, culprits) = (detail.as_str(), &culprits[..]);
                let failure = RankFailure { sequence, rank, operation, code, detail, culprits, attempted_bytes, call };
                self.failures.by_rank(communicator, failure);
            }
        }
        if !shrinks {
            let global = |rank: &Rank| match communicator.global_rank(*rank) {
                None => Some(gathering.arrival(*rank)?.member.global_rank),
                known => known,
            };
            let culprits = culprits.iter().filter_map(global).collect();
            self.failures.rendezvous(code, observed, culprits, detail);
        }
    }

    /// A new communicator of `applicants`, which are in rank order.
    fn form(
        &mut self,
        parent: Option<CommunicatorId>,
        applicants: Vec<Applicant>,
        out: &mut Vec<Output>,
    ) -> CommunicatorId {
        self.revision += 1;
        let id = self.next_id();
        let members: Vec<Member> = applicants.iter().map(|applicant| applicant.member.clone()).collect();
        for (rank, applicant) in applicants.iter().enumerate() {
            self.ledger.count_init(applicant.member.global_rank, applicant.member.pid);
            self.endings.joined(self.processes.rank_of(applicant.connection, applicant.member.global_rank));
            send(
                out,
                applicant.connection,
                ToRank::CommunicatorFormed {
                    request: applicant.request,
                    communicator: id,
                    rank: Rank(rank as u32),
                    members: members.clone(),
                },
            );
        }
        let participant = |Applicant { connection, member, .. }: Applicant| {
            let process = self.processes.rank_of(connection, member.global_rank);
            Participant { connection, member, process, presence: Presence::Present, revoked: false }
        };
        let participants = applicants.into_iter().map(participant).collect();
        self.communicators.insert(id, Communicator { id, parent, participants, failed_at_us: None });
        id
    }

    fn next_id(&self) -> CommunicatorId {
        CommunicatorId(self.communicators.len() as u64 + 1)
    }

    /// Until when a rank that arrives now waits, us.
    fn deadline_from_now(&self) -> u64 {
        self.now_us.saturating_add(self.settings.timeout_us)
    }

    fn times(&self) -> Times {
        Times { now_us: self.now_us, deadline_us: self.deadline_from_now() }
    }
}

fn refuse_unknown(parent: CommunicatorId, applicant: &Applicant, out: &mut Vec<Output>) {
    let detail = format!("communicator {parent} is not known");
    refuse(out, applicant.connection, applicant.request, ErrorCode::UnknownCommunicator, detail);
}
