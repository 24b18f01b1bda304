//! From a unique id to a communicator: ranks come together, or all of them learn why they cannot.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::{CommunicatorId, Rank};
use protocol::plan::ClusterPlan;
use protocol::record::ErrorCode;

use crate::ending::Endings;
use crate::exchange::ConnectionId;
use crate::gathering::{Applicant, Gathering, Waiting, list};
use crate::placement::{describe, misfit, whereabouts};
use crate::processes::Processes;

/// The most unique ids that are remembered after they formed a communicator.
const MAX_SPENT: usize = 1024;
/// The most failed rendezvous that are remembered.
const MAX_GIVEN_UP: usize = 256;

/// Every rendezvous of a run, by unique id.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    pending: BTreeMap<Vec<u8>, Gathering<Applicant>>,
    given_up: BTreeMap<Vec<u8>, GivenUp>,
    /// Unique ids that formed a communicator.
    spent: BTreeMap<Vec<u8>, CommunicatorId>,
}

/// A rendezvous that failed before all ranks arrived: late ranks must not wait for those that were sent away.
#[derive(Debug)]
struct GivenUp {
    size: u32,
    /// Ranks that do not know about the failure.
    unaware: BTreeSet<Rank>,
    code: ErrorCode,
    detail: String,
}

/// The outcome for a rank that brings a unique id.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It waits for others.
    Waits,
    /// All ranks have arrived; they are in rank order.
    Complete(Vec<Applicant>),
    /// These get no communicator.
    Failed(Failed),
}

/// Ranks that get no communicator, and why.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) applicants: Vec<Applicant>,
    pub(crate) code: ErrorCode,
    /// Global ranks.
    pub(crate) culprits: Vec<Rank>,
    pub(crate) detail: String,
}

impl Rendezvous {
    /// `rank` of `size` brings a unique id. The communicator, if it forms now, will be `next`.
    pub(crate) fn come(
        &mut self,
        unique_id: Vec<u8>,
        (size, rank): (u32, Rank),
        applicant: Applicant,
        plan: Option<&ClusterPlan>,
        deadline_us: u64,
        next: CommunicatorId,
    ) -> Outcome {
        if let Some((code, detail)) = self.refusal(&unique_id, size, rank, &applicant, plan) {
            return Outcome::Failed(Failed { applicants: vec![applicant], code, culprits: Vec::new(), detail });
        }
        let gathering = self.pending.entry(unique_id.clone()).or_insert_with(|| Gathering::new(size, deadline_us));
        let clash = if gathering.size() != size {
            let other = gathering.arrivals().next();
            let (other_rank, other) = other.expect("a pending rendezvous has a rank");
            Some((
                ErrorCode::WorldSizeMismatch,
                format!(
                    "rank {rank} ({}) asked for a communicator of {size} ranks, rank {other_rank} ({}) for {}",
                    whereabouts(plan, &applicant.member),
                    whereabouts(plan, &other.member),
                    gathering.size(),
                ),
            ))
        } else {
            gathering.arrival(rank).map(|other| {
                let detail = format!(
                    "two processes joined as rank {rank} of {size}: {} and {}",
                    whereabouts(plan, &other.member),
                    whereabouts(plan, &applicant.member),
                );
                (ErrorCode::DuplicateRank, detail)
            })
        };
        if let Some((code, detail)) = clash {
            let gathering = self.pending.remove(&unique_id).expect("it is there");
            let mut unaware = gathering.missing();
            unaware.retain(|missing| *missing != rank);
            self.give_up(unique_id, gathering.size(), unaware, code, &detail);
            // Which rank differs in size depends on the order of arrival; which came twice does not.
            let mut culprits = Vec::new();
            if code == ErrorCode::DuplicateRank {
                let twice = gathering.arrival(rank).into_iter().chain([&applicant]);
                culprits.extend(twice.map(|applicant| applicant.member.global_rank));
                culprits.sort_unstable();
                culprits.dedup();
            }
            let mut applicants: Vec<Applicant> = gathering.into_arrivals().map(|(_, applicant)| applicant).collect();
            applicants.push(applicant);
            return Outcome::Failed(Failed { applicants, code, culprits, detail });
        }
        gathering.arrive(rank, applicant);
        if !gathering.is_full() {
            return Outcome::Waits;
        }
        let gathering = self.pending.remove(&unique_id).expect("it is there");
        if let Some((culprits, detail)) = gathering.shared_gpu() {
            let culprits = gathering.global_ranks(&culprits);
            let applicants = gathering.into_arrivals().map(|(_, applicant)| applicant).collect();
            return Outcome::Failed(Failed { applicants, code: ErrorCode::SharedDevice, culprits, detail });
        }
        self.spend(unique_id, next);
        Outcome::Complete(gathering.into_arrivals().map(|(_, applicant)| applicant).collect())
    }

