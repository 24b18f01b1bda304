//! Communicators made from another one by leaving ranks out (shrink) or adding some (grow): which ranks have to come, and why it
//! failed.

use std::collections::{BTreeMap, BTreeSet};

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::plan::ClusterPlan;
use protocol::record::ErrorCode;

use crate::communicator::{Communicator, Presence};
use crate::exchange::ConnectionId;
use crate::gathering::{Applicant, Gathering, Waiting, list};
use crate::placement::{describe, misfit};

/// What ranks come together for. Ranks with the same key become one communicator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resize {
    Shrink { excluded: BTreeSet<Rank>, sequence: Sequence },
    Grow { sequence: Sequence },
}

/// A communicator that shrank.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) parent: CommunicatorId,
    pub(crate) child: CommunicatorId,
    pub(crate) sequence: Sequence,
    pub(crate) abort: bool,
    /// Global ranks.
    pub(crate) excluded: Vec<Rank>,
    /// Global ranks.
    pub(crate) survivors: Vec<Rank>,
    pub(crate) time_us: u64,
}

impl Resize {
    fn excludes(&self, rank: Rank) -> bool {
        matches!(self, Self::Shrink { excluded, .. } if excluded.contains(&rank))
    }

    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Shrink { .. } => Operation::Shrink,
            Self::Grow { .. } => Operation::Grow,
        }
    }

    /// "communicator 1 without 3".
    pub(crate) fn place(&self, parent: CommunicatorId, size: u32) -> String {
        match self {
            Self::Shrink { excluded, .. } => format!("communicator {parent} without {}", set(excluded)),
            Self::Grow { .. } => format!("communicator {parent} to {size} ranks"),
        }
    }

    /// "shrink communicator 1 without 3".
    fn describe(&self, parent: CommunicatorId, size: u32) -> String {
        format!("{} {}", self.operation(), self.place(parent, size))
    }

    /// NCCL's function.
    pub(crate) fn function(&self) -> &'static str {
        match self {
            Self::Shrink { .. } => "ncclCommShrink",
            Self::Grow { .. } => "ncclCommGrow",
        }
    }

    pub(crate) fn excluded(&self) -> Option<&BTreeSet<Rank>> {
        match self {
            Self::Shrink { excluded, .. } => Some(excluded),
            Self::Grow { .. } => None,
        }
    }
}

/// All resizes of a run, by parent.
#[derive(Debug, Default)]
pub(crate) struct Resizes {
    by_parent: BTreeMap<CommunicatorId, OfParent>,
}

/// Resizes of one communicator.
#[derive(Debug, Default)]
struct OfParent {
    pending: BTreeMap<Resize, Resizing>,
    /// Failed ones that some ranks do not know about yet: those ranks must not wait for the others.
    refused: BTreeMap<Resize, Refusal>,
    /// Grows that succeeded.
    grown: u64,
}

#[derive(Debug)]
struct Resizing {
    gathering: Gathering<Applicant>,
    abort: bool,
    since_us: u64,
}

#[derive(Debug)]
struct Refusal {
    /// Ranks that do not know about it.
    unaware: BTreeSet<Rank>,
    code: ErrorCode,
    detail: String,
}

/// The outcomes for a rank that asks for a resize, in the order in which to act on them.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// It cannot take part.
    pub(crate) refused: Option<(Applicant, ErrorCode, String)>,
    /// These resizes failed.
    pub(crate) failed: Vec<Failed>,
    /// All ranks have arrived.
    pub(crate) complete: Option<Complete>,
}

/// A resize that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) resize: Resize,
    pub(crate) gathering: Gathering<Applicant>,
    pub(crate) code: ErrorCode,
    pub(crate) detail: String,
    pub(crate) culprits: Vec<Rank>,
}

/// A resize for which all ranks arrived.
#[derive(Debug)]
pub(crate) struct Complete {
    pub(crate) resize: Resize,
    pub(crate) gathering: Gathering<Applicant>,
    pub(crate) abort: bool,
    pub(crate) since_us: u64,
}

/// When a rank asks, and until when it waits, us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) now_us: u64,
    pub(crate) deadline_us: u64,
}

impl Outcome {
    pub(crate) fn refused(applicant: Applicant, code: ErrorCode, detail: String) -> Self {
        Self { refused: Some((applicant, code, detail)), ..Self::default() }
    }
}

