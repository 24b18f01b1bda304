//! The cluster report: what the coordinator writes and `ftest` checks. Field names are FakeGPU's where it has the field.
//!
//! Everything outside [`ClusterReport::measured`] is a function of workload and configuration, the same in every run.
//! Numbers of type `f64` are rounded to three decimals. FakeGPU's `socket_*_payload_bytes` are left out: no payload
//! passes through the coordinator.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::datatype::{Datatype, Operation, ReductionOp};
use crate::finding::FindingKind;
use crate::ids::{CommunicatorId, Rank, Sequence};
use crate::record::{BufferTransport, ErrorCode};

/// Value of [`ClusterReport::schema_version`].
pub const SCHEMA_VERSION: &str = "cluster_report.v1";

macro_rules! report {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
    )*};
}

report! {
    /// What one run of a cluster did.
    ClusterReport {
        /// [`SCHEMA_VERSION`].
        schema_version: String,
        /// Rules behind the estimated times, "v1".
        model: String,
        /// The cluster as a whole.
        cluster: ClusterSection,
        /// Every communicator that formed, in the order of `comm_id`.
        communicators: Vec<CommunicatorSection>,
        /// Per collective, all of them, also those never called.
        collectives: BTreeMap<String, CollectiveTotals>,
        /// Sends and receives.
        point_to_point: PointToPointTotals,
        /// Directed node-to-node traffic, only pairs that saw some; source and destination are equal within a node.
        links: Vec<LinkTotals>,
        /// Every unordered pair of nodes; in clusters of more than 64 nodes only pairs that saw traffic.
        node_pairs: Vec<NodePair>,
        /// Every rank of the cluster.
        ranks: Vec<RankTotals>,
        /// What went wrong between ranks, even if the program went on, in the order of communicators and positions.
        #[serde(default)]
        findings: Vec<Finding>,
        /// What is unusual and may be meant, in the order of communicators.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<Note>,
        /// Failures and recoveries.
        resilience: Resilience,
        /// Why nothing moved any more, when that was found out.
        #[serde(skip_serializing_if = "Option::is_none")]
        hang: Option<Hang>,
        /// The last operations, ordered by communicator and position in it.
        operation_timeline: Timeline,
        /// All that may differ between two runs of the same workload.
        measured: Measured,
    }

    /// The cluster as a whole.
    ClusterSection {
        /// Name from the cluster file; absent without one.
        name: Option<String>,
        /// Backend named in the cluster file; absent without one.
        default_backend: Option<String>,
        /// "simulate".
        mode: String,
        /// Size of the largest communicator formed, else the configured size; 0 when neither is known.
        world_size: u32,
        /// Configured nodes, 0 without a cluster file.
        node_count: u32,
        /// Communicators formed.
        communicators: u32,
        /// "unix" or "tcp".
        coordinator_transport: String,
    }

    /// One communicator.
    CommunicatorSection {
        /// Number in this report, from 1: the largest first, then by member ranks, then by order of formation.
        comm_id: CommunicatorId,
        /// The communicator it was split, shrunk or grown from.
        parent_comm_id: Option<CommunicatorId>,
        /// Global ranks in communicator order.
        ranks: Vec<Rank>,
        /// Collectives completed, barriers included.
        collectives: u64,
        /// Transfers completed.
        transfers: u64,
    }

    /// Ranks that wait for ranks that do not come.
    Hang {
        /// The whole story in one or a few sentences.
        sentence: String,
        /// The ranks that wait.
        waits: Vec<HangWait>,
        /// Global ranks that others wait for and that wait for none themselves.
        missing: Vec<Rank>,
        /// Global ranks that each wait for the next, the last for the first; empty when there is no such cycle.
        cycle: Vec<Rank>,
        /// Where the program called what these ranks wait in and, for a missing rank, what it completed last there. By rank; a rank
        /// whose place is not known is left out.
        #[serde(default)]
        sites: Vec<FindingSite>,
    }

    /// One rank that waits.
    HangWait {
        /// Global rank.
        rank: Rank,
        /// The communicator's number in this report; absent while it forms.
        comm_id: Option<CommunicatorId>,
        /// Which collective of it; 0 for a send, a recv and a communicator that forms.
        seqno: Sequence,
        /// The call, in words.
        operation: String,
        /// Global ranks that it waits for.
        for_ranks: Vec<Rank>,
    }

    /// One kind of collective.
    CollectiveTotals {
        /// Times it completed.
        calls: u64,
        /// Request bytes of all ranks together.
        bytes: u64,
        /// Modelled time, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
    }

    /// Sends and receives, and one-sided puts.
    PointToPointTotals {
        /// Transfers: matched pairs of send and recv, and puts.
        operations: u64,
        /// Sends and puts.
        sends: u64,
        /// Bytes sent.
        bytes: u64,
        /// Modelled time, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
    }

    /// Traffic from one node to another or within one.
    LinkTotals {
        /// Source node.
        src: String,
        /// Destination node.
        dst: String,
        /// Which fabric.
        scope: LinkScope,
        /// Edges of operations that used the link.
        samples: u64,
        /// Operations that used it.
        operations: u64,
        /// Collectives among them.
        collective_operations: u64,
        /// Transfers among them.
        point_to_point_operations: u64,
        /// Modelled bytes on the wire.
        bytes: u64,
        /// Most bytes of one operation.
        peak_bytes_per_operation: u64,
        /// Of the fabric, Gbit/s.
        bandwidth_gbps: f64,
        /// Of the fabric, us.
        avg_latency_us: f64,
        /// Modelled time, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
        /// Bytes over modelled time, Gbit/s.
        average_estimated_throughput_gbps: f64,
        /// Highest of one operation, Gbit/s.
        peak_estimated_throughput_gbps: f64,
    }

    /// Traffic between two nodes, both directions. `node_a` comes first in the alphabet.
    NodePair {
        /// One node.
        node_a: String,
        /// The other.
        node_b: String,
        /// Always `inter_node`.
        scope: LinkScope,
        /// From `node_a`.
        a_to_b: Direction,
        /// From `node_b`.
        b_to_a: Direction,
        /// Operations that used either direction; one that used both counts once.
        operations: u64,
        /// Collectives among them.
        collective_operations: u64,
        /// Transfers among them.
        point_to_point_operations: u64,
        /// Bytes both ways.
        total_bytes: u64,
        /// Most bytes of one operation, both ways together.
        peak_combined_bytes_per_operation: u64,
        /// Modelled time both ways, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
        /// Bytes over modelled time, Gbit/s.
        average_estimated_throughput_gbps: f64,
        /// Highest of one operation, Gbit/s.
        peak_estimated_throughput_gbps: f64,
    }

    /// One direction of a node pair.
    Direction {
        /// Edges of operations.
        transfers: u64,
        /// Modelled bytes on the wire.
        total_bytes: u64,
        /// Most bytes of one operation.
        peak_bytes_per_operation: u64,
        /// Of the fabric, Gbit/s.
        model_bandwidth_gbps: f64,
        /// Of the fabric, us.
        avg_latency_us: f64,
        /// Modelled time, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
        /// Bytes over modelled time, Gbit/s.
        average_estimated_throughput_gbps: f64,
        /// Highest of one operation, Gbit/s.
        peak_estimated_throughput_gbps: f64,
    }

    /// One rank's own records.
    RankTotals {
        /// Global rank.
        rank: Rank,
        /// Its node; absent without a cluster file.
        node: Option<String>,
        /// Waits that ended at the deadline.
        timeouts: u64,
        /// Communicators it came into, splits included.
        communicator_inits: u64,
        /// Collectives it completed, without barriers.
        collective_calls: u64,
        /// Sends, receives and one-sided operations it completed.
        point_to_point_calls: u64,
        /// Barriers it completed.
        barrier_calls: u64,
    }

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
        /// Position of the operation, 0 when it was none.
        seqno: Sequence,
        /// The operation; "init" for a rendezvous.
        operation: String,
        /// Global ranks at fault or missing, sorted.
        ranks: Vec<Rank>,
        /// Global ranks that it stopped, sorted.
        observed_ranks: Vec<Rank>,
        /// Where these ranks were in the program, by rank. A rank whose place is not known is left out.
        #[serde(default)]
        sites: Vec<FindingSite>,
    }

    /// Something unusual that may be meant: no case fails for it.
    Note {
        /// It, in a sentence that is the same in every run.
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
        /// Position of that operation, 0 when it was none.
        seqno: Sequence,
        /// It completed that operation, which is the last that it did in the communicator. Otherwise it is the one that failed.
        completed: bool,
        /// The source file: from the source root if it lies there, else as the program names it; or the name of a program or
        /// library of which only that is known.
        file: String,
        /// Line, from 1; 0 where it is not known.
        line: u32,
        /// The function there.
        function: String,
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
        /// Position of the failed operation, 0 when it was none.
        seqno: Sequence,
        /// Rank at fault in the communicator, when one is.
        local_rank: Option<Rank>,
        /// The same as a global rank.
        global_rank: Option<Rank>,
        /// Ranks at fault or missing, global where the communicator formed, else in the communicator that did not.
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
        /// Position in the case's `faults`, from 1.
        index: u64,
        /// What it did.
        kind: FaultKind,
        /// Global rank it hit; absent for a link.
        rank: Option<Rank>,
        /// Number of the communicator in this report; absent for a fault at no operation.
        comm_id: Option<CommunicatorId>,
        /// Position of the collective, or of the send or recv among the rank's own; 0 when it was none.
        seqno: Sequence,
        /// The operation; "none" for a fault at none.
        operation: String,
    }

    /// The last operations.
    Timeline {
        /// Length of `entries`.
        retained_entries: u64,
        /// Operations before them.
        dropped_entries: u64,
        /// In order.
        entries: Vec<TimelineEntry>,
    }

    /// One operation.
    TimelineEntry {
        /// From 1, counting dropped ones.
        index: u64,
        /// Number of the communicator in this report.
        comm_id: CommunicatorId,
        /// Position among its collectives, or among the transfers of the ordered pair.
        seqno: Sequence,
        /// What kind.
        kind: OperationKind,
        /// Which; "send_recv" for a send and its recv.
        operation: String,
        /// Element type, where it has one.
        data_type: Option<Datatype>,
        /// Reduction operator, where it has one.
        reduce_op: Option<ReductionOp>,
        /// Global rank of the root, where it has one.
        root: Option<Rank>,
        /// Elements as the caller gave them.
        count: u64,
        /// How the bytes moved.
        buffer_transport: BufferTransport,
        /// Global ranks in communicator order; source and destination of a transfer.
        ranks: Vec<Rank>,
        /// Request bytes of all ranks together.
        logical_payload_bytes: u64,
        /// Modelled time, us.
        modeled_time_us: f64,
    }

    /// All that may differ between two runs of the same workload.
    Measured {
        /// Version of the tool that wrote the report.
        tool_version: String,
        /// The cluster file.
        config_path: Option<String>,
        /// Where the Markdown sibling was written.
        markdown_report_path: Option<String>,
        /// Where the coordinator listened.
        coordinator_address: String,
        /// The directory from which the files of findings are named; absent where none was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_root: Option<String>,
        /// Per rank.
        ranks: Vec<MeasuredRank>,
        /// Wall clock when the first operation of the timeline began, ms since 1970; for display only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operations_began_at_ms: Option<u64>,
        /// Per entry of the timeline.
        operations: Vec<MeasuredOperation>,
        /// Per failure event.
        failures: Vec<MeasuredFailure>,
        /// Per recovery event.
        recoveries: Vec<MeasuredRecovery>,
        /// How long each of the hang's waits had lasted, ms.
        #[serde(skip_serializing_if = "Option::is_none")]
        hang_waits_ms: Option<Vec<u64>>,
        /// What replicas held after their optimizer steps (`sanitize: [replicas]`), by group.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replicas: Vec<ReplicaGroup>,
    }

    /// Ranks that should hold the same after each optimizer step.
    ReplicaGroup {
        /// Global ranks.
        ranks: Vec<Rank>,
        /// Optimizer steps that all of them made and that were compared, up to the first with a difference.
        steps: u64,
        /// What was compared.
        tensors: Vec<ReplicaTensor>,
    }

    /// A parameter, a buffer or a part of the optimizer's state, on all ranks of a group.
    ReplicaTensor {
        /// Which: `parameter 0.weight`.
        name: String,
        /// A hash of its bytes over all steps and ranks, in hexadecimal: the same in two runs only if the bytes were.
        hash: String,
    }

    /// Measured facts of one rank.
    MeasuredRank {
        /// Global rank.
        rank: Rank,
        /// Processes that were this rank.
        pids: Vec<u32>,
        /// Time blocked waiting for other ranks, ms.
        wait_time_ms: f64,
    }

    /// Measured facts of one operation.
    MeasuredOperation {
        /// Of the timeline entry.
        index: u64,
        /// Longest wait of a rank for the others, us.
        rendezvous_wait_us: f64,
        /// Longest time from all present to done, us.
        execution_time_us: f64,
        /// When each of the entry's ranks came, us since the first operation of the timeline began; null for one that
        /// did not report it. Ranks on machines of their own have clocks of their own.
        #[serde(default)]
        began_us: Vec<Option<f64>>,
        /// When each was done.
        #[serde(default)]
        ended_us: Vec<Option<f64>>,
    }

    /// Measured facts of one failure.
    MeasuredFailure {
        /// Of the failure event.
        index: u64,
        /// One sentence for people.
        error_detail: String,
    }

    /// Measured facts of one recovery.
    MeasuredRecovery {
        /// Of the recovery event.
        index: u64,
        /// Time from the parent's first failure, or from the first rank that asked when there was none, to the child, us.
        recovery_time_us: f64,
    }
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// The word used in reports.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    )*};
}

