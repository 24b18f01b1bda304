//! Deliberate disturbances of a case: killed processes, NCCL faults and GPU faults.

use crate::source::SourceLocation;

/// A process to kill, and when.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Whom.
    pub target: KillTarget,
    /// Signal number.
    pub signal: i32,
    /// The rank whose stdout is watched: the target, or rank 0 if the target is the coordinator or a node.
    pub watch: u32,
    /// Matched against each line of that stdout.
    pub output: regex::bytes::Regex,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// A fault, and where the suite defines it.
#[derive(Clone, Debug)]
pub struct Fault {
    /// As it is passed to the ranks.
    pub fault: protocol::fault::Fault,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// The target of a [`Kill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTarget {
    /// The process of a global rank.
    Rank(u32),
    /// The coordinator.
    Coordinator,
    /// All processes of a node, by its index.
    Node(u32),
}
