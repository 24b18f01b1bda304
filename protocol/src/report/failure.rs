//! What went wrong: findings, hangs, failures, recoveries and injected faults.

use serde::{Deserialize, Serialize};

use crate::finding::FindingKind;
use crate::ids::{CommunicatorId, Rank, Sequence};
use crate::record::ErrorCode;

report! {
    /// One thing that went wrong.
    Finding {
        /// From 1.
        index: u64,
        /// What kind.
        kind: FindingKind,
        /// What happened, in one sentence.
        sentence: String,
        /// Number of the communicator in this report; absent before one formed.
        comm_id: Option<CommunicatorId>,
        /// Position of the operation, 0 if there was none.
        seqno: Sequence,
        /// The operation; "init" for a rendezvous.
        operation: String,
        /// Global ranks at fault or missing, sorted.
        ranks: Vec<Rank>,
        /// The ranks that the launcher gave the processes of `ranks`, sorted; only where they differ, because a process is
        /// several ranks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        processes: Vec<Rank>,
        /// Global ranks that it stopped, sorted.
        observed_ranks: Vec<Rank>,
        /// Where these ranks were in the program, by rank. A rank whose place is not known is left out.
        #[serde(default)]
        sites: Vec<FindingSite>,
    }

    /// Something unusual that may be intended: no case fails because of it.
    Note {
        /// What is unusual, in a sentence that is the same in every run.
        sentence: String,
        /// The communicator's number in this report.
        comm_id: CommunicatorId,
        /// Position in the communicator.
        seqno: Sequence,
        /// The operation.
        operation: String,
        /// Where its ranks were in the program, by rank.
        sites: Vec<FindingSite>,
    }

    /// Where a rank of a finding was in the program.
    FindingSite {
        /// Global rank.
        rank: Rank,
        /// The operation that it called there; "init" for a rendezvous.
        operation: String,
        /// Position of that operation, 0 if there was none.
        seqno: Sequence,
        /// The rank completed that operation, its last one in the communicator. Otherwise it is the operation that failed.
        completed: bool,
        /// The source file: relative to the source root if it lies there, else as the program names it; or only the name of a
        /// program or library, if nothing else is known.
        file: String,
        /// Line, from 1; 0 where it is not known.
        line: u32,
        /// The function there.
        function: String,
    }

    /// Ranks that wait for ranks that never arrive.
    Hang {
        /// The whole story in one or a few sentences.
        sentence: String,
        /// The ranks that wait.
        waits: Vec<HangWait>,
        /// Global ranks that others wait for and that wait for none themselves.
        missing: Vec<Rank>,
        /// Global ranks that each wait for the next, the last for the first; empty when there is no such cycle.
        cycle: Vec<Rank>,
        /// Where the program called the operation that each of these ranks waits in, or the last one that a missing rank completed
        /// there. By rank; a rank whose place is not known is left out.
        #[serde(default)]
        sites: Vec<FindingSite>,
    }

    /// One rank that waits.
    HangWait {
        /// Global rank.
        rank: Rank,
        /// The communicator's number in this report; absent while it is forming.
        comm_id: Option<CommunicatorId>,
        /// Position of the collective in it; 0 for a send, a recv, or a communicator that is forming.
        seqno: Sequence,
        /// The call, in words.
        operation: String,
        /// Global ranks that it waits for.
        for_ranks: Vec<Rank>,
    }

    /// Failures and recoveries.
    Resilience {
        /// Length of `failure_events`.
        failure_count: u64,
        /// Length of `recovery_events`.
        recovery_count: u64,
        /// What failed, one event per communicator, position and kind.
        failure_events: Vec<FailureEvent>,
        /// Communicators that shrank.
        recovery_events: Vec<RecoveryEvent>,
        /// Faults of the case that fired, in its order.
        injected_faults: Vec<InjectedFault>,
    }

    /// One failure as all ranks that noticed it saw it.
    FailureEvent {
        /// From 1.
        index: u64,
        /// Number of the communicator in this report; absent before one formed.
        comm_id: Option<CommunicatorId>,
        /// Position of the failed operation, 0 if there was none.
        seqno: Sequence,
        /// Rank at fault in the communicator, when one is.
        local_rank: Option<Rank>,
        /// The same as a global rank.
        global_rank: Option<Rank>,
        /// Global ranks at fault or missing; of those that did not come to a rendezvous, the ones that are known.
        culprits: Vec<Rank>,
        /// What kind of cause.
        source: FailureSource,
        /// What the ranks were doing; "init" for a rendezvous, "none" for a death between operations.
        operation: String,
        /// Kind of failure.
        error_code: ErrorCode,
        /// Global ranks that noticed it, sorted.
        observed_ranks: Vec<Rank>,
        /// Bytes that those ranks tried to move.
        attempted_payload_bytes: u64,
    }

    /// A communicator that shrank.
    RecoveryEvent {
        /// From 1.
        index: u64,
        /// The communicator that shrank.
        parent_comm_id: CommunicatorId,
        /// Its successor.
        new_comm_id: CommunicatorId,
        /// Position in the parent: its complete collectives, plus one.
        seqno: Sequence,
        /// Whether a rank ended its operations on the parent first (`NCCL_SHRINK_ABORT`).
        abort_parent: bool,
        /// Global ranks left out.
        excluded_ranks: Vec<Rank>,
        /// Global ranks that went on.
        surviving_ranks: Vec<Rank>,
    }

    /// A fault of the case that fired.
    InjectedFault {
        /// Position in the case's `faults`, from 1; the events of `gpu` follow them.
        index: u64,
        /// What it did.
        kind: FaultKind,
        /// Global rank it hit; absent for a link.
        rank: Option<Rank>,
        /// Number of the communicator in this report; absent for a fault at no operation.
        comm_id: Option<CommunicatorId>,
        /// Position of the collective, or of the send or recv among the rank's own; 0 if there was none.
        seqno: Sequence,
        /// The operation; "none" if there was none.
        operation: String,
        /// What happened to the health of a GPU; absent for any other fault.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gpu: Option<GpuChange>,
    }

    /// A change of the health of a GPU.
    GpuChange {
        /// Which, `node0/3`.
        gpu: String,
        /// What happened, as "xid 79, lost".
        health: String,
        /// Whether the change fails work on it.
        is_fatal: bool,
    }
}

