//! The trait that receives what a communicator did.

use protocol::fault::FaultRecord;
use protocol::ids::{CommunicatorId, Rank};
use protocol::record::{ErrorCode, FailureRecord, OperationRecord, PathRecord};

/// Receives what a rank did in its communicators.
pub(crate) trait Journal: Send + Sync {
    /// An operation is complete on this rank.
    fn completed(&self, record: OperationRecord);
    /// An operation failed on this rank.
    fn failed(&self, failure: FailureRecord);
    /// A fault of the case is about to fire here. False if it must not, because it fired before.
    fn fault_fires(&self, record: FaultRecord) -> bool;
    /// What was measured so far between this rank and those on other nodes.
    fn measured(&self, communicator: CommunicatorId, rank: Rank, paths: Vec<PathRecord>);
    /// This rank left; the reason is given if it aborted.
    fn left(&self, communicator: CommunicatorId, rank: Rank, aborted: Option<(ErrorCode, String)>);
    /// This rank stays a member but takes part in no further operations: `Revoked`, `Aborted` or why it failed before, and the
    /// same in a sentence.
    fn stopped(&self, communicator: CommunicatorId, rank: Rank, code: ErrorCode, detail: &str);
}
