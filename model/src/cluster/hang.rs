//! Which ranks wait for which: turns the calls that every rank reports into the sentence that explains why nothing moves anymore.

use std::collections::{BTreeMap, BTreeSet};

use protocol::activity::{Activation, Activity};
use protocol::datatype::Operation;
use protocol::ids::{self, CommunicatorId, Rank, Sequence, SiteId};
use protocol::report::{FindingSite, Hang, HangWait};

use super::Cluster;
use crate::communicator::{Communicator, Participant, Presence};
use crate::exchange::ConnectionId;
use crate::rendezvous::has_numbers_of_launch;
use crate::site::Call;
use crate::split::SplitApplicant;

/// How many groups of waiting ranks the sentence names; the list of waits has all of them.
const NAMED: usize = 8;

/// The ranks that wait, and how long each has waited, us; in the order of [`Hang::waits`].
#[derive(Clone, Debug, PartialEq)]
pub struct FoundHang {
    /// What goes into the report.
    pub hang: Hang,
    /// How long each of its ranks has waited so far.
    pub waited_us: Vec<u64>,
    /// The ranks that the launcher gave the processes of those that are missing.
    pub missing_processes: Vec<Rank>,
}

impl FoundHang {
    /// The hang, with files named from `root` where they lie there.
    pub fn hang_below(&self, root: Option<&str>) -> Hang {
        let sites = self.hang.sites.iter().map(|site| site.clone().below(root)).collect();
        Hang { sites, ..self.hang.clone() }
    }
}

/// One rank in one operation at which others have not arrived.
struct Wait {
    rank: Rank,
    comm_id: Option<CommunicatorId>,
    sequence: Sequence,
    operation: String,
    place: String,
    missing: Vec<Rank>,
    /// The missing rank's number there, if its number in the launch is not known.
    unknown: String,
    age_us: u64,
    call: Call,
}

impl Cluster {
    /// The waits for ranks that never arrive, from the calls that all processes reported. Waits shorter than `at_least_us` do
    /// not count. `None`: no rank waits.
    pub fn diagnose(&self, activities: &[Activity], at_least_us: u64, now_us: u64) -> Option<FoundHang> {
        let said: BTreeMap<(CommunicatorId, Rank), &Activity> =
            activities.iter().map(|activity| ((activity.communicator, activity.rank), activity)).collect();
        let mut waits = self.waits_in_operations(&said);
        waits.extend(self.waits_for_communicators(now_us));
        waits.retain(|wait| wait.age_us >= at_least_us);
        waits.sort_by(|left, right| {
            (left.rank, left.comm_id, left.sequence, &left.operation).cmp(&(
                right.rank,
                right.comm_id,
                right.sequence,
                &right.operation,
            ))
        });
        if waits.is_empty() {
            return None;
        }
        let waiting: BTreeSet<Rank> = waits.iter().map(|wait| wait.rank).collect();
        let missing: BTreeSet<Rank> =
            waits.iter().flat_map(|wait| &wait.missing).copied().filter(|rank| !waiting.contains(rank)).collect();
        let missing_processes: BTreeSet<Rank> = missing.iter().map(|rank| self.process_of(*rank, &waits)).collect();
        let cycle = if missing.is_empty() { cycle(&waits) } else { Vec::new() };
        let mut parts = sentences(&waits);
        parts.extend(missing.iter().map(|rank| self.absence(*rank, &waits, &said)));
        if waits.iter().any(|wait| !wait.unknown.is_empty()) {
            // Whoever is meant, these processes do not come.
            let own = |wait: &Wait| self.processes.rank_of(wait.call.place().0, wait.rank);
            let waiting: BTreeSet<Rank> = waits.iter().map(own).collect();
            let lost = self.endings.lost_ranks(&self.processes).into_iter();
            let lost = lost.filter(|rank| !missing_processes.contains(rank) && !waiting.contains(rank));
            parts.extend(lost.map(|rank| self.absence(rank, &waits, &said)));
        }
        if let Some(first) = cycle.first() {
            let mut names: Vec<String> = cycle.iter().map(|rank| format!("rank {rank}")).collect();
            names.push(format!("rank {first}"));
            parts.push(format!("each waits for the next: {}", names.join(" -> ")));
        }
        let waited_us = waits.iter().map(|wait| wait.age_us).collect();
        let sites = self.hang_sites(&waits, &missing, &said);
        let waits = waits
            .into_iter()
            .map(|wait| HangWait {
                rank: wait.rank,
                comm_id: wait.comm_id,
                seqno: wait.sequence,
                operation: wait.operation,
                for_ranks: wait.missing,
            })
            .collect();
        let hang = Hang { sentence: parts.join("; "), waits, missing: missing.into_iter().collect(), cycle, sites };
        Some(FoundHang { hang, waited_us, missing_processes: missing_processes.into_iter().collect() })
    }