words! {
    /// What a fault does, as suites spell it.
    FaultKind {
        /// The rank's process is killed.
        Kill = "kill",
        /// The rank's process is stopped.
        Stop = "stop",
        /// The rank arrives late.
        Delay = "delay",
        /// The collective fails on the rank.
        NcclError = "nccl_error",
        /// A bit of the rank's contribution is flipped.
        Corrupt = "corrupt",
        /// The rank never arrives.
        Drop = "drop",
        /// Operations that cross a link take longer.
        SlowLink = "slow_link",
        /// Operations that cross a link fail.
        CutLink = "cut_link",
        /// The health of a GPU changes.
        Gpu = "gpu",
    }

    /// Kind of cause of a failure.
    FailureSource {
        /// The suite asked for it.
        Injected = "injected",
        /// Ranks did not arrive at a collective.
        CollectiveTimeout = "collective_timeout",
        /// The other side of a transfer did not arrive.
        PointToPointTimeout = "point_to_point_timeout",
        /// Ranks did not arrive at a rendezvous, split or shrink.
        RendezvousTimeout = "rendezvous_timeout",
        /// A process ended.
        RankLost = "rank_lost",
        /// A host went silent.
        Unreachable = "unreachable",
        /// A rank aborted or revoked the communicator.
        Aborted = "aborted",
        /// Ranks disagreed or joined twice.
        Mismatch = "mismatch",
        /// Anything else.
        Other = "other",
    }
}

impl ErrorCode {
    /// The kind of cause.
    pub fn source(self) -> FailureSource {
        match self {
            Self::InjectedRankFailure => FailureSource::Injected,
            Self::TimeoutWaitingForCollective => FailureSource::CollectiveTimeout,
            Self::TimeoutWaitingForP2p => FailureSource::PointToPointTimeout,
            Self::TimeoutWaitingForRanks | Self::TimeoutWaitingForSplit | Self::TimeoutWaitingForShrink => {
                FailureSource::RendezvousTimeout
            }
            Self::RankLost => FailureSource::RankLost,
            Self::Unreachable => FailureSource::Unreachable,
            Self::Aborted | Self::Revoked => FailureSource::Aborted,
            Self::DuplicateRank
            | Self::WorldSizeMismatch
            | Self::CollectiveTypeMismatch
            | Self::DtypeMismatch
            | Self::CountMismatch
            | Self::ReduceOpMismatch
            | Self::RootMismatch
            | Self::ShrinkExcludedRanksMismatch
            | Self::SharedDevice => FailureSource::Mismatch,
            Self::InvalidArgument | Self::UnknownCommunicator | Self::System => FailureSource::Other,
        }
    }
}
