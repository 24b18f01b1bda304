//! The trait that receives what a communicator did.

use protocol::fault::FaultRecord;
use protocol::ids::{CommunicatorId, Rank};
use protocol::record::{ErrorCode, FailureRecord, OperationRecord, PathRecord};

/// Hears what a rank did in its communicators.
pub(crate) trait Journal: Send + Sync {
    /// An operation is complete on this rank.
    fn completed(&self, record: OperationRecord);
    /// An operation failed on this rank.
    fn failed(&self, failure: FailureRecord);
    /// A fault of the case is about to fire here. False when it must not: it fired before.
    fn fault_fires(&self, record: FaultRecord) -> bool;
    /// What was measured so far between this rank and those on other nodes.
    fn measured(&self, communicator: CommunicatorId, rank: Rank, paths: Vec<PathRecord>);
    /// This rank left; by an abort for this reason.
    fn left(&self, communicator: CommunicatorId, rank: Rank, aborted: Option<(ErrorCode, String)>);
    /// This rank stays a member and takes part in no operation any more: `Revoked`, `Aborted` or why it had failed before, and
    /// that in a sentence.
    fn stopped(&self, communicator: CommunicatorId, rank: Rank, code: ErrorCode, detail: &str);
}
