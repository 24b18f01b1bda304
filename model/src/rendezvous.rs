//! Unique id to communicator: ranks come together, or all of them learn why not.

use std::collections::BTreeSet;

use protocol::ids::{CommunicatorId, Rank};
use protocol::message::{Member, ToRank};
use protocol::plan::ClusterPlan;
use protocol::record::ErrorCode;

use crate::cluster::{Cluster, ConnectionId, Output, send, whereabouts};
use crate::communicator::Communicator;
use crate::gathering::Gathering;

/// A rank waiting for its communicator.
#[derive(Debug)]
pub(crate) struct Applicant {
    pub(crate) connection: ConnectionId,
    pub(crate) request: u64,
    pub(crate) member: Member,
}

/// A rendezvous that failed before everybody came: late ranks must not wait for those who were sent away.
#[derive(Debug)]
pub(crate) struct GivenUp {
    size: u32,
    untold: BTreeSet<Rank>,
    code: ErrorCode,
    detail: String,
}

/// Unique ids that are remembered at most after they formed a communicator.
const MAX_SPENT: usize = 1024;
/// Failed rendezvous that are remembered at most.
const MAX_GIVEN_UP: usize = 256;

impl Cluster {
    pub(crate) fn init(
        &mut self,
        unique_id: Vec<u8>,
        size: u32,
        rank: Rank,
        applicant: Applicant,
        now_us: u64,
        out: &mut Vec<Output>,
    ) {
        let refusal = if unique_id.len() != 128 {
            Some((ErrorCode::InvalidArgument, format!("a unique id has 128 bytes, not {}", unique_id.len())))
        } else if rank.0 >= size {
            Some((ErrorCode::InvalidArgument, format!("rank {rank} is not below the size {size}")))
        } else {
            self.does_not_fit(size, &applicant.member)
        };
        if let Some((code, detail)) = refusal {
            self.fail_init(vec![applicant], code, &[], detail, out);
            return;
        }
        if let Some(id) = self.spent.get(&unique_id) {
            let detail = format!(
                "the unique id that rank {rank} brings has formed communicator {id} already, and is good for one: it is \
                 left over in the store that it was read from (after a restart by torchrun, \
                 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 gives every attempt a store of its own)"
            );
            self.fail_init(vec![applicant], ErrorCode::DuplicateRank, &[], detail, out);
            return;
        }
        if let Some((code, detail)) = self.turned_away(&unique_id, size, rank) {
            self.fail_init(vec![applicant], code, &[], detail, out);
            return;
        }
        let deadline = now_us.saturating_add(self.settings.timeout_us);
        let gathering = self.rendezvous.entry(unique_id.clone()).or_insert_with(|| Gathering::new(size, deadline));
        let clash = if gathering.size() != size {
            let other = gathering.seated().next();
            let (other_rank, other) = other.expect("a pending rendezvous has somebody");
            Some((
                ErrorCode::WorldSizeMismatch,
                format!(
                    "rank {rank} ({}) asked for a communicator of {size} ranks, rank {other_rank} ({}) for {}",
                    whereabouts(self.settings.plan.as_ref(), &applicant.member),
                    whereabouts(self.settings.plan.as_ref(), &other.member),
                    gathering.size(),
                ),
            ))
        } else {
            gathering.seat(rank).map(|other| {
                let detail = format!(
                    "two processes came as rank {rank} of {size}: {} and {}",
                    whereabouts(self.settings.plan.as_ref(), &other.member),
                    whereabouts(self.settings.plan.as_ref(), &applicant.member),
                );
                (ErrorCode::DuplicateRank, detail)
            })
        };
        if let Some((code, detail)) = clash {
            let gathering = self.rendezvous.remove(&unique_id).expect("it is there");
            let mut untold = gathering.missing();
            untold.retain(|missing| *missing != rank);
            self.give_up(unique_id, gathering.size(), untold, code, &detail);
            let mut all: Vec<Applicant> = gathering.into_seated().map(|(_, applicant)| applicant).collect();
            all.push(applicant);
            // Who differs in size depends on who came first; who came twice does not.
            let culprits: &[Rank] = if code == ErrorCode::DuplicateRank { &[rank] } else { &[] };
            self.fail_init(all, code, culprits, detail, out);
            return;
        }
        gathering.sit(rank, applicant);
        if gathering.is_full() {
            let gathering = self.rendezvous.remove(&unique_id).expect("it is there");
            let applicants = gathering.into_seated().map(|(_, applicant)| applicant).collect();
            self.spend(unique_id, CommunicatorId(self.communicators.len() as u64 + 1));
            self.form(None, applicants, out);
        } else {
            self.fail_hopeless_rendezvous(out);
        }
    }

