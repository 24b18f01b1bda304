//! Communicators made from one by leaving ranks out (shrink) or adding some (grow): who has to come, and why nothing came of it.

use std::collections::{BTreeMap, BTreeSet};

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::ToRank;
use protocol::record::ErrorCode;

use crate::cluster::{Cluster, ConnectionId, Output, describe, send, tell_others};
use crate::communicator::{Communicator, Presence};
use crate::failure::RankFailure;
use crate::gathering::{Gathering, list};
use crate::ledger::NO_SEQUENCE;
use crate::rendezvous::Applicant;

/// What ranks come together for. Those of one key become one communicator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resize {
    Shrink { excluded: BTreeSet<Rank>, sequence: Sequence },
    Grow { sequence: Sequence },
}

/// Resizes of one communicator.
#[derive(Debug, Default)]
pub(crate) struct Resizes {
    pending: BTreeMap<Resize, Resizing>,
    /// Failed ones that some ranks were not told of: these must not wait for the others.
    refused: BTreeMap<Resize, Refusal>,
    /// Grows that came about.
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
    untold: BTreeSet<Rank>,
    code: ErrorCode,
    detail: String,
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

    fn operation(&self) -> Operation {
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

    fn excluded(&self) -> Option<&BTreeSet<Rank>> {
        match self {
            Self::Shrink { excluded, .. } => Some(excluded),
            Self::Grow { .. } => None,
        }
    }
}

impl Resizes {
    /// When the patience of those who wait ends, us.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = u64> {
        self.pending.values().map(|resizing| resizing.gathering.deadline_us())
    }

    /// What ranks wait for, and which.
    pub(crate) fn gatherings(&self) -> impl Iterator<Item = (&Resize, &Gathering<Applicant>)> {
        self.pending.iter().map(|(resize, resizing)| (resize, &resizing.gathering))
    }

    /// (what, present, missing).
    pub(crate) fn waiting(&self, id: CommunicatorId) -> impl Iterator<Item = (String, Vec<Rank>, Vec<Rank>)> {
        self.pending.iter().map(move |(resize, Resizing { gathering, .. })| {
            let present = gathering.seated().map(|(rank, _)| rank).collect();
            (resize.describe(id, gathering.size()), present, gathering.missing())
        })
    }

    /// Why `rank` comes too late for a resize that failed without it; it is told once.
    fn turned_away(&mut self, resize: &Resize, rank: Rank) -> Option<(ErrorCode, String)> {
        let refusal = self.refused.get_mut(resize)?;
        if !refusal.untold.remove(&rank) {
            return None;
        }
        let answer = (refusal.code, refusal.detail.clone());
        if refusal.untold.is_empty() {
            self.refused.remove(resize);
        }
        Some(answer)
    }

    /// Another pending shrink whose ranks and those of `resize` wait for each other: they disagree on whom to leave out.
    fn contradicts(&self, resize: &Resize) -> Option<Resize> {
        let stuck = |one: &Resize, other: &Resize| {
            let (here, there) = (&self.pending[one].gathering, &self.pending[other].gathering);
            here.seated().any(|(rank, _)| !other.excludes(rank) && there.seat(rank).is_none())
        };
        let shrink = |resize: &Resize| matches!(resize, Resize::Shrink { .. });
        let different = |other: &&Resize| shrink(other) && other.excluded() != resize.excluded();
        let mut others = self.pending.keys().filter(|other| shrink(resize) && different(other));
        others.find(|other| stuck(resize, other) && stuck(other, resize)).cloned()
    }
}

