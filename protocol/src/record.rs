//! What a rank reports: each operation that it completed, each that failed with the kind of failure, and what it holds after an
//! optimizer step.

use serde::{Deserialize, Serialize};

use crate::datatype::{Datatype, Operation, ReductionOp};
use crate::ids::{CommunicatorId, Rank, Sequence, SiteId};

/// How the bytes of an operation moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BufferTransport {
    /// Through arenas mapped by both sides.
    SharedMemory,
    /// Through a socket between the two ranks.
    SocketPayload,
    /// Nothing moved.
    Control,
    /// The real NCCL moved the bytes; the ranks told each other what they called.
    ProxyOnly,
}

/// When an operation was issued: its place in the order in which the program issued operations to one device of its process,
/// across communicators. Operations between one `ncclGroupStart` and `ncclGroupEnd` share a place; an operation outside a group
/// has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// From 1, without gaps; 0 for an operation that has no place, such as a one-sided one.
    pub place: u64,
    /// Operations that share the place.
    pub together: u32,
    /// The thread of its process that issued it, by a unique number; 0 if it is not known.
    pub thread: u32,
}

/// What a rank's kernel measured of its connections to another rank of a communicator on another node, so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRecord {
    /// The rank at the other end.
    pub peer: Rank,
    /// There and back, smoothed, us; with what waited on the way.
    pub round_trip_us: u32,
    /// The shortest there and back, us.
    pub least_us: u32,
    /// At which the other end confirmed what was sent, lately; 0 where nothing was.
    pub bytes_per_s: u64,
    /// Segments that were sent again.
    pub resent: u32,
    /// The time of an operation was up while bytes of it were on their way: not the other rank was late, but the link.
    pub is_late: bool,
}

/// One operation as one rank completed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRecord {
    /// The communicator that it was in.
    pub communicator: CommunicatorId,
    /// Which collective of the communicator; for send and recv, which transfer of the ordered pair.
    pub sequence: Sequence,
    /// The reporting rank in the communicator.
    pub rank: Rank,
    /// What.
    pub operation: Operation,
    /// Elements as the caller gave them (NCCL's count argument).
    pub count: u64,
    /// Element type.
    pub datatype: Datatype,
    /// Reduction operator, if the operation has one.
    pub reduction_op: Option<ReductionOp>,
    /// Root, if the operation has one.
    pub root: Option<Rank>,
    /// The other side of a send or recv.
    pub peer: Option<Rank>,
    /// How the bytes moved.
    pub transport: BufferTransport,
    /// Time blocked waiting for the others, us.
    pub wait_us: f64,
    /// Time from all present to done, us.
    pub execute_us: f64,
    /// When it was done, by the monotonic clock of the coordinator's host, ns.
    pub ended_ns: u64,
    /// Where the program called it.
    pub site: SiteId,
    /// When the program issued it.
    pub issue: Issue,
}

/// Why an operation failed, reported once by every rank that noticed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// The communicator that it was in; `None` before one formed.
    pub communicator: Option<CommunicatorId>,
    /// Position of the failed operation, 0 if unknown.
    pub sequence: Sequence,
    /// The reporting rank in the communicator.
    pub rank: Rank,
    /// What it was doing.
    pub operation: Operation,
    /// Kind of failure.
    pub code: ErrorCode,
    /// One sentence for people.
    pub detail: String,
    /// Ranks (of the communicator) at fault or missing, when known.
    pub culprits: Vec<Rank>,
    /// Payload this rank tried to move, bytes.
    pub attempted_bytes: u64,
    /// Where the program made the call that failed.
    pub site: SiteId,
}

/// Kinds of failure, as FakeGPU's reports spell them where it has a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Arguments that no communicator accepts.
    InvalidArgument,
    /// The same rank asked twice.
    DuplicateRank,
    /// Ranks named different sizes for one unique id, or a size the cluster does not have.
    WorldSizeMismatch,
    /// Ranks called different operations at one sequence.
    CollectiveTypeMismatch,
    /// Ranks gave different datatypes.
    DtypeMismatch,
    /// Ranks gave different counts.
    CountMismatch,
    /// Ranks gave different reduction operators.
    ReduceOpMismatch,
    /// Ranks gave different roots.
    RootMismatch,
    /// Not every rank arrived at a rendezvous in time.
    TimeoutWaitingForRanks,
    /// Not every rank arrived at a collective in time.
    TimeoutWaitingForCollective,
    /// The other side of a send or recv did not arrive in time.
    TimeoutWaitingForP2p,
    /// Not every rank arrived at a split in time.
    TimeoutWaitingForSplit,
    /// A process of the communicator ended.
    RankLost,
    /// A rank called `ncclCommAbort`.
    Aborted,
    /// The communicator is not known.
    UnknownCommunicator,
    /// A fault the suite asked for.
    InjectedRankFailure,
    /// A socket or mapping failed.
    System,
    /// Ranks want to shrink a communicator to different sets of ranks.
    ShrinkExcludedRanksMismatch,
    /// Not every remaining rank arrived at a shrink in time.
    TimeoutWaitingForShrink,
    /// A rank called `ncclCommRevoke`.
    Revoked,
    /// Two ranks use the same GPU.
    SharedDevice,
    /// Nothing comes from a rank's host any more.
    Unreachable,
}

/// A rank's copy of what should be the same on every rank of a group, before its first optimizer step or after one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldingRecord {
    /// The reporting rank, by its global number.
    pub rank: Rank,
    /// The group's global ranks, sorted.
    pub group: Vec<Rank>,
    /// Optimizer steps of the group so far; 0 before the first.
    pub step: u64,
    /// Where the program made the step.
    pub site: SiteId,
    /// What each tensor is: `parameter 0.weight`. Empty if the whole step has the same names as the step before.
    pub names: Vec<String>,
    /// A hash of the bytes of each tensor.
    pub hashes: Vec<u64>,
    /// More of the same step follows.
    pub is_continued: bool,
}
