//! Collectives that meet a different one than they should: ranks called the same number of collectives, alike in operation and
//! shape, but one rank left one out or made one too many, or its threads took turns in a different order. Only the lines that
//! called them show it: rank 0 ran A, B, C and rank 1 ran B, C, D.

use std::collections::{BTreeMap, BTreeSet};

use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::record::OperationRecord;
use protocol::site::CallSite;
use rustc_hash::FxHashMap;

use crate::exchange::ConnectionId;
use crate::site::{Call, Sites};

/// The number of collectives that are examined, from the first whose lines differ.
const WINDOW: usize = 32;

/// By how many collectives a rank may be ahead of another.
const MOST_AHEAD: usize = 4;

/// A line of the program, by a number that is the same on all ranks; 0 if it is not known.
type Line = u32;

/// What has to agree between ranks.
type Shape = (Operation, u64, Datatype, Option<ReductionOp>, Option<Rank>);

/// A position whose lines differ: where it is, and what its ranks called.
type Differing = (u64, Operation, Vec<(Rank, Call)>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    line: Line,
    /// The number of the thread on its rank; 0 if it is not known.
    thread: u32,
    shape: Shape,
    call: Call,
}

/// One collective as its ranks called it.
#[derive(Debug, Default)]
struct Position(Vec<Option<Seen>>);

impl Position {
    fn is_complete(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// Whether all ranks called it from the same line, as far as lines are known.
    fn agrees(&self) -> bool {
        let mut lines = self.0.iter().flatten().map(|seen| seen.line);
        let first = lines.next();
        self.0.iter().flatten().any(|seen| seen.line == 0) || lines.all(|line| Some(line) == first)
    }

    /// This collective, at position `at`, if its lines differ and no root gives its ranks different roles.
    fn unusual(&self, at: u64) -> Option<Differing> {
        let (operation, .., root) = self.0.first().copied().flatten()?.shape;
        let calls = (0..).map(Rank).zip(&self.0).filter_map(|(rank, seen)| Some((rank, seen.as_ref()?.call)));
        (root.is_none() && !self.agrees()).then(|| (at, operation, calls.collect()))
    }
}

#[derive(Debug, Default)]
struct Track {
    positions: BTreeMap<u64, Position>,
    /// The lines have differed for a while, and no shift explains it: programs may do that.
    is_dismissed: bool,
    /// Discarded positions, from the first whose lines differ: threads that took turns in a different order may show later.
    open: Vec<(u64, Position)>,
    found: Option<Shift>,
    /// The first collective without a root that was called from different lines, which no shift explains.
    unusual: Option<Differing>,
}

/// A collective that ranks called from different lines, which may be intended.
#[derive(Clone, Debug)]
pub(crate) struct Unusual {
    pub(crate) communicator: CommunicatorId,
    pub(crate) sequence: Sequence,
    pub(crate) operation: Operation,
    /// What the ranks called there.
    pub(crate) calls: Vec<(Rank, Call)>,
}

/// How ranks differ from another rank, the reference.
#[derive(Clone, Debug)]
pub(crate) enum Apart {
    /// They are this many collectives ahead; negative is behind.
    Ahead(Vec<(Rank, i32)>),
    /// Their threads make the same calls, but take turns in a different order.
    Turns(Vec<Rank>),
}

impl Apart {
    /// The ranks that differ.
    pub(crate) fn ranks(&self) -> Vec<Rank> {
        match self {
            Self::Ahead(ahead) => ahead.iter().map(|(rank, _)| *rank).collect(),
            Self::Turns(ranks) => ranks.clone(),
        }
    }
}

/// A communicator in which ranks are apart.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    pub(crate) communicator: CommunicatorId,
    /// The first collective that meets a different one.
    pub(crate) sequence: Sequence,
    pub(crate) operation: Operation,
    /// A rank of the majority.
    pub(crate) reference: Rank,
    pub(crate) apart: Apart,
    /// Only the calls within lines show it.
    pub(crate) within_lines: bool,
    /// What these ranks called there.
    pub(crate) calls: Vec<(Rank, Call)>,
}

/// The last collectives of each communicator: by line, and by call where a line has several. Compilers copy calls, and a rank may
/// take another copy of the same call: then only its lines say something.
#[derive(Debug, Default)]
pub(crate) struct Shifts {
    by_line: Tracks,
    by_call: Tracks,
}

#[derive(Debug, Default)]
struct Tracks {
    lines: BTreeMap<CallSite, Line>,
    known: FxHashMap<(ConnectionId, SiteId), Line>,
    tracks: BTreeMap<CommunicatorId, Track>,
}

impl Shifts {
    /// A rank of a communicator of `size` completed a collective.
    pub(crate) fn note(&mut self, size: u32, record: &OperationRecord, call: Call, sites: &Sites) {
        if size < 2 || record.operation.is_for_two() {
            return;
        }
        self.by_line.note(size, record, call, sites, |site| site.clone().with_place(0));
        self.by_call.note(size, record, call, sites, CallSite::clone);
    }