impl Cluster {
    pub(crate) fn shrink(
        &mut self,
        (parent, sequence, rank): (CommunicatorId, Sequence, Rank),
        excluded: Vec<Rank>,
        abort: bool,
        applicant: Applicant,
        now_us: u64,
        out: &mut Vec<Output>,
    ) {
        let excluded: BTreeSet<Rank> = excluded.into_iter().collect();
        let refusal = match self.communicators.get(&parent) {
            None => Some((ErrorCode::UnknownCommunicator, format!("communicator {parent} is not known"))),
            Some(communicator) if communicator.seat_of(rank, applicant.connection).is_none() => {
                let detail = format!("this process is not rank {rank} of communicator {parent}");
                Some((ErrorCode::InvalidArgument, detail))
            }
            Some(_) if excluded.contains(&rank) => {
                Some((ErrorCode::InvalidArgument, format!("rank {rank} leaves itself out of the shrink")))
            }
            Some(communicator) => {
                let stranger = excluded.last().filter(|last| last.0 >= communicator.size());
                let detail = |last| format!("rank {last} to leave out is not in communicator {parent}");
                stranger.map(|last| (ErrorCode::InvalidArgument, detail(last)))
            }
        };
        if let Some((code, detail)) = refusal {
            return refuse(out, &applicant, code, detail);
        }
        let resize = Resize::Shrink { excluded, sequence };
        let deadline = now_us.saturating_add(self.settings.timeout_us);
        let size = self.communicators[&parent].size();
        let absent = resize.excluded().cloned().unwrap_or_default();
        let new = Resizing { gathering: Gathering::without(size, absent, deadline), abort, since_us: now_us };
        if abort {
            self.tell_of_stop(parent, rank, ErrorCode::Aborted, "ncclCommShrink with NCCL_SHRINK_ABORT", out);
        }
        let Some(resizing) = self.seat(parent, &resize, rank, applicant, new, out) else { return };
        resizing.abort |= abort;
        if let Some(other) = self.communicators.get(&parent).and_then(|parent| parent.resizes.contradicts(&resize)) {
            return self.contradict(parent, [resize, other], out);
        }
        self.conclude(parent, &resize, now_us, out);
    }

    pub(crate) fn grow(
        &mut self,
        (parent, sequence, rank): (CommunicatorId, Sequence, Rank),
        size: u32,
        applicant: Applicant,
        now_us: u64,
        out: &mut Vec<Output>,
    ) {
        let refusal = match self.communicators.get(&parent) {
            None => Some((
                ErrorCode::InvalidArgument,
                format!("the unique id is of communicator {parent}, which is not known in this run"),
            )),
            Some(communicator) => {
                let old = communicator.size();
                let foreign = rank.0 < old && communicator.seat_of(rank, applicant.connection).is_none();
                let argument = if size <= old {
                    Some(format!("communicator {parent} has {old} ranks and cannot grow to {size}"))
                } else if rank.0 >= size {
                    Some(format!("rank {rank} is not below the size {size}"))
                } else if foreign {
                    Some(format!(
                        "rank {rank} is taken: the ranks of communicator {parent} keep theirs, 0 to {}",
                        old - 1
                    ))
                } else if sequence.0 <= communicator.resizes.grown {
                    Some(format!("the unique id was used before: get a new one of communicator {parent}"))
                } else {
                    None
                };
                argument
                    .map(|detail| (ErrorCode::InvalidArgument, detail))
                    .or_else(|| self.does_not_fit(size, &applicant.member))
            }
        };
        if let Some((code, detail)) = refusal {
            return refuse(out, &applicant, code, detail);
        }
        let resize = Resize::Grow { sequence };
        let pending = self.communicators[&parent].resizes.pending.get(&resize);
        if let Some(other) = pending.map(|resizing| resizing.gathering.size()).filter(|other| *other != size) {
            let detail = format!("rank {rank} grows communicator {parent} to {size} ranks, others to {other}");
            refuse(out, &applicant, ErrorCode::WorldSizeMismatch, detail.clone());
            return self.fail_resize(parent, &resize, (ErrorCode::WorldSizeMismatch, &detail), &[], &[rank], out);
        }
        let deadline = now_us.saturating_add(self.settings.timeout_us);
        let new = Resizing { gathering: Gathering::new(size, deadline), abort: false, since_us: now_us };
        if self.seat(parent, &resize, rank, applicant, new, out).is_some() {
            self.conclude(parent, &resize, now_us, out);
        }
    }

    /// Wakes those who wait for `rank`, which ended its operations by `what`. After a loss that is the loss's consequence.
    fn tell_of_stop(&self, id: CommunicatorId, rank: Rank, code: ErrorCode, what: &str, out: &mut Vec<Output>) {
        let Some(communicator) = self.communicators.get(&id) else { return };
        let loss = communicator.seats.iter().any(|seat| matches!(seat.presence, Presence::Gone | Presence::Aborted));
        let code = if loss { ErrorCode::RankLost } else { code };
        let seat = &communicator.seats[rank.0 as usize];
        let detail = format!("{} called {what}", describe(self.settings.plan.as_ref(), &seat.member));
        tell_others(communicator, rank, seat.connection, code, &detail, out);
    }

    pub(crate) fn revoke(&mut self, from: ConnectionId, id: CommunicatorId, rank: Rank, out: &mut Vec<Output>) {
        let Some(communicator) = self.communicators.get_mut(&id) else {
            let reason = format!("revoked unknown communicator {id}");
            return out.push(Output::Close { connection: from, reason });
        };
        if communicator.seat_of(rank, from).is_none() {
            let reason = format!("revoked communicator {id} as rank {rank}, which it is not");
            return out.push(Output::Close { connection: from, reason });
        }
        // The others are not told: they wait until they revoke, too.
        if let Some(seat) = communicator.seats.get_mut(rank.0 as usize) {
            seat.revoked = true;
        }
    }