    /// Where the waiting ranks are in the program, and what the `missing` ones did last, by rank.
    fn hang_sites(
        &self,
        waits: &[Wait],
        missing: &BTreeSet<Rank>,
        said: &BTreeMap<(CommunicatorId, Rank), &Activity>,
    ) -> Vec<FindingSite> {
        let waiting = waits.iter().filter_map(|wait| self.finding_site(wait.rank, &wait.call, false, None));
        let last = missing.iter().filter_map(|rank| {
            let (_, communicator, local) = self.awaited_in(*rank, waits)?;
            let participant = &communicator.participants[local.0 as usize];
            let init = Call::new(participant.connection, participant.member.site, None, Sequence(0));
            let recent =
                said.get(&(communicator.id, local)).map(|activity| activity.recent.as_slice()).unwrap_or_default();
            // A barrier of ours has no place.
            let known = recent.iter().rev().find(|activation| activation.site != SiteId::default());
            let call = known.map_or(init, |activation| called(participant.connection, activation));
            self.finding_site(*rank, &call, true, None)
        });
        let mut sites: Vec<FindingSite> = waiting.chain(last).collect();
        sites.sort_by_key(|site| site.rank);
        sites
    }

    /// The communicator in which others wait for `rank`: its number in the report, the communicator, and the rank's
    /// number there.
    fn awaited_in(&self, rank: Rank, waits: &[Wait]) -> Option<(CommunicatorId, &Communicator, Rank)> {
        let number = waits.iter().find(|wait| wait.missing.contains(&rank))?.comm_id?;
        let numbers = self.numbers();
        let id = numbers.iter().find(|(_, known)| **known == number).map(|(id, _)| *id)?;
        let communicator = self.communicators.get(&id)?;
        let at = communicator.global_ranks().iter().position(|global| *global == rank)?;
        Some((number, communicator, Rank(at as u32)))
    }

    /// The place in the launch of the process that is `rank` for those that wait for it.
    fn process_of(&self, rank: Rank, waits: &[Wait]) -> Rank {
        let awaited = self.awaited_in(rank, waits);
        awaited.map_or(rank, |(_, communicator, local)| communicator.participants[local.0 as usize].process)
    }

    fn waits_in_operations(&self, said: &BTreeMap<(CommunicatorId, Rank), &Activity>) -> Vec<Wait> {
        let numbers = self.numbers();
        let mut waits = Vec::new();
        for (&(id, rank), activity) in said {
            let Some(communicator) = self.communicators.get(&id) else { continue };
            let Some(global) = communicator.global_rank(rank) else { continue };
            for operation in activity.current.iter().filter(|operation| operation.took_us.is_none()) {
                let missing: Vec<Rank> = absent(communicator, rank, operation, said);
                if missing.is_empty() {
                    continue;
                }
                let number = numbers[&id];
                let place = match operation.sequence {
                    Sequence(0) => format!("in communicator {number}"),
                    sequence => format!("collective {sequence} of communicator {number}"),
                };
                waits.push(Wait {
                    rank: global,
                    comm_id: Some(number),
                    sequence: operation.sequence,
                    operation: operation.describe(),
                    place,
                    missing: missing.into_iter().filter_map(|rank| communicator.global_rank(rank)).collect(),
                    unknown: String::new(),
                    age_us: operation.age_us,
                    call: called(communicator.participants[rank.0 as usize].connection, operation),
                });
            }
        }
        waits
    }