    /// What was found, in the order of communicators.
    pub(crate) fn found(&self) -> Vec<Shift> {
        let mut found: BTreeMap<CommunicatorId, Shift> =
            self.by_call.found().map(|shift| (shift.communicator, shift)).collect();
        found.values_mut().for_each(|shift| shift.within_lines = true);
        found.extend(self.by_line.found().map(|shift| (shift.communicator, shift)));
        found.into_values().collect()
    }

    /// The first of each communicator in which nothing was found.
    pub(crate) fn unusual(&self) -> Vec<Unusual> {
        let found: BTreeSet<CommunicatorId> = self.found().iter().map(|shift| shift.communicator).collect();
        let unusual = |(id, track): (&CommunicatorId, &Track)| {
            let at_the_end = || track.complete().into_iter().find_map(|(at, position)| position.unusual(at));
            let (sequence, operation, calls) = track.unusual.clone().or_else(at_the_end)?;
            Some(Unusual { communicator: *id, sequence: Sequence(sequence), operation, calls })
        };
        self.by_line.tracks.iter().filter(|(id, _)| !found.contains(id)).filter_map(unusual).collect()
    }
}

impl Tracks {
    /// Notes a collective under what `key` keeps of its place.
    fn note(
        &mut self,
        size: u32,
        record: &OperationRecord,
        call: Call,
        sites: &Sites,
        key: impl Fn(&CallSite) -> CallSite,
    ) {
        let line = self.line(&call, sites, key);
        let track = self.tracks.entry(record.communicator).or_default();
        if track.found.is_some() {
            return;
        }
        let position = track.positions.entry(record.sequence.0).or_default();
        position.0.resize(size as usize, None);
        let shape = (record.operation, record.count, record.datatype, record.reduction_op, record.root);
        if let Some(seen) = position.0.get_mut(record.rank.0 as usize) {
            *seen = Some(Seen { line, thread: record.issue.thread, shape, call });
        }
        track.follow(record.communicator);
    }

    fn found(&self) -> impl Iterator<Item = Shift> {
        self.tracks.iter().filter_map(|(id, track)| track.found.clone().or_else(|| track.judge(*id)))
    }

    fn line(&mut self, call: &Call, sites: &Sites, key: impl Fn(&CallSite) -> CallSite) -> Line {
        if let Some(line) = self.known.get(&call.place()) {
            return *line;
        }
        let Some(site) = sites.place(call) else { return 0 };
        let next = self.lines.len() as Line + 1;
        let line = *self.lines.entry(key(site)).or_insert(next);
        self.known.insert(call.place(), line);
        line
    }
}

impl Track {
    /// The positions, from the first, that all ranks have reported. There are no gaps: a rank completes its collectives in order.
    fn complete(&self) -> Vec<(u64, &Position)> {
        let complete = self.positions.iter().take_while(|(_, position)| position.is_complete());
        complete.map(|(sequence, position)| (*sequence, position)).collect()
    }

    /// Discards positions that are settled, and judges lines that have differed for long enough.
    fn follow(&mut self, communicator: CommunicatorId) {
        loop {
            let first = self.positions.first_key_value().filter(|(_, position)| position.is_complete());
            let Some((first, position)) = first else { return };
            let (first, agrees) = (*first, position.agrees());
            if self.is_dismissed || agrees {
                let unusual = if self.unusual.is_none() { position.unusual(first) } else { None };
                self.is_dismissed &= !agrees;
                self.unusual = self.unusual.take().or(unusual);
                self.let_go(first, agrees);
                continue;
            }
            let complete = self.complete();
            let differing = complete.iter().take_while(|(_, position)| !position.agrees()).count();
            if differing == complete.len() && differing < WINDOW {
                return;
            }
            self.found = self.judge(communicator);
            if self.found.is_some() {
                return self.positions.clear();
            }
            self.is_dismissed = true;
        }
    }

    /// Forgets a position, unless it may be part of a later finding.
    fn let_go(&mut self, first: u64, agrees: bool) {
        let Some(position) = self.positions.remove(&first) else { return };
        if self.open.len() >= WINDOW {
            self.open.clear();
        }
        if !agrees || !self.open.is_empty() {
            self.open.push((first, position));
        }
    }

    /// What explains the lines from the first position that differs, if anything does.
    fn judge(&self, communicator: CommunicatorId) -> Option<Shift> {
        let complete = self.complete();
        let differing: Vec<_> = complete.into_iter().take_while(|(_, position)| !position.agrees()).collect();
        let open = self.open.iter().map(|(at, position)| (*at, position));
        let turns = Run::new(open.chain(differing.iter().copied()).collect());
        let turns = turns.and_then(|run| {
            let others = run.others(|one, other| take_turns(one, other).then_some(()));
            run.shift(communicator, Apart::Turns(others.into_iter().map(|(rank, ())| rank).collect()))
        });
        turns.or_else(|| {
            let run = Run::new(differing).filter(|_| !self.is_dismissed)?;
            run.shift(communicator, Apart::Ahead(run.others(ahead)))
        })
    }
}

