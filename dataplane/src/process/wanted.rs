//! A rank's request at a rendezvous.

use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{Member, ToCoordinator};

/// The communicator that a rank requests.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// A communicator of the `size` ranks with the same unique id.
    Init { unique_id: Vec<u8>, size: u32 },
    /// A communicator of the parent's ranks (`size` in all) that have the same color.
    Split { parent: CommunicatorId, sequence: Sequence, size: u32, color: Option<u32>, key: i32 },
    /// A communicator of the parent's ranks (`size` in all) that are not excluded.
    Shrink { parent: CommunicatorId, sequence: Sequence, size: u32, excluded: Vec<u32>, abort: bool },
    /// A communicator of the parent's ranks and new ones, `size` in all.
    Grow { parent: CommunicatorId, sequence: Sequence, size: u32 },
}

impl Wanted {
    /// The ranks to wait for.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        match self {
            Self::Init { size, .. } | Self::Split { size, .. } | Self::Grow { size, .. } => (0..*size).collect(),
            Self::Shrink { size, excluded, .. } => (0..*size).filter(|rank| !excluded.contains(rank)).collect(),
        }
    }

    /// NCCL's function.
    pub(super) fn function(&self) -> &'static str {
        match self {
            Self::Init { .. } => "ncclCommInitRank",
            Self::Split { .. } => "ncclCommSplit",
            Self::Shrink { .. } => "ncclCommShrink",
            Self::Grow { .. } => "ncclCommGrow",
        }
    }

    /// The request to the coordinator, with this number.
    pub(super) fn message(&self, request: u64, rank: Rank, member: Member) -> ToCoordinator {
        match self.clone() {
            Self::Init { unique_id, size } => {
                ToCoordinator::InitCommunicator { request, unique_id, size, rank, member }
            }
            Self::Split { parent, sequence, color, key, .. } => {
                ToCoordinator::SplitCommunicator { request, parent, sequence, rank, color, key, member }
            }
            Self::Shrink { parent, sequence, excluded, abort, .. } => {
                let excluded = excluded.into_iter().map(Rank).collect();
                ToCoordinator::ShrinkCommunicator { request, parent, sequence, rank, excluded, abort, member }
            }
            Self::Grow { parent, sequence, size } => {
                ToCoordinator::GrowCommunicator { request, parent, sequence, size, rank, member }
            }
        }
    }
}