    /// Why a rank cannot wait for the others, if it cannot.
    fn refusal(
        &mut self,
        unique_id: &[u8],
        size: u32,
        rank: Rank,
        applicant: &Applicant,
        plan: Option<&ClusterPlan>,
    ) -> Option<(ErrorCode, String)> {
        if unique_id.len() != 128 {
            let detail = format!("a unique id has 128 bytes, not {}", unique_id.len());
            return Some((ErrorCode::InvalidArgument, detail));
        }
        if rank.0 >= size {
            return Some((ErrorCode::InvalidArgument, format!("rank {rank} is not below the size {size}")));
        }
        if let Some(misfit) = misfit(plan, size, &applicant.member) {
            return Some(misfit);
        }
        if let Some(id) = self.spent.get(unique_id) {
            let detail = format!(
                "the unique id that rank {rank} brings has formed communicator {id} already, and is good for one: it is \
                 left over in the store that it was read from (after a restart by torchrun, \
                 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 gives every attempt a store of its own)"
            );
            return Some((ErrorCode::DuplicateRank, detail));
        }
        self.turned_away(unique_id, size, rank)
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

    fn give_up(&mut self, unique_id: Vec<u8>, size: u32, unaware: Vec<Rank>, code: ErrorCode, detail: &str) {
        if unaware.is_empty() {
            return;
        }
        let unaware = unaware.into_iter().collect();
        self.given_up.insert(unique_id, GivenUp { size, unaware, code, detail: detail.to_owned() });
        if self.given_up.len() > MAX_GIVEN_UP {
            self.given_up.pop_first();
        }
    }

    /// Why `rank` is too late for a rendezvous that failed without it; it is told once.
    fn turned_away(&mut self, unique_id: &[u8], size: u32, rank: Rank) -> Option<(ErrorCode, String)> {
        let given_up = self.given_up.get_mut(unique_id).filter(|given_up| given_up.size == size)?;
        if !given_up.unaware.remove(&rank) {
            return None;
        }
        let answer = (given_up.code, given_up.detail.clone());
        if given_up.unaware.is_empty() {
            self.given_up.remove(unique_id);
        }
        Some(answer)
    }

    /// Ends every rendezvous in which the process of `connection` waits. `how` completes "rank 2 (pid 4711, node1) ...".
    pub(crate) fn lose(&mut self, connection: ConnectionId, how: &str, plan: Option<&ClusterPlan>) -> Vec<Failed> {
        let theirs = |applicant: &Applicant| applicant.connection == connection;
        let waiting: Vec<Vec<u8>> = self
            .pending
            .iter()
            .filter(|(_, gathering)| gathering.arrivals().any(|(_, applicant)| theirs(applicant)))
            .map(|(id, _)| id.clone())
            .collect();
        let mut failed = Vec::new();
        for unique_id in waiting {
            let Some(gathering) = self.pending.remove(&unique_id) else { continue };
            let (size, unaware) = (gathering.size(), gathering.missing());
            let (lost, others): (Vec<_>, Vec<_>) = gathering.into_arrivals().partition(|(_, who)| theirs(who));
            let Some((_, first)) = lost.first() else { continue };
            let detail = format!("{} {how} before the communicator formed", describe(plan, &first.member));
            self.give_up(unique_id, size, unaware, ErrorCode::RankLost, &detail);
            failed.push(Failed {
                applicants: others.into_iter().map(|(_, applicant)| applicant).collect(),
                code: ErrorCode::RankLost,
                culprits: lost.iter().map(|(_, lost)| lost.member.global_rank).collect(),
                detail,
            });
        }
        failed
    }

    /// Ends every rendezvous in which ranks have waited too long, `timeout_us`.
    pub(crate) fn expire(
        &mut self,
        now_us: u64,
        timeout_us: u64,
        processes: &Processes,
        plan: Option<&ClusterPlan>,
    ) -> Vec<Failed> {
        let seconds = timeout_us as f64 / 1e6;
        let late: Vec<_> = self.pending.extract_if(.., |_, gathering| gathering.deadline_us() <= now_us).collect();
        let fail = |(unique_id, gathering): (Vec<u8>, Gathering<Applicant>)| {
            let missing = gathering.missing();
            let detail = format!(
                "waited {seconds} s for ranks of a communicator of {}; missing: {}",
                gathering.size(),
                list(&missing)
            );
            let code = ErrorCode::TimeoutWaitingForRanks;
            let culprits =
                if has_numbers_of_launch(&gathering, processes, plan) { missing.clone() } else { Vec::new() };
            self.give_up(unique_id, gathering.size(), missing, code, &detail);
            let applicants = gathering.into_arrivals().map(|(_, applicant)| applicant).collect();
            Failed { applicants, code, culprits, detail }
        };
        late.into_iter().map(fail).collect()
    }

    /// Ends every rendezvous that can no longer complete: no process is left that could bring the missing ranks.
    pub(crate) fn end_hopeless(
        &mut self,
        endings: &Endings,
        processes: &Processes,
        plan: Option<&ClusterPlan>,
    ) -> Vec<Failed> {
        let hopeless = |gathering: &Gathering<Applicant>| missed_for_ever(gathering, endings, processes);
        let ended: Vec<(Vec<u8>, Rank)> =
            self.pending.iter().filter_map(|(id, gathering)| Some((id.clone(), hopeless(gathering)?))).collect();
        let mut failed = Vec::new();
        for (unique_id, rank) in ended {
            let Some(gathering) = self.pending.remove(&unique_id) else { continue };
            let how = endings.how_ended(rank, processes).unwrap_or("ended");
            let node = plan.and_then(|plan| plan.node_of(rank));
            let place = node.map(|(_, node)| format!(" ({})", node.id)).unwrap_or_default();
            let detail = format!("rank {rank}{place} {how} without joining the communicator");
            let same = has_numbers_of_launch(&gathering, processes, plan) && gathering.missing().contains(&rank);
            let culprits = if same { vec![rank] } else { Vec::new() };
            let code = ErrorCode::RankLost;
            self.give_up(unique_id, gathering.size(), gathering.missing(), code, &detail);
            let applicants = gathering.into_arrivals().map(|(_, applicant)| applicant).collect();
            failed.push(Failed { applicants, code, culprits, detail });
        }
        failed
    }

    /// When the waiting ranks time out, us.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = u64> {
        self.pending.values().map(Gathering::deadline_us)
    }