/// The shrink that `rank` asks for; an error if it must not.
pub(crate) fn shrink_of(
    communicator: &Communicator,
    (sequence, rank): (Sequence, Rank),
    excluded: Vec<Rank>,
    connection: ConnectionId,
) -> Result<Resize, (ErrorCode, String)> {
    let parent = communicator.id;
    let excluded: BTreeSet<Rank> = excluded.into_iter().collect();
    let wrong = |detail: String| Err((ErrorCode::InvalidArgument, detail));
    if communicator.participant(rank, connection).is_none() {
        return wrong(format!("this process is not rank {rank} of communicator {parent}"));
    }
    if excluded.contains(&rank) {
        return wrong(format!("rank {rank} leaves itself out of the shrink"));
    }
    if let Some(last) = excluded.last().filter(|last| last.0 >= communicator.size()) {
        return wrong(format!("rank {last} to leave out is not in communicator {parent}"));
    }
    Ok(Resize::Shrink { excluded, sequence })
}

impl Resizes {
    /// `rank` of `communicator` arrives at a shrink that [`shrink_of`] made.
    pub(crate) fn come_to_shrink(
        &mut self,
        communicator: &Communicator,
        resize: Resize,
        (rank, abort): (Rank, bool),
        applicant: Applicant,
        plan: Option<&ClusterPlan>,
        times: Times,
    ) -> Outcome {
        let absent = resize.excluded().cloned().unwrap_or_default();
        let gathering = Gathering::without(communicator.size(), absent, times.deadline_us);
        let new = Resizing { gathering, abort, since_us: times.now_us };
        let resizes = self.by_parent.entry(communicator.id).or_default();
        if let Some((code, detail)) = resizes.hindrance(communicator, &resize, rank, plan) {
            return Outcome::refused(applicant, code, detail);
        }
        resizes.arrive(&resize, rank, applicant, new);
        match resizes.contradicts(&resize) {
            Some(other) => {
                Outcome { failed: resizes.contradict(communicator.id, [resize, other]), ..Outcome::default() }
            }
            None => Outcome { complete: resizes.conclude(resize), ..Outcome::default() },
        }
    }

    /// `rank` of the future communicator arrives at grow number `sequence` of `communicator`, to `size` ranks.
    pub(crate) fn come_to_grow(
        &mut self,
        communicator: &Communicator,
        (sequence, rank): (Sequence, Rank),
        size: u32,
        applicant: Applicant,
        plan: Option<&ClusterPlan>,
        times: Times,
    ) -> Outcome {
        let (parent, old) = (communicator.id, communicator.size());
        let resizes = self.by_parent.entry(parent).or_default();
        let foreign = rank.0 < old && communicator.participant(rank, applicant.connection).is_none();
        let argument = if size <= old {
            Some(format!("communicator {parent} has {old} ranks and cannot grow to {size}"))
        } else if rank.0 >= size {
            Some(format!("rank {rank} is not below the size {size}"))
        } else if foreign {
            Some(format!("rank {rank} is taken: the ranks of communicator {parent} keep theirs, 0 to {}", old - 1))
        } else if sequence.0 <= resizes.grown {
            Some(format!("the unique id was used before: get a new one of communicator {parent}"))
        } else {
            None
        };
        let argument = argument.map(|detail| (ErrorCode::InvalidArgument, detail));
        if let Some((code, detail)) = argument.or_else(|| misfit(plan, size, &applicant.member)) {
            return Outcome::refused(applicant, code, detail);
        }
        let resize = Resize::Grow { sequence };
        let pending = resizes.pending.get(&resize).map(|resizing| resizing.gathering.size());
        if let Some(other) = pending.filter(|other| *other != size) {
            let detail = format!("rank {rank} grows communicator {parent} to {size} ranks, others to {other}");
            let code = ErrorCode::WorldSizeMismatch;
            let failed = resizes.fail(&resize, (code, &detail), &[], &[rank]).into_iter().collect();
            return Outcome { failed, ..Outcome::refused(applicant, code, detail) };
        }
        let gathering = Gathering::new(size, times.deadline_us);
        let new = Resizing { gathering, abort: false, since_us: times.now_us };
        if let Some((code, detail)) = resizes.hindrance(communicator, &resize, rank, plan) {
            return Outcome::refused(applicant, code, detail);
        }
        resizes.arrive(&resize, rank, applicant, new);
        let Some(complete) = resizes.conclude(resize) else { return Outcome::default() };
        match complete.gathering.shared_gpu() {
            None => Outcome { complete: Some(complete), ..Outcome::default() },
            Some((culprits, detail)) => {
                let Complete { resize, gathering, .. } = complete;
                let failed = Failed { resize, gathering, code: ErrorCode::SharedDevice, detail, culprits };
                Outcome { failed: vec![failed], ..Outcome::default() }
            }
        }
    }