    fn waits_for_communicators(&self, now_us: u64) -> Vec<Wait> {
        let age = |deadline_us: u64| now_us.saturating_sub(deadline_us.saturating_sub(self.settings.timeout_us));
        let numbers = self.numbers();
        let mut waits = Vec::new();
        for gathering in self.rendezvous.gatherings() {
            let world = has_numbers_of_launch(gathering, &self.processes, self.settings.plan.as_ref());
            let missing = gathering.missing();
            for (_, applicant) in gathering.arrivals() {
                waits.push(Wait {
                    rank: applicant.member.global_rank,
                    comm_id: None,
                    sequence: Sequence(0),
                    operation: "ncclCommInitRank".to_owned(),
                    place: format!("a communicator of {} ranks", gathering.size()),
                    missing: if world { missing.clone() } else { Vec::new() },
                    unknown: if world { String::new() } else { ids::names("its rank", "its ranks", &missing) },
                    age_us: age(gathering.deadline_us()),
                    call: Call::from_applicant(applicant, None),
                });
            }
        }
        for communicator in self.communicators.values() {
            for (sequence, split) in self.splits.pending_in(communicator.id) {
                let missing: Vec<Rank> =
                    split.missing().into_iter().filter_map(|rank| communicator.global_rank(rank)).collect();
                for (_, SplitApplicant { applicant, .. }) in split.arrivals() {
                    waits.push(Wait {
                        rank: applicant.member.global_rank,
                        comm_id: Some(numbers[&communicator.id]),
                        sequence: Sequence(0),
                        operation: "ncclCommSplit".to_owned(),
                        place: format!("split {sequence} of communicator {}", numbers[&communicator.id]),
                        missing: missing.clone(),
                        unknown: String::new(),
                        age_us: age(split.deadline_us()),
                        call: Call::from_applicant(applicant, Some(Operation::Split)),
                    });
                }
            }
            for (resize, gathering) in self.resizes.pending_in(communicator.id) {
                // New ranks are known by their number in the communicator to be.
                let (known, new): (Vec<Rank>, Vec<Rank>) =
                    gathering.missing().into_iter().partition(|rank| rank.0 < communicator.size());
                let known: Vec<Rank> = known.into_iter().filter_map(|rank| communicator.global_rank(rank)).collect();
                for (_, applicant) in gathering.arrivals() {
                    waits.push(Wait {
                        rank: applicant.member.global_rank,
                        comm_id: Some(numbers[&communicator.id]),
                        sequence: Sequence(0),
                        operation: resize.function().to_owned(),
                        place: resize.place(numbers[&communicator.id], gathering.size()),
                        missing: known.clone(),
                        unknown: if new.is_empty() { String::new() } else { ids::names("new rank", "new ranks", &new) },
                        age_us: age(gathering.deadline_us()),
                        call: Call::from_applicant(applicant, Some(resize.operation())),
                    });
                }
            }
        }
        waits
    }

    /// ", after it left communicator 1": the last one of a process that has ended, and what it did there.
    fn after_leaving(&self, process: Rank) -> String {
        let numbers = self.numbers();
        let last = self.communicators.values().rev().find_map(|communicator| {
            let is_its = |(_, participant): &(usize, &Participant)| participant.process == process;
            let (local, _) = communicator.participants.iter().enumerate().find(is_its)?;
            Some((communicator.id, Rank(local as u32)))
        });
        let Some((id, local)) = last else { return String::new() };
        let number = numbers[&id];
        match self.sites.last(id, local) {
            Some(Call { operation: Some(operation), sequence: Sequence(at), .. }) if *at > 0 => {
                format!("; the last that it completed is {operation}, collective {at} of communicator {number}")
            }
            _ => format!("; it was in communicator {number}"),
        }
    }

    /// What is known about a rank that others wait for and that does not wait itself.
    fn absence(&self, rank: Rank, waits: &[Wait], said: &BTreeMap<(CommunicatorId, Rank), &Activity>) -> String {
        let Some((number, communicator, local)) = self.awaited_in(rank, waits) else {
            if let Some(how) = self.endings.how_ended(rank, &self.processes) {
                return format!("rank {rank} {how} without joining");
            }
            if let Some(why) = self.endings.why_refused(rank) {
                return format!("rank {rank} could not join: {why}");
            }
            if self.processes.has_ended(rank) {
                return format!("rank {rank} has ended{}", self.after_leaving(rank));
            }
            let joined = self.processes.has_rank(rank);
            let what = if joined { "is in no NCCL call" } else { "has not called NCCL yet" };
            return format!("rank {rank} {what}");
        };
        let process = communicator.participants[local.0 as usize].process;
        match communicator.participants[local.0 as usize].presence {
            Presence::Present => {}
            Presence::Aborted => return format!("rank {rank} has aborted communicator {number}"),
            Presence::Gone => return format!("rank {rank} has ended"),
            Presence::Left if self.processes.has_ended(process) => {
                return format!("rank {rank} has left communicator {number} and ended");
            }
            Presence::Left => return format!("rank {rank} has left communicator {number}"),
        }
        if communicator.participants[local.0 as usize].revoked {
            return format!("rank {rank} has revoked communicator {number}");
        }
        let Some(activity) = said.get(&(communicator.id, local)) else {
            return format!("rank {rank} does not answer");
        };
        let now = match activity.queued {
            0 => "is in no NCCL call".to_owned(),
            1 => "has issued an operation that its stream has not reached".to_owned(),
            queued => format!("has issued {queued} operations that its stream has not reached"),
        };
        match activity.recent.last() {
            Some(last) if last.sequence != Sequence(0) && !last.operation.is_for_two() => {
                format!(
                    "rank {rank} {now}; the last that it completed there is {}, collective {}",
                    last.describe(),
                    last.sequence
                )
            }
            Some(last) => format!("rank {rank} {now}; the last that it completed there is {}", last.describe()),
            None => format!("rank {rank} {now} and has completed nothing there"),
        }
    }
}

