//! The operations kept for the report: per communicator the last ones, by position and not by arrival.

use std::collections::BTreeMap;

use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::BufferTransport;
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
}

/// The last `capacity` operations of each communicator. Which are kept does not depend on the order of their arrival.
#[derive(Debug)]
pub(crate) struct Timeline {
    capacity: usize,
    total: u64,
    kept: BTreeMap<CommunicatorId, BTreeMap<Position, Entry>>,
}

impl Timeline {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, total: 0, kept: BTreeMap::new() }
    }

    pub(crate) fn push(&mut self, communicator: CommunicatorId, position: Position, entry: Entry) {
        self.total += 1;
        let kept = self.kept.entry(communicator).or_default();
        kept.insert(position, entry);
        if kept.len() > self.capacity {
            kept.pop_first();
        }
    }

    /// Another rank's view of an operation: the longest wait and execution count, and a socket anywhere is a socket.
    pub(crate) fn observe(
        &mut self,
        communicator: CommunicatorId,
        position: &Position,
        transport: BufferTransport,
        wait_us: f64,
        execute_us: f64,
    ) {
        let entry = self.kept.get_mut(&communicator).and_then(|kept| kept.get_mut(position));
        if let Some(entry) = entry {
            entry.wait_us = entry.wait_us.max(wait_us);
            entry.execute_us = entry.execute_us.max(execute_us);
            if transport == BufferTransport::SocketPayload {
                entry.transport = transport;
            }
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
