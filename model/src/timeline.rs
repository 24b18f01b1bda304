//! The operations kept for the report: the last ones of each communicator, by position and not by arrival.

use std::collections::BTreeMap;

use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::record::{BufferTransport, OperationRecord};
use protocol::report::OperationKind;

use crate::cost::Duration;

/// Position of an operation in its communicator. A transfer has its two ranks (of the communicator) as well.
pub(crate) type Position = (Sequence, OperationKind, Option<(Rank, Rank)>);

/// One completed operation.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) operation: Operation,
    pub(crate) datatype: Option<Datatype>,
    pub(crate) reduction_op: Option<ReductionOp>,
    pub(crate) root: Option<Rank>,
    pub(crate) count: u64,
    pub(crate) transport: BufferTransport,
    /// Global ranks.
    pub(crate) ranks: Vec<Rank>,
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    pub(crate) wait_us: f64,
    pub(crate) execute_us: f64,
    /// When each of `ranks` arrived and was done, if it reported that.
    pub(crate) spans: Vec<Option<Span>>,
}

/// The time from arrival to being done, ns by the ranks' clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) began_ns: u64,
    pub(crate) ended_ns: u64,
}

impl Span {
    pub(crate) fn from_record(record: &OperationRecord) -> Span {
        // A time that is too large for the type cannot be a rank's; the cast keeps it from doing harm.
        let took_ns = ((record.wait_us.max(0.0) + record.execute_us.max(0.0)) * 1000.0) as u64;
        Span { began_ns: record.ended_ns.saturating_sub(took_ns), ended_ns: record.ended_ns }
    }
}

/// The last `capacity` operations of each communicator. Which are kept does not depend on the order of their arrival.
#[derive(Debug)]
pub(crate) struct Timeline {
    capacity: usize,
    total: u64,
    kept: BTreeMap<CommunicatorId, BTreeMap<Position, Entry>>,
    /// Spans of receives that were reported before their sends.
    early: BTreeMap<(CommunicatorId, Position), Span>,
}

impl Timeline {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, total: 0, kept: BTreeMap::new(), early: BTreeMap::new() }
    }

    pub(crate) fn push(&mut self, communicator: CommunicatorId, position: Position, mut entry: Entry) {
        self.total += 1;
        if let (Some(span), Some(receiver)) = (self.early.remove(&(communicator, position)), entry.spans.last_mut()) {
            receiver.get_or_insert(span);
        }
        let kept = self.kept.entry(communicator).or_default();
        kept.insert(position, entry);
        if kept.len() > self.capacity {
            kept.pop_first();
        }
    }

    /// Another rank's view of an operation: the longest wait and execution count, and a socket anywhere is a socket.
    pub(crate) fn observe(&mut self, communicator: CommunicatorId, position: &Position, record: &OperationRecord) {
        let entry = self.kept.get_mut(&communicator).and_then(|kept| kept.get_mut(position));
        if let Some(entry) = entry {
            entry.wait_us = entry.wait_us.max(record.wait_us);
            entry.execute_us = entry.execute_us.max(record.execute_us);
            if record.transport == BufferTransport::SocketPayload {
                entry.transport = record.transport;
            }
            if let Some(span) = entry.spans.get_mut(record.rank.0 as usize) {
                *span = Some(Span::from_record(record));
            }
        }
    }

    /// The receiver's span of a transfer, which its send books.
    pub(crate) fn received(&mut self, communicator: CommunicatorId, position: Position, span: Span) {
        match self.kept.get_mut(&communicator).and_then(|kept| kept.get_mut(&position)) {
            Some(entry) => {
                if let Some(receiver) = entry.spans.last_mut() {
                    receiver.get_or_insert(span);
                }
            }
            // Receives without a send are a mistake, and must not grow without end.
            None if self.early.len() < self.capacity => drop(self.early.insert((communicator, position), span)),
            None => {}
        }
    }

    /// Operations ever pushed.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The last operations of all communicators taken in `order`: at most the capacity.
    pub(crate) fn last<'t>(&'t self, order: &[CommunicatorId]) -> Vec<(CommunicatorId, &'t Position, &'t Entry)> {
        let mut entries: Vec<_> = order
            .iter()
            .rev()
            .flat_map(|id| {
                let kept = self.kept.get(id).into_iter().flatten();
                kept.rev().map(|(position, entry)| (*id, position, entry))
            })
            .take(self.capacity)
            .collect();
        entries.reverse();
        entries
    }
}