words! {
    /// Which fabric a link belongs to.
    LinkScope {
        /// Within a node.
        IntraNode = "intra_node",
        /// Between nodes.
        InterNode = "inter_node",
    }

    /// Kind of a timeline entry.
    OperationKind {
        /// All ranks of the communicator.
        Collective = "collective",
        /// Two ranks.
        PointToPoint = "point_to_point",
        /// No payload.
        Barrier = "barrier",
        /// One rank writes into another's memory.
        OneSided = "one_sided",
    }

    /// What a fault does, as suites spell it.
    FaultKind {
        /// The rank's process is killed.
        Kill = "kill",
        /// The rank's process is stopped.
        Stop = "stop",
        /// The rank comes later.
        Delay = "delay",
        /// The collective fails on the rank.
        NcclError = "nccl_error",
        /// A bit of the rank's contribution is flipped.
        Corrupt = "corrupt",
        /// The rank never comes.
        Drop = "drop",
        /// What crosses a link takes longer.
        SlowLink = "slow_link",
        /// What crosses a link fails.
        CutLink = "cut_link",
    }

    /// Kind of cause of a failure.
    FailureSource {
        /// The suite asked for it.
        Injected = "injected",
        /// Ranks did not come to a collective.
        CollectiveTimeout = "collective_timeout",
        /// The other side of a transfer did not come.
        PointToPointTimeout = "point_to_point_timeout",
        /// Ranks did not come to a rendezvous, split or shrink.
        RendezvousTimeout = "rendezvous_timeout",
        /// A process ended.
        RankLost = "rank_lost",
        /// A rank aborted or revoked the communicator.
        Aborted = "aborted",
        /// Ranks disagreed or came twice.
        Mismatch = "mismatch",
        /// Anything else.
        Other = "other",
    }
}

/// The collectives that [`ClusterReport::collectives`] always lists.
pub const COLLECTIVES: [Operation; 9] = [
    Operation::AllReduce,
    Operation::Reduce,
    Operation::Broadcast,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::AllToAll,
    Operation::Gather,
    Operation::Scatter,
    Operation::Barrier,
];

impl ErrorCode {
    /// What kind of cause it speaks of.
    pub fn source(self) -> FailureSource {
        match self {
            Self::InjectedRankFailure => FailureSource::Injected,
            Self::TimeoutWaitingForCollective => FailureSource::CollectiveTimeout,
            Self::TimeoutWaitingForP2p => FailureSource::PointToPointTimeout,
            Self::TimeoutWaitingForRanks | Self::TimeoutWaitingForSplit | Self::TimeoutWaitingForShrink => {
                FailureSource::RendezvousTimeout
            }
            Self::RankLost => FailureSource::RankLost,
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