    /// What ranks wait for.
    pub(crate) fn gatherings(&self) -> impl Iterator<Item = &Gathering<Applicant>> {
        self.pending.values()
    }

    /// Which ranks wait for which.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.pending.values().map(|gathering| gathering.waiting(format!("communicator of {} ranks", gathering.size())))
    }
}

/// Whether this is going to be a communicator of all ranks of the launch in which, as far as can be told, they keep their
/// numbers.
pub(crate) fn has_numbers_of_launch(
    gathering: &Gathering<Applicant>,
    processes: &Processes,
    plan: Option<&ClusterPlan>,
) -> bool {
    let is_own = |(rank, applicant): (Rank, &Applicant)| {
        let launched = processes.get(applicant.connection).and_then(|process| process.info.rank);
        applicant.member.is_only && applicant.member.global_rank == rank && launched.is_none_or(|own| own == rank)
    };
    launched(gathering, processes).or_else(|| plan.map(ClusterPlan::world_size)) == Some(gathering.size())
        && gathering.arrivals().all(is_own)
}

/// How many ranks were launched, according to one that waits there.
fn launched(gathering: &Gathering<Applicant>, processes: &Processes) -> Option<u32> {
    gathering.arrivals().find_map(|(_, applicant)| processes.get(applicant.connection)?.info.world_size)
}

/// The first process of the launch that ended and left `gathering` incomplete for good: every other has ended as well, or waits
/// there and brings no further rank. `None` if that is not certain: a rank of a communicator is not a process of the launch, and
/// any process that lives may bring several.
fn missed_for_ever(gathering: &Gathering<Applicant>, endings: &Endings, processes: &Processes) -> Option<Rank> {
    let launched = launched(gathering, processes)?;
    // More ranks than processes: there are others, which the launch does not count.
    if gathering.size() > launched {
        return None;
    }
    let own = |applicant: &Applicant| processes.get(applicant.connection)?.info.rank;
    let here = gathering.arrivals().map(|(_, applicant)| own(applicant).filter(|_| applicant.member.is_only));
    let here: BTreeSet<Rank> = here.collect::<Option<_>>()?;
    let absent: Vec<Rank> = (0..launched).map(Rank).filter(|rank| !here.contains(rank)).collect();
    let have_ended = absent.iter().all(|rank| endings.how_ended(*rank, processes).is_some());
    absent.first().copied().filter(|_| have_ended)
}