    /// Lets `rank` take its seat, in `new` when it is the first; `None` when it was refused.
    fn seat(
        &mut self,
        parent: CommunicatorId,
        resize: &Resize,
        rank: Rank,
        applicant: Applicant,
        new: Resizing,
        out: &mut Vec<Output>,
    ) -> Option<&mut Resizing> {
        let plan = self.settings.plan.as_ref();
        let communicator = self.communicators.get_mut(&parent)?;
        if let Some((code, detail)) = communicator.resizes.turned_away(resize, rank) {
            refuse(out, &applicant, code, detail);
            return None;
        }
        if let Some(rank) = absent(communicator, resize) {
            let advice = match resize {
                Resize::Shrink { .. } => "; leave it out too",
                Resize::Grow { .. } => "",
            };
            let member = &communicator.seats[rank.0 as usize].member;
            let detail = format!("{} is not there any more{advice}", describe(plan, member));
            refuse(out, &applicant, ErrorCode::RankLost, detail);
            return None;
        }
        let resizing = communicator.resizes.pending.entry(resize.clone()).or_insert(new);
        if resizing.gathering.seat(rank).is_some() {
            let what = resize.describe(parent, resizing.gathering.size());
            refuse(out, &applicant, ErrorCode::DuplicateRank, format!("rank {rank} came twice to {what}"));
            return None;
        }
        resizing.gathering.sit(rank, applicant);
        Some(resizing)
    }

    /// Forms the child once everybody is there.
    fn conclude(&mut self, parent: CommunicatorId, resize: &Resize, now_us: u64, out: &mut Vec<Output>) {
        let Some(communicator) = self.communicators.get_mut(&parent) else { return };
        if !communicator.resizes.pending.get(resize).is_some_and(|resizing| resizing.gathering.is_full()) {
            return;
        }
        let Some(Resizing { gathering, abort, since_us }) = communicator.resizes.pending.remove(resize) else { return };
        communicator.resizes.refused.remove(resize);
        let failed_at = communicator.failed_at_us.unwrap_or(since_us);
        let recovery = match resize {
            Resize::Shrink { excluded, .. } => {
                let global = |rank: &Rank| communicator.global_rank(*rank).unwrap_or(*rank);
                let survivors: Vec<Rank> = gathering.seated().map(|(rank, _)| global(&rank)).collect();
                Some((excluded.iter().map(global).collect(), survivors))
            }
            Resize::Grow { sequence } => {
                communicator.resizes.grown = communicator.resizes.grown.max(sequence.0);
                None
            }
        };
        let sequence = Sequence(self.ledger.completed(parent).0 + 1);
        let applicants = gathering.into_seated().map(|(_, applicant)| applicant).collect();
        let child = self.form(Some(parent), applicants, out);
        if let Some((excluded, survivors)) = recovery {
            let time_us = now_us.saturating_sub(failed_at);
            self.recoveries.push(Recovery { parent, child, sequence, abort, excluded, survivors, time_us });
        }
    }

    /// Ends two shrinks whose ranks disagree on whom to leave out.
    fn contradict(&mut self, parent: CommunicatorId, both: [Resize; 2], out: &mut Vec<Output>) {
        let Some(communicator) = self.communicators.get(&parent) else { return };
        let mut told: Vec<Rank> = Vec::new();
        let mut parties: Vec<(Rank, String)> = Vec::new();
        for resize in &both {
            let Some(resizing) = communicator.resizes.pending.get(resize) else { continue };
            let ranks: Vec<Rank> = resizing.gathering.seated().map(|(rank, _)| rank).collect();
            let who = if ranks.len() == 1 { "rank" } else { "ranks" };
            let excluded = resize.excluded().map(set).unwrap_or_default();
            parties.extend(ranks.first().map(|first| (*first, format!("{who} {} without {excluded}", list(&ranks)))));
            told.extend(ranks);
        }
        parties.sort();
        let parties: Vec<String> = parties.into_iter().map(|(_, party)| party).collect();
        let detail = format!("communicator {parent} is to shrink in different ways: {}", parties.join(", "));
        for resize in &both {
            self.fail_resize(parent, resize, (ErrorCode::ShrinkExcludedRanksMismatch, &detail), &[], &told, out);
        }
    }