    /// Why a communicator of `size` ranks with this member cannot be in the cluster, if it cannot.
    pub(crate) fn does_not_fit(&self, size: u32, member: &Member) -> Option<(ErrorCode, String)> {
        let world = self.settings.plan.as_ref().map(ClusterPlan::world_size)?;
        if size > world {
            let detail = format!("a communicator of {size} ranks does not fit the cluster, which has {world}");
            return Some((ErrorCode::WorldSizeMismatch, detail));
        }
        let global = member.global_rank;
        let last = world.saturating_sub(1);
        let detail = format!("global rank {global} is not in the cluster, which has ranks 0 to {last}");
        (global.0 >= world).then_some((ErrorCode::InvalidArgument, detail))
    }

    /// A unique id has formed communicator `id`.
    fn spend(&mut self, unique_id: Vec<u8>, id: CommunicatorId) {
        self.spent.insert(unique_id, id);
        if self.spent.len() > MAX_SPENT {
            // The oldest: most ids are never seen again.
            if let Some(oldest) = self.spent.iter().min_by_key(|(_, id)| **id).map(|(key, _)| key.clone()) {
                self.spent.remove(&oldest);
            }
        }
    }

    pub(crate) fn give_up(&mut self, unique_id: Vec<u8>, size: u32, untold: Vec<Rank>, code: ErrorCode, detail: &str) {
        if untold.is_empty() {
            return;
        }
        let untold = untold.into_iter().collect();
        self.given_up.insert(unique_id, GivenUp { size, untold, code, detail: detail.to_owned() });
        if self.given_up.len() > MAX_GIVEN_UP {
            self.given_up.pop_first();
        }
    }

    /// Why `rank` comes too late for a rendezvous that failed without it; it is told once.
    pub(crate) fn turned_away(&mut self, unique_id: &[u8], size: u32, rank: Rank) -> Option<(ErrorCode, String)> {
        let given_up = self.given_up.get_mut(unique_id).filter(|given_up| given_up.size == size)?;
        if !given_up.untold.remove(&rank) {
            return None;
        }
        let answer = (given_up.code, given_up.detail.clone());
        if given_up.untold.is_empty() {
            self.given_up.remove(unique_id);
        }
        Some(answer)
    }

    pub(crate) fn fail_init(
        &mut self,
        applicants: Vec<Applicant>,
        code: ErrorCode,
        culprits: &[Rank],
        detail: String,
        out: &mut Vec<Output>,
    ) {
        self.revision += 1;
        let observed: Vec<Rank> = applicants.iter().map(|applicant| applicant.member.global_rank).collect();
        for rank in &observed {
            self.ledger.count_failure(*rank, code);
            self.join_failed(*rank, &detail);
        }
        self.failures.rendezvous(code, observed, culprits.to_vec(), detail.clone());
        for applicant in applicants {
            let message = ToRank::RequestFailed { request: applicant.request, code, detail: detail.clone() };
            send(out, applicant.connection, message);
        }
    }

    /// A new communicator of `applicants`, who are in rank order.
    pub(crate) fn form(
        &mut self,
        parent: Option<CommunicatorId>,
        applicants: Vec<Applicant>,
        out: &mut Vec<Output>,
    ) -> CommunicatorId {
        self.revision += 1;
        let id = CommunicatorId(self.communicators.len() as u64 + 1);
        let members: Vec<Member> = applicants.iter().map(|applicant| applicant.member.clone()).collect();
        for (rank, applicant) in applicants.iter().enumerate() {
            self.ledger.count_init(applicant.member.global_rank, applicant.member.pid);
            self.endings.joined(applicant.member.global_rank);
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
        let seats = applicants.into_iter().map(|applicant| (applicant.connection, applicant.member)).collect();
        self.communicators.insert(id, Communicator::new(id, parent, seats));
        id
    }
}