/// Positions that all ranks reported.
struct Run<'a> {
    positions: Vec<(u64, &'a Position)>,
    /// What each rank called there.
    ranks: Vec<Vec<Seen>>,
    /// A rank that called what most did.
    reference: usize,
}

impl<'a> Run<'a> {
    fn new(positions: Vec<(u64, &'a Position)>) -> Option<Self> {
        let (_, first) = positions.first()?;
        let of_rank = |rank: usize| positions.iter().filter_map(|(_, position)| position.0[rank]).collect();
        let ranks: Vec<Vec<Seen>> = (0..first.0.len()).map(of_rank).collect();
        let votes = |rank: usize| ranks.iter().filter(|other| alike(&ranks[rank], other)).count();
        let reference = (0..ranks.len()).max_by_key(|rank| (votes(*rank), std::cmp::Reverse(*rank)))?;
        Some(Self { positions, ranks, reference })
    }

    /// The ranks that differ from the reference according to `explain`, with the explanation.
    fn others<T>(&self, explain: impl Fn(&[Seen], &[Seen]) -> Option<T>) -> Vec<(Rank, T)> {
        let reference = &self.ranks[self.reference];
        let differ = (0..).zip(&self.ranks).filter(|(_, calls)| !alike(reference, calls));
        differ.filter_map(|(rank, calls)| Some((Rank(rank), explain(reference, calls)?))).collect()
    }

    /// None if no rank is apart.
    fn shift(&self, communicator: CommunicatorId, apart: Apart) -> Option<Shift> {
        let (sequence, first) = self.positions.first()?;
        let others = apart.ranks();
        let reference = Rank(self.reference as u32);
        let concerned = others.iter().copied().chain([reference]).collect::<BTreeSet<Rank>>();
        let call = |rank: Rank| Some((rank, first.0[rank.0 as usize]?.call));
        (!others.is_empty()).then_some(Shift {
            communicator,
            sequence: Sequence(*sequence),
            operation: first.0[0]?.shape.0,
            reference,
            calls: concerned.into_iter().filter_map(call).collect(),
            apart,
            within_lines: false,
        })
    }
}

/// Whether two ranks made their calls from the same lines.
fn alike(one: &[Seen], other: &[Seen]) -> bool {
    one.iter().zip(other).all(|(one, other)| one.line == other.line)
}

/// Whether the threads of two ranks make the same calls, each in its own order, so only their turns differ. A thread is
/// recognized on the other rank by its lines: no two threads may share a line, and there must be at least two threads. With a
/// root, ranks have roles, and different lines for them.
fn take_turns(one: &[Seen], other: &[Seen]) -> bool {
    let is_role = |(one, other): (&Seen, &Seen)| one.line != other.line && one.shape.4.is_some();
    if one.iter().zip(other).any(is_role) {
        return false;
    }
    let (Some(one), Some(other)) = (threads(one), threads(other)) else { return false };
    let same = |(mine, theirs): (&Vec<_>, &Vec<_>)| mine.iter().zip(theirs).all(|(mine, theirs)| mine == theirs);
    one.len() >= 2 && one.keys().eq(other.keys()) && one.values().zip(other.values()).all(same)
}

/// The calls of each thread of a rank, by the line of the first; None if threads cannot be told apart.
fn threads(calls: &[Seen]) -> Option<BTreeMap<Line, Vec<(Line, Shape)>>> {
    let mut owners: BTreeMap<Line, u32> = BTreeMap::new();
    let mut firsts: BTreeMap<u32, Line> = BTreeMap::new();
    let mut threads: BTreeMap<Line, Vec<(Line, Shape)>> = BTreeMap::new();
    for Seen { line, thread, shape, .. } in calls {
        let is_known = *line != 0 && *thread != 0;
        if !is_known || owners.insert(*line, *thread).is_some_and(|owner| owner != *thread) {
            return None;
        }
        let first = firsts.entry(*thread).or_insert(*line);
        threads.entry(*first).or_default().push((*line, *shape));
    }
    Some(threads)
}

/// By how many collectives `rank` is ahead of `reference` in a run of collectives, if that is certain.
fn ahead(reference: &[Seen], rank: &[Seen]) -> Option<i32> {
    let found = |leader: &[Seen], behind: &[Seen]| (1..=MOST_AHEAD).find(|by| leads(leader, behind, *by));
    found(rank, reference).map(|by| by as i32).or_else(|| found(reference, rank).map(|by| -(by as i32)))
}

/// Whether `leader` called what `behind` called, `by` collectives earlier, with proof: none of the calls that it left out comes
/// again before two different ones. Otherwise, ranks that alternate between two lines, each in a role, look the same.
fn leads(leader: &[Seen], behind: &[Seen], by: usize) -> bool {
    let Some(later) = behind.get(by..) else { return false };
    let matches = leader.iter().zip(later).all(|(one, other)| (one.line, one.shape) == (other.line, other.shape));
    let left_out: BTreeSet<Line> = behind[..by].iter().map(|seen| seen.line).collect();
    let new: BTreeSet<Line> =
        leader.iter().take(later.len()).map(|seen| seen.line).take_while(|line| !left_out.contains(line)).collect();
    matches && new.len() >= 2
}