    /// Tells everybody who waits for `resize`, and whoever comes later and is neither among them nor in `told`.
    fn fail_resize(
        &mut self,
        parent: CommunicatorId,
        resize: &Resize,
        (code, detail): (ErrorCode, &str),
        culprits: &[Rank],
        told: &[Rank],
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get_mut(&parent) else { return };
        let Some(Resizing { gathering, .. }) = communicator.resizes.pending.remove(resize) else { return };
        self.revision += 1;
        if code != ErrorCode::RankLost {
            let untold: BTreeSet<Rank> = gathering.missing().into_iter().filter(|rank| !told.contains(rank)).collect();
            if !untold.is_empty() {
                let refusal = Refusal { untold, code, detail: detail.to_owned() };
                communicator.resizes.refused.insert(resize.clone(), refusal);
            }
        }
        let mut observed = Vec::new();
        for (rank, applicant) in gathering.seated() {
            refuse(out, applicant, code, detail.to_owned());
            self.ledger.count_failure(applicant.member.global_rank, code);
            observed.push(applicant.member.global_rank);
            if resize.excluded().is_some() {
                let (sequence, operation, attempted_bytes) = (NO_SEQUENCE, resize.operation(), 0);
                let failure = RankFailure { sequence, rank, operation, code, detail, culprits, attempted_bytes };
                self.failures.by_rank(communicator, failure);
            }
        }
        if resize.excluded().is_none() {
            self.failures.rendezvous(code, observed, culprits.to_vec(), detail.to_owned());
        }
    }

    /// Ends what cannot come about any more: a rank that it needs is gone. `how` completes "rank 2 (pid 4711) ...".
    pub(crate) fn fail_hopeless_resizes(
        &mut self,
        id: CommunicatorId,
        lost: Option<ConnectionId>,
        how: &str,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get(&id) else { return };
        let plan = self.settings.plan.as_ref();
        let mut hopeless = Vec::new();
        for (resize, Resizing { gathering, .. }) in &communicator.resizes.pending {
            let seated = || gathering.seated().find(|(_, applicant)| Some(applicant.connection) == lost);
            let gone = match absent(communicator, resize) {
                Some(rank) => Some((rank, &communicator.seats[rank.0 as usize].member)),
                None => seated().map(|(rank, applicant)| (rank, &applicant.member)),
            };
            if let Some((rank, member)) = gone {
                hopeless.push((resize.clone(), rank, format!("{} {how}", describe(plan, member))));
            }
        }
        for (resize, rank, detail) in hopeless {
            self.fail_resize(id, &resize, (ErrorCode::RankLost, &detail), &[rank], &[], out);
        }
    }

    /// Ends what ranks waited too long for.
    pub(crate) fn expire_resizes(&mut self, id: CommunicatorId, now_us: u64, out: &mut Vec<Output>) {
        let Some(communicator) = self.communicators.get(&id) else { return };
        let seconds = self.settings.timeout_us as f64 / 1e6;
        let late = communicator.resizes.pending.iter().filter(|(_, late)| late.gathering.deadline_us() <= now_us);
        let late: Vec<(Resize, Vec<Rank>, String)> = late
            .map(|(resize, Resizing { gathering, .. })| {
                let (what, missing) = (resize.describe(id, gathering.size()), gathering.missing());
                let detail = format!("waited {seconds} s for ranks to {what}; missing: {}", list(&missing));
                (resize.clone(), missing, detail)
            })
            .collect();
        for (resize, missing, detail) in late {
            let code = match resize {
                Resize::Shrink { .. } => ErrorCode::TimeoutWaitingForShrink,
                Resize::Grow { .. } => ErrorCode::TimeoutWaitingForRanks,
            };
            self.fail_resize(id, &resize, (code, &detail), &missing, &[], out);
        }
    }
}

/// The first rank of the communicator that `resize` needs and that is not there any more.
fn absent(communicator: &Communicator, resize: &Resize) -> Option<Rank> {
    let ranks = (0..communicator.size()).map(Rank);
    ranks
        .filter(|rank| !resize.excludes(*rank))
        .find(|rank| communicator.seats[rank.0 as usize].presence != Presence::Present)
}

fn set(ranks: &BTreeSet<Rank>) -> String {
    list(&ranks.iter().copied().collect::<Vec<Rank>>())
}

fn refuse(out: &mut Vec<Output>, applicant: &Applicant, code: ErrorCode, detail: String) {
    send(out, applicant.connection, ToRank::RequestFailed { request: applicant.request, code, detail });
}
