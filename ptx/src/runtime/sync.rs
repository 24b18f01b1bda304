//! Operations at which threads synchronize: shuffles, votes, barriers, matrix operations.

use crate::runtime::matrix::{Fragment, MatrixAccess, Mma};
use crate::runtime::warpgroup::WarpgroupMma;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduxOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    FloatMin { absolute: bool, nan: bool },
    FloatMax { absolute: bool, nan: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    Popc,
    And,
    Or,
    /// The barrier of a warpgroup's four warps, which does not need a number.
    Warpgroup,
}

/// What is done once the threads have met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SyncOp {
    Yield,
    /// Nothing: lanes of a warp that run the same loops keep pace.
    Step,
    Shfl(ShflMode),
    Vote(VoteMode),
    Match {
        all: bool,
        wide: bool,
    },
    /// A reduction; the flag says that the numbers are signed.
    Redux(ReduxOp, bool),
    ActiveMask,
    Elect,
    WarpSync,
    Barrier {
        kind: BarrierKind,
        aligned: bool,
    },
    ClusterArrive,
    ClusterWait,
    Mma(Mma),
    WarpgroupMma(WarpgroupMma),
    LoadMatrix(MatrixAccess),
    StoreMatrix(MatrixAccess),
    MoveMatrix,
    /// A `wmma` load; the flag says that the address is in shared memory, else it is a generic one.
    LoadFragment(Fragment, bool),
    StoreFragment(Fragment, bool),
}
