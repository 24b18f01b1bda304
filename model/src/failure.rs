//! Failures as the report shows them: what several ranks notice about one failure becomes one event.

use std::collections::{BTreeMap, BTreeSet};

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::record::{ErrorCode, FailureRecord};

use crate::communicator::{Communicator, Participant, Presence};
use crate::exchange::ConnectionId;
use crate::ledger::NO_SEQUENCE;
use crate::site::Call;

/// One failure.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) communicator: Option<CommunicatorId>,
    pub(crate) sequence: Sequence,
    pub(crate) code: ErrorCode,
    /// The call at `sequence` of each rank of the communicator that noticed. None: a rendezvous or a death between operations.
    operations: BTreeMap<Rank, Operation>,
    /// Ranks of the communicator; global ranks where none has formed.
    pub(crate) culprits: BTreeSet<Rank>,
    /// Ranks of the communicator that named a culprit: they report what they saw themselves.
    pub(crate) witnesses: BTreeSet<Rank>,
    /// A rank was lost while all others were known to hang: somebody ends the case.
    after_hang: bool,
    /// Global ranks.
    pub(crate) observed: BTreeSet<Rank>,
    /// (global rank, sequence) -> bytes, so a rank that reports twice counts once.
    attempted: BTreeMap<(Rank, Sequence), u64>,
    pub(crate) detail: String,
    /// The operation that each rank was in when it noticed, by global rank.
    pub(crate) calls: BTreeMap<Rank, Call>,
    /// When the first rank noticed it, us.
    pub(crate) at_us: u64,
}

impl Failure {
    /// The operation that failed. If ranks called different ones, it is that of the first rank that is not to blame. None: a
    /// rendezvous or a death between operations.
    pub(crate) fn operation(&self) -> Option<Operation> {
        let right = self.operations.iter().find(|(rank, _)| !self.culprits.contains(rank));
        right.or(self.operations.first_key_value()).map(|(_, operation)| *operation)
    }

    pub(crate) fn attempted_bytes(&self) -> u64 {
        self.attempted.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Ranks notice that another is gone at the operation that they are in.
fn is_absence(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::RankLost | ErrorCode::Unreachable)
}

/// What one rank noticed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankFailure<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) rank: Rank,
    pub(crate) operation: Operation,
    pub(crate) code: ErrorCode,
    pub(crate) detail: &'a str,
    pub(crate) culprits: &'a [Rank],
    pub(crate) attempted_bytes: u64,
    pub(crate) call: Call,
}

/// Events beyond this many are not kept: no useful run has so many.
const MAX_EVENTS: usize = 10_000;

/// All failures of a run, in the order in which they were noticed.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    events: Vec<Failure>,
    /// All ranks hang.
    hanging: bool,
    now_us: u64,
}

impl Failures {
    /// Without the ranks that ended after the cluster hung for good: whoever ended the case ended them, in any order.
    pub(crate) fn events(&self) -> impl Iterator<Item = &Failure> {
        self.events.iter().filter(|event| !(self.hanging && event.after_hang))
    }

