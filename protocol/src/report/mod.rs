//! The cluster report, which the coordinator writes and `ftest` checks. Field names are FakeGPU's if it has the field.
//!
//! Everything outside [`ClusterReport::measured`] is a function of workload and configuration, the same in every run.
//! Numbers of type `f64` are rounded to three decimals. FakeGPU's `socket_*_payload_bytes` are left out: no payload
//! passes through the coordinator.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::datatype::{Datatype, Operation, ReductionOp};
use crate::ids::{CommunicatorId, Rank, Sequence};
use crate::record::BufferTransport;

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

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

pub(crate) use {report, words};

mod failure;
mod measured;
mod time;
mod traffic;

pub use failure::*;
pub use measured::*;
pub use time::*;
pub use traffic::*;

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
        /// Totals per collective, including those never called.
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
        /// What is unusual but may be intended, in the order of communicators.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<Note>,
        /// Failures and recoveries.
        resilience: Resilience,
        /// Why nothing moved any more, if that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        hang: Option<Hang>,
        /// What the GPUs did on the modeled clock, by step; absent if that did not tell the time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<RunTime>,
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
        /// "simulate"; "proxy" where the real NCCL moved the bytes (experimental).
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

    /// One kind of collective.
    CollectiveTotals {
        /// Times it completed.
        calls: u64,
        /// Request bytes of all ranks together.
        bytes: u64,
        /// Modeled time, us.
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
        /// Modeled time, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
    }

    /// One rank's own records.
    RankTotals {
        /// Global rank.
        rank: Rank,
        /// Its node; absent without a cluster file.
        node: Option<String>,
        /// Waits that ended at the deadline.
        timeouts: u64,
        /// Communicators it joined, splits included.
        communicator_inits: u64,
        /// Collectives it completed, without barriers.
        collective_calls: u64,
        /// Sends, receives and one-sided operations it completed.
        point_to_point_calls: u64,
        /// Barriers it completed.
        barrier_calls: u64,
    }

    /// The last operations.
    Timeline {
        /// Length of `entries`.
        retained_entries: u64,
        /// Operations before them.
        dropped_entries: u64,
        /// The entries in order.
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
        /// Modeled time, us.
        modeled_time_us: f64,
    }
}

words! {
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