    /// Ends every resize that can no longer happen because a rank that it needs is gone.
    /// `how` completes "rank 2 (pid 4711) ...".
    pub(crate) fn end_hopeless(
        &mut self,
        communicator: &Communicator,
        lost: Option<ConnectionId>,
        how: &str,
        plan: Option<&ClusterPlan>,
    ) -> Vec<Failed> {
        let Some(resizes) = self.by_parent.get_mut(&communicator.id) else { return Vec::new() };
        let mut hopeless = Vec::new();
        for (resize, Resizing { gathering, .. }) in &resizes.pending {
            let arrived = || gathering.arrivals().find(|(_, applicant)| Some(applicant.connection) == lost);
            let gone = match absent(communicator, resize) {
                Some(rank) => Some((rank, &communicator.participants[rank.0 as usize].member)),
                None => arrived().map(|(rank, applicant)| (rank, &applicant.member)),
            };
            if let Some((rank, member)) = gone {
                hopeless.push((resize.clone(), rank, format!("{} {how}", describe(plan, member))));
            }
        }
        let fail = |(resize, rank, detail): (Resize, Rank, String)| {
            resizes.fail(&resize, (ErrorCode::RankLost, &detail), &[rank], &[])
        };
        hopeless.into_iter().filter_map(fail).collect()
    }

    /// Ends those of communicator `parent` for which ranks have waited too long, `timeout_us`.
    pub(crate) fn expire(&mut self, parent: CommunicatorId, now_us: u64, timeout_us: u64) -> Vec<Failed> {
        let Some(resizes) = self.by_parent.get_mut(&parent) else { return Vec::new() };
        let seconds = timeout_us as f64 / 1e6;
        let late = resizes.pending.iter().filter(|(_, late)| late.gathering.deadline_us() <= now_us);
        let late: Vec<(Resize, Vec<Rank>, String)> = late
            .map(|(resize, Resizing { gathering, .. })| {
                let (what, missing) = (resize.describe(parent, gathering.size()), gathering.missing());
                let detail = format!("waited {seconds} s for ranks to {what}; missing: {}", list(&missing));
                (resize.clone(), missing, detail)
            })
            .collect();
        let fail = |(resize, missing, detail): (Resize, Vec<Rank>, String)| {
            let code = match resize {
                Resize::Shrink { .. } => ErrorCode::TimeoutWaitingForShrink,
                Resize::Grow { .. } => ErrorCode::TimeoutWaitingForRanks,
            };
            resizes.fail(&resize, (code, &detail), &missing, &[])
        };
        late.into_iter().filter_map(fail).collect()
    }

    /// When the waiting ranks time out, us.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = u64> {
        let pending = self.by_parent.values().flat_map(|resizes| resizes.pending.values());
        pending.map(|resizing| resizing.gathering.deadline_us())
    }

    /// What ranks wait for in resizes of `parent`, and which ranks.
    pub(crate) fn pending_in(&self, parent: CommunicatorId) -> impl Iterator<Item = (&Resize, &Gathering<Applicant>)> {
        let pending = self.by_parent.get(&parent).into_iter().flat_map(|resizes| &resizes.pending);
        pending.map(|(resize, resizing)| (resize, &resizing.gathering))
    }

    /// Which ranks wait for which.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.by_parent.iter().flat_map(|(parent, resizes)| {
            let pending = resizes.pending.iter();
            pending.map(|(resize, Resizing { gathering, .. })| {
                gathering.waiting(resize.describe(*parent, gathering.size()))
            })
        })
    }
}

impl OfParent {
    /// Why `rank` cannot take part in `resize`, if it cannot.
    fn hindrance(
        &mut self,
        communicator: &Communicator,
        resize: &Resize,
        rank: Rank,
        plan: Option<&ClusterPlan>,
    ) -> Option<(ErrorCode, String)> {
        if let Some(why) = self.turned_away(resize, rank) {
            return Some(why);
        }
        if let Some(rank) = absent(communicator, resize) {
            let advice = match resize {
                Resize::Shrink { .. } => "; leave it out too",
                Resize::Grow { .. } => "",
            };
            let member = &communicator.participants[rank.0 as usize].member;
            return Some((ErrorCode::RankLost, format!("{} is gone{advice}", describe(plan, member))));
        }
        let gathering = &self.pending.get(resize)?.gathering;
        gathering.arrival(rank)?;
        let what = resize.describe(communicator.id, gathering.size());
        Some((ErrorCode::DuplicateRank, format!("rank {rank} asked twice to {what}")))
    }

