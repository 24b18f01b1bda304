//! Where ranks were in their programs when they made the call that failed, and what they did last.

use std::collections::BTreeMap;

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::record::OperationRecord;
use protocol::site::{CallSite, MOST};

use crate::exchange::ConnectionId;
use crate::gathering::Applicant;
use crate::ledger::NO_SEQUENCE;

/// An operation that a rank called, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    connection: ConnectionId,
    site: SiteId,
    /// None for the creation of a communicator.
    pub(crate) operation: Option<Operation>,
    /// 0 if it has no position.
    pub(crate) sequence: Sequence,
    /// When it was done, by the machine's monotonic clock, us; 0 if that is not known.
    pub(crate) ended_us: u64,
}

impl Call {
    /// `operation` at position `sequence`, called by the process of `connection` at `site`.
    pub(crate) fn new(
        connection: ConnectionId,
        site: SiteId,
        operation: Option<Operation>,
        sequence: Sequence,
    ) -> Self {
        Self { connection, site, operation, sequence, ended_us: 0 }
    }

    /// The same operation, done at `ended_us`.
    pub(crate) fn ended(self, ended_us: u64) -> Self {
        Self { ended_us, ..self }
    }

    /// Where it is in the program of its process.
    pub(crate) fn place(&self) -> (ConnectionId, SiteId) {
        (self.connection, self.site)
    }

    /// What `applicant` asks for.
    pub(crate) fn from_applicant(applicant: &Applicant, operation: Option<Operation>) -> Self {
        Self::new(applicant.connection, applicant.member.site, operation, NO_SEQUENCE)
    }
}

/// The places of all processes, and each rank's last operation.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    known: BTreeMap<(ConnectionId, SiteId), CallSite>,
    last: BTreeMap<(CommunicatorId, Rank), Call>,
}

impl Sites {
    /// Where `id` of a process is. Numbers that no process uses are ignored.
    pub(crate) fn define(&mut self, connection: ConnectionId, id: SiteId, site: CallSite) {
        if (1..=MOST).contains(&id.0) {
            self.known
                .insert((connection, id), CallSite::new(site.file, site.line, site.function).with_place(site.place));
        }
    }

    /// A rank completed an operation.
    pub(crate) fn completed(&mut self, connection: ConnectionId, record: &OperationRecord) {
        // What is not the program's call (a barrier of ours) has no place.
        if record.site != SiteId::default() {
            let call = Call::new(connection, record.site, Some(record.operation), record.sequence);
            self.last.insert((record.communicator, record.rank), call);
        }
    }

    /// The last operation that a rank completed in a communicator.
    pub(crate) fn last(&self, communicator: CommunicatorId, rank: Rank) -> Option<&Call> {
        self.last.get(&(communicator, rank))
    }

    /// Where a call was made.
    pub(crate) fn place(&self, call: &Call) -> Option<&CallSite> {
        self.known.get(&(call.connection, call.site))
    }
}
