//! Splits in progress: the ranks of a communicator that come together to be divided by color.

use std::collections::BTreeMap;

use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::Member;
use protocol::plan::ClusterPlan;
use protocol::record::ErrorCode;

use crate::communicator::Communicator;
use crate::exchange::ConnectionId;
use crate::gathering::{Applicant, Gathering, Waiting};
use crate::placement::describe;

/// A rank that waits in a split.
#[derive(Debug)]
pub(crate) struct SplitApplicant {
    pub(crate) applicant: Applicant,
    pub(crate) color: Option<u32>,
    pub(crate) key: i32,
}

impl SplitApplicant {
    pub(crate) fn new(connection: ConnectionId, request: u64, member: Member, color: Option<u32>, key: i32) -> Self {
        Self { applicant: Applicant { connection, request, member }, color, key }
    }
}

/// All splits in progress, by parent and position among its splits.
#[derive(Debug, Default)]
pub(crate) struct Splits {
    pending: BTreeMap<(CommunicatorId, Sequence), Gathering<SplitApplicant>>,
}

/// The outcome for a rank that asks for a split.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It cannot take part.
    Refused(Applicant, ErrorCode, String),
    /// It waits for others.
    Waits,
    /// All ranks have arrived.
    Complete(Children),
}

/// The children of a split.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// In the order of colors; the members of each by key, then by rank in the parent.
    pub(crate) groups: Vec<Vec<Applicant>>,
    pub(crate) colorless: Vec<Applicant>,
}

impl Splits {
    /// `rank` of `communicator` asks for split number `sequence`.
    pub(crate) fn come(
        &mut self,
        communicator: &Communicator,
        sequence: Sequence,
        rank: Rank,
        who: SplitApplicant,
        plan: Option<&ClusterPlan>,
        deadline_us: u64,
    ) -> Outcome {
        let parent = communicator.id;
        if communicator.participant(rank, who.applicant.connection).is_none() {
            let detail = format!("this process is not rank {rank} of communicator {parent}");
            return Outcome::Refused(who.applicant, ErrorCode::InvalidArgument, detail);
        }
        if let Some((_, absent)) = communicator.first_absent() {
            let detail = format!("{} is gone", describe(plan, &absent.member));
            return Outcome::Refused(who.applicant, ErrorCode::RankLost, detail);
        }
        let key = (parent, sequence);
        let gathering = self.pending.entry(key).or_insert_with(|| Gathering::new(communicator.size(), deadline_us));
        if gathering.arrival(rank).is_some() {
            let detail = format!("rank {rank} joined split {sequence} of communicator {parent} twice");
            return Outcome::Refused(who.applicant, ErrorCode::DuplicateRank, detail);
        }
        gathering.arrive(rank, who);
        if !gathering.is_full() {
            return Outcome::Waits;
        }
        self.pending.remove(&key).map_or(Outcome::Waits, |gathering| Outcome::Complete(children(gathering)))
    }

    /// Takes out the splits of `parent` that `which` selects: they fail.
    pub(crate) fn take(
        &mut self,
        parent: CommunicatorId,
        which: impl Fn(&Gathering<SplitApplicant>) -> bool,
    ) -> Vec<(Sequence, Gathering<SplitApplicant>)> {
        let of_parent = (parent, Sequence(0))..=(parent, Sequence(u64::MAX));
        self.pending
            .extract_if(of_parent, |_, split| which(split))
            .map(|((_, sequence), split)| (sequence, split))
            .collect()
    }

    /// When the waiting ranks time out, us.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = u64> {
        self.pending.values().map(Gathering::deadline_us)
    }

    /// Those of `parent`.
    pub(crate) fn pending_in(
        &self,
        parent: CommunicatorId,
    ) -> impl Iterator<Item = (Sequence, &Gathering<SplitApplicant>)> {
        let of_parent = (parent, Sequence(0))..=(parent, Sequence(u64::MAX));
        self.pending.range(of_parent).map(|((_, sequence), gathering)| (*sequence, gathering))
    }

    /// Which ranks wait for which.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.pending.iter().map(|((parent, sequence), gathering)| {
            gathering.waiting(format!("split {sequence} of communicator {parent}"))
        })
    }
}

fn children(split: Gathering<SplitApplicant>) -> Children {
    let mut by_color: BTreeMap<u32, Vec<SplitApplicant>> = BTreeMap::new();
    let mut children = Children::default();
    for (_, who) in split.into_arrivals() {
        match who.color {
            Some(color) => by_color.entry(color).or_default().push(who),
            None => children.colorless.push(who.applicant),
        }
    }
    for mut members in by_color.into_values() {
        // Stable: equal keys keep the order of their parent ranks.
        members.sort_by_key(|who| who.key);
        children.groups.push(members.into_iter().map(|who| who.applicant).collect());
    }
    children
}
