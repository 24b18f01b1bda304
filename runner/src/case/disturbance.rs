//! What is done to a case on purpose: processes killed, faults in NCCL and of GPUs.

use crate::source::SourceLocation;

/// A process to kill, and when.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Whom.
    pub target: KillTarget,
    /// Signal number.
    pub signal: i32,
    /// Whose stdout is watched; the target's, unless that is the coordinator or a node: then rank 0's.
    pub watch: u32,
    /// Matches a line of that stdout.
    pub output: regex::bytes::Regex,
    /// Where it is written.
    pub place: SourceLocation,
}

/// A fault, and where it is written.
#[derive(Clone, Debug)]
pub struct Fault {
    /// As it is passed to the ranks.
    pub fault: protocol::fault::Fault,
    /// Where it is written.
    pub place: SourceLocation,
}

/// Whom a [`Kill`] hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTarget {
    /// The process of a global rank.
    Rank(u32),
    /// The coordinator.
    Coordinator,
    /// All processes of a node, by its index.
    Node(u32),
}