/// The call that `activation` stands for, made by the process behind `connection`.
fn called(connection: ConnectionId, activation: &Activation) -> Call {
    Call::new(connection, activation.site, Some(activation.operation), activation.sequence)
}

/// The ranks of `communicator` that have not arrived at the operation that `rank` is in.
fn absent(
    communicator: &Communicator,
    rank: Rank,
    operation: &Activation,
    said: &BTreeMap<(CommunicatorId, Rank), &Activity>,
) -> Vec<Rank> {
    let current = |other: Rank| said.get(&(communicator.id, other)).map(|activity| activity.current.as_slice());
    match (operation.operation.is_for_two(), operation.peer) {
        (true, Some(peer)) => {
            let counterpart =
                |other: &Activation| other.peer == Some(rank) && meets(other.operation, operation.operation);
            let met = current(peer).is_some_and(|current| current.iter().any(counterpart));
            if met { Vec::new() } else { vec![peer] }
        }
        (true, None) => Vec::new(),
        (false, _) => {
            let came = |other: Rank| {
                current(other).is_some_and(|current| {
                    current.iter().any(|theirs| {
                        !theirs.operation.is_for_two() && theirs.sequence == operation.sequence
                    })
                })
                // It came, is done, and the others are about to be.
                || said.get(&(communicator.id, other)).is_some_and(|activity| {
                    activity.recent.iter().any(|theirs| {
                        !theirs.operation.is_for_two() && theirs.sequence >= operation.sequence
                    })
                })
            };
            (0..communicator.size()).map(Rank).filter(|other| *other != rank && !came(*other)).collect()
        }
    }
}

/// Whether two ranks that are in these operations with each other are about to complete them.
fn meets(one: Operation, other: Operation) -> bool {
    use Operation::{PutSignal, Recv, Send, Signal, WaitSignal};
    match other {
        Send => one == Recv,
        Recv => one == Send,
        WaitSignal => matches!(one, PutSignal | Signal),
        // It waits for the other rank's window, not for a call of it.
        _ => false,
    }
}

/// One part per operation that ranks wait in.
fn sentences(waits: &[Wait]) -> Vec<String> {
    let mut groups: Vec<(&Wait, Vec<Rank>)> = Vec::new();
    for wait in waits {
        let same = |group: &&mut (&Wait, Vec<Rank>)| {
            let (first, _) = group;
            (&first.operation, &first.place, &first.missing, &first.unknown)
                == (&wait.operation, &wait.place, &wait.missing, &wait.unknown)
        };
        match groups.iter_mut().find(same) {
            Some((_, ranks)) => ranks.push(wait.rank),
            None => groups.push((wait, vec![wait.rank])),
        }
    }
    let more = groups.len().saturating_sub(NAMED);
    let mut parts: Vec<String> = groups
        .into_iter()
        .take(NAMED)
        .map(|(wait, mut ranks)| {
            ranks.dedup();
            let verb = if ranks.len() == 1 { "waits" } else { "wait" };
            let missing =
                if wait.missing.is_empty() { wait.unknown.clone() } else { ids::names("rank", "ranks", &wait.missing) };
            format!(
                "{} {verb} in {}, {}, for {missing}",
                ids::names("rank", "ranks", &ranks),
                wait.operation,
                wait.place
            )
        })
        .collect();
    if more > 0 {
        parts.push(format!("and {more} more operations wait"));
    }
    parts
}

/// Ranks that each wait for the next, starting at the lowest rank that is in such a cycle.
fn cycle(waits: &[Wait]) -> Vec<Rank> {
    let mut edges: BTreeMap<Rank, BTreeSet<Rank>> = BTreeMap::new();
    for wait in waits {
        edges.entry(wait.rank).or_default().extend(&wait.missing);
    }
    for start in edges.keys() {
        let mut path = Vec::new();
        if reaches(&edges, *start, *start, &mut BTreeSet::new(), &mut path) {
            path.reverse();
            return path;
        }
    }
    Vec::new()
}

/// Whether a walk from `from` leads back to `goal`; if so, `path` has its ranks, the last one first.
fn reaches(
    edges: &BTreeMap<Rank, BTreeSet<Rank>>,
    from: Rank,
    goal: Rank,
    seen: &mut BTreeSet<Rank>,
    path: &mut Vec<Rank>,
) -> bool {
    if !seen.insert(from) {
        return false;
    }
    let found = edges
        .get(&from)
        .is_some_and(|next| next.iter().any(|rank| *rank == goal || reaches(edges, *rank, goal, seen, path)));
    if found {
        path.push(from);
    }
    found
}
