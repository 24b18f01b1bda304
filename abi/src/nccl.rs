//! NCCL's result codes (`ncclResult_t`), and which one stands for a failure between ranks.
//! <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html>

use protocol::record::ErrorCode;

/// `ncclSuccess`.
pub const SUCCESS: u32 = 0;
/// `ncclUnhandledCudaError`.
pub const UNHANDLED_CUDA_ERROR: u32 = 1;
/// `ncclSystemError`.
pub const SYSTEM: u32 = 2;
/// `ncclInternalError`.
pub const INTERNAL: u32 = 3;
/// `ncclInvalidArgument`.
pub const INVALID_ARGUMENT: u32 = 4;
/// `ncclInvalidUsage`.
pub const INVALID_USAGE: u32 = 5;
/// `ncclRemoteError`.
pub const REMOTE: u32 = 6;
/// `ncclInProgress`.
pub const IN_PROGRESS: u32 = 7;

/// The result code for a kind of failure.
pub fn result(failure: ErrorCode) -> u32 {
    match failure {
        ErrorCode::InvalidArgument => INVALID_ARGUMENT,
        ErrorCode::DuplicateRank
        | ErrorCode::WorldSizeMismatch
        | ErrorCode::CollectiveTypeMismatch
        | ErrorCode::DtypeMismatch
        | ErrorCode::CountMismatch
        | ErrorCode::ReduceOpMismatch
        | ErrorCode::RootMismatch
        | ErrorCode::ShrinkExcludedRanksMismatch
        | ErrorCode::SharedDevice
        | ErrorCode::UnknownCommunicator => INVALID_USAGE,
        ErrorCode::TimeoutWaitingForRanks
        | ErrorCode::TimeoutWaitingForCollective
        | ErrorCode::TimeoutWaitingForP2p
        | ErrorCode::TimeoutWaitingForShrink
        | ErrorCode::System => SYSTEM,
        ErrorCode::TimeoutWaitingForSplit => INTERNAL,
        ErrorCode::RankLost
        | ErrorCode::Unreachable
        | ErrorCode::Aborted
        | ErrorCode::Revoked
        | ErrorCode::InjectedRankFailure => REMOTE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_get_the_documented_codes() {
        for (failure, expected) in [
            (ErrorCode::InvalidArgument, 4),
            (ErrorCode::CountMismatch, 5),
            (ErrorCode::TimeoutWaitingForCollective, 2),
            (ErrorCode::RankLost, 6),
            (ErrorCode::Unreachable, 6),
            (ErrorCode::InjectedRankFailure, 6),
        ] {
            assert_eq!(result(failure), expected);
        }
    }
}