    /// Everything that is noticed from here on is noticed at `now_us`.
    pub(crate) fn time_is(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    /// All ranks hang, or no longer do.
    pub(crate) fn hang(&mut self, hanging: bool) {
        self.hanging = hanging;
    }

    /// The process of `from` reports a failure of one of its ranks.
    pub(crate) fn report(&mut self, from: ConnectionId, communicator: Option<&Communicator>, record: &FailureRecord) {
        match communicator {
            Some(communicator) => self.by_rank(
                communicator,
                RankFailure {
                    sequence: record.sequence,
                    rank: record.rank,
                    operation: record.operation,
                    code: record.code,
                    detail: &record.detail,
                    culprits: &record.culprits,
                    attempted_bytes: record.attempted_bytes,
                    call: Call::new(from, record.site, Some(record.operation), record.sequence),
                },
            ),
            // The coordinator noted a rendezvous that failed when it refused it; anything else is news.
            None if self.events.iter().any(|event| event.detail == record.detail) => {}
            None => self.rendezvous(record.code, Vec::new(), record.culprits.clone(), record.detail.clone()),
        }
    }

    pub(crate) fn by_rank(&mut self, communicator: &Communicator, noticed: RankFailure<'_>) {
        let global = communicator.global_rank(noticed.rank).unwrap_or(noticed.rank);
        let full = self.events.len() >= MAX_EVENTS;
        let known = self.events.iter_mut().find(|event| {
            event.communicator == Some(communicator.id)
                && event.code == noticed.code
                // Ranks notice a death at the operation they are at: it stays one failure, placed at the first of these.
                && (event.sequence == noticed.sequence || is_absence(noticed.code))
        });
        let event = match known {
            Some(event) => event,
            None if full => return,
            None => {
                self.events.push(Failure {
                    communicator: Some(communicator.id),
                    sequence: noticed.sequence,
                    code: noticed.code,
                    operations: BTreeMap::new(),
                    culprits: BTreeSet::new(),
                    witnesses: BTreeSet::new(),
                    after_hang: self.hanging && is_absence(noticed.code),
                    observed: BTreeSet::new(),
                    attempted: BTreeMap::new(),
                    detail: noticed.detail.to_owned(),
                    calls: BTreeMap::new(),
                    at_us: self.now_us,
                });
                self.events.last_mut().expect("just pushed")
            }
        };
        let place = |sequence| (sequence == NO_SEQUENCE, sequence);
        if place(noticed.sequence) < place(event.sequence) {
            event.sequence = noticed.sequence;
            event.operations.clear();
        }
        if event.sequence == noticed.sequence {
            let operation = event.operations.entry(noticed.rank).or_insert(noticed.operation);
            *operation = noticed.operation.min(*operation);
        }
        event.observed.insert(global);
        event.calls.entry(global).or_insert(noticed.call);
        // Ranks learn of a failure from each other too; one that only passed it on is not at fault.
        let is = |presence| communicator.participants.iter().any(|participant| participant.presence == presence);
        let (died, aborted) = (is(Presence::Gone), is(Presence::Aborted));
        let passed_on = |rank: Rank, participant: &Participant| match noticed.code {
            ErrorCode::RankLost => match participant.presence {
                Presence::Present => died || aborted,
                // Of a death, before it left itself.
                Presence::Left | Presence::Aborted => died,
                Presence::Gone => false,
            },
            // The rank that was hit reports itself.
            ErrorCode::InjectedRankFailure => rank != noticed.rank,
            _ => false,
        };
        let culprit = |rank: &&Rank| {
            let participant = communicator.participants.get(rank.0 as usize);
            participant.is_some_and(|participant| !passed_on(**rank, participant))
        };
        event.culprits.extend(noticed.culprits.iter().filter(culprit));
        if !noticed.culprits.is_empty() {
            event.witnesses.insert(noticed.rank);
        }
        event.attempted.insert((global, noticed.sequence), noticed.attempted_bytes);
    }

    /// The coordinator saw a member's process end. Deaths that follow a failure of the same communicator are its
    /// consequence and depend on timing, so only the first is an event.
    pub(crate) fn lost(&mut self, communicator: &Communicator, rank: Rank, (code, detail): (ErrorCode, &str)) {
        if self.events.iter().any(|event| event.communicator == Some(communicator.id)) {
            return;
        }
        self.events.push(Failure {
            communicator: Some(communicator.id),
            sequence: NO_SEQUENCE,
            code,
            operations: BTreeMap::new(),
            culprits: BTreeSet::from([rank]),
            witnesses: BTreeSet::new(),
            after_hang: self.hanging,
            observed: BTreeSet::new(),
            attempted: BTreeMap::new(),
            detail: detail.to_owned(),
            calls: BTreeMap::new(),
            at_us: self.now_us,
        });
    }

    /// No communicator formed. `observed` has global ranks and what they called; `culprits` has global ranks.
    pub(crate) fn rendezvous(
        &mut self,
        code: ErrorCode,
        observed: Vec<(Rank, Call)>,
        culprits: Vec<Rank>,
        detail: String,
    ) {
        let known = |event: &&mut Failure| event.communicator.is_none() && event.code == code && event.detail == detail;
        if let Some(event) = self.events.iter_mut().find(known) {
            event.observed.extend(observed.iter().map(|(rank, _)| *rank));
            event.calls.extend(observed);
            return;
        }
        if self.events.len() >= MAX_EVENTS {
            return;
        }
        self.events.push(Failure {
            communicator: None,
            sequence: NO_SEQUENCE,
            code,
            operations: BTreeMap::new(),
            culprits: culprits.into_iter().collect(),
            witnesses: BTreeSet::new(),
            after_hang: self.hanging && code == ErrorCode::RankLost,
            observed: observed.iter().map(|(rank, _)| *rank).collect(),
            attempted: BTreeMap::new(),
            detail,
            calls: observed.into_iter().collect(),
            at_us: self.now_us,
        });
    }
}