    /// `rank` arrives, in `new` if it is the first.
    fn arrive(&mut self, resize: &Resize, rank: Rank, applicant: Applicant, new: Resizing) {
        let abort = new.abort;
        let resizing = self.pending.entry(resize.clone()).or_insert(new);
        resizing.abort |= abort;
        resizing.gathering.arrive(rank, applicant);
    }

    /// Takes `resize` out once all ranks have arrived.
    fn conclude(&mut self, resize: Resize) -> Option<Complete> {
        if !self.pending.get(&resize)?.gathering.is_full() {
            return None;
        }
        let Resizing { gathering, abort, since_us } = self.pending.remove(&resize)?;
        self.refused.remove(&resize);
        if let Resize::Grow { sequence } = &resize {
            self.grown = self.grown.max(sequence.0);
        }
        Some(Complete { resize, gathering, abort, since_us })
    }

    /// Ends two shrinks whose ranks disagree about which ranks to leave out.
    fn contradict(&mut self, parent: CommunicatorId, both: [Resize; 2]) -> Vec<Failed> {
        let mut aware: Vec<Rank> = Vec::new();
        let mut parties: Vec<(Rank, String)> = Vec::new();
        for resize in &both {
            let Some(resizing) = self.pending.get(resize) else { continue };
            let ranks: Vec<Rank> = resizing.gathering.arrivals().map(|(rank, _)| rank).collect();
            let who = if ranks.len() == 1 { "rank" } else { "ranks" };
            let excluded = resize.excluded().map(set).unwrap_or_default();
            parties.extend(ranks.first().map(|first| (*first, format!("{who} {} without {excluded}", list(&ranks)))));
            aware.extend(ranks);
        }
        parties.sort();
        let parties: Vec<String> = parties.into_iter().map(|(_, party)| party).collect();
        let detail = format!("communicator {parent} would shrink in different ways: {}", parties.join(", "));
        let why = (ErrorCode::ShrinkExcludedRanksMismatch, detail.as_str());
        both.iter().filter_map(|resize| self.fail(resize, why, &[], &aware)).collect()
    }

    /// Removes `resize` for its waiting ranks. A rank that arrives later and is neither among them nor `aware` is also told the
    /// reason.
    fn fail(
        &mut self,
        resize: &Resize,
        (code, detail): (ErrorCode, &str),
        culprits: &[Rank],
        aware: &[Rank],
    ) -> Option<Failed> {
        let Resizing { gathering, .. } = self.pending.remove(resize)?;
        if code != ErrorCode::RankLost {
            let missing = gathering.missing().into_iter();
            let unaware: BTreeSet<Rank> = missing.filter(|rank| !aware.contains(rank)).collect();
            if !unaware.is_empty() {
                self.refused.insert(resize.clone(), Refusal { unaware, code, detail: detail.to_owned() });
            }
        }
        let (resize, detail, culprits) = (resize.clone(), detail.to_owned(), culprits.to_vec());
        Some(Failed { resize, gathering, code, detail, culprits })
    }

    /// Why `rank` is too late for a resize that failed without it; it is told once.
    fn turned_away(&mut self, resize: &Resize, rank: Rank) -> Option<(ErrorCode, String)> {
        let refusal = self.refused.get_mut(resize)?;
        if !refusal.unaware.remove(&rank) {
            return None;
        }
        let answer = (refusal.code, refusal.detail.clone());
        if refusal.unaware.is_empty() {
            self.refused.remove(resize);
        }
        Some(answer)
    }

    /// Another pending shrink whose ranks and those of `resize` wait for each other: they disagree about which ranks to leave
    /// out.
    fn contradicts(&self, resize: &Resize) -> Option<Resize> {
        let stuck = |one: &Resize, other: &Resize| {
            let (here, there) = (&self.pending[one].gathering, &self.pending[other].gathering);
            here.arrivals().any(|(rank, _)| !other.excludes(rank) && there.arrival(rank).is_none())
        };
        let shrink = |resize: &Resize| matches!(resize, Resize::Shrink { .. });
        let different = |other: &&Resize| shrink(other) && other.excluded() != resize.excluded();
        let mut others = self.pending.keys().filter(|other| shrink(resize) && different(other));
        others.find(|other| stuck(resize, other) && stuck(other, resize)).cloned()
    }
}

/// The first rank of the communicator that `resize` needs and that is gone.
fn absent(communicator: &Communicator, resize: &Resize) -> Option<Rank> {
    let ranks = (0..communicator.size()).map(Rank);
    ranks
        .filter(|rank| !resize.excludes(*rank))
        .find(|rank| communicator.participants[rank.0 as usize].presence != Presence::Present)
}

fn set(ranks: &BTreeSet<Rank>) -> String {
    list(&ranks.iter().copied().collect::<Vec<Rank>>())
}
