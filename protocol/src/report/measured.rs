//! Everything that may differ between two runs of the same workload: times, processes, paths, and what replicas held.

use serde::{Deserialize, Serialize};

use crate::ids::Rank;

report! {
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
        /// The directory that the files of findings are relative to; absent if none was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source_root: Option<String>,
        /// Per rank.
        ranks: Vec<MeasuredRank>,
        /// Per pair of nodes whose ranks exchanged something over a network, in the order of the cluster; absent where none did.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        links: Vec<MeasuredLink>,
        /// Wall clock when the first operation of the timeline began, ms since 1970; for display only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operations_began_at_ms: Option<u64>,
        /// Per entry of the timeline.
        operations: Vec<MeasuredOperation>,
        /// When each finding was made, in the order of the report.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<MeasuredFinding>,
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

    /// What the kernels at both ends measured of the connections between two nodes.
    MeasuredLink {
        /// The ids of both.
        nodes: Vec<String>,
        /// The shortest time there and back, us.
        least_round_trip_us: u64,
        /// The longest, smoothed over several, us: with what waited on the way.
        round_trip_us: u64,
        /// The highest rate at which one connection delivered, of those that were last measured, bytes/s; 0 where nothing was sent.
        bytes_per_s: u64,
        /// TCP segments that were sent again.
        resent_segments: u64,
        /// The time of an operation was up while bytes of it were on their way here: the link was slow, not a rank late.
        is_late: bool,
    }

    /// Measured facts of one operation.
    MeasuredOperation {
        /// The index of the timeline entry.
        index: u64,
        /// Longest wait of a rank for the others, us.
        rendezvous_wait_us: f64,
        /// Longest time from all present to done, us.
        execution_time_us: f64,
        /// When each of the entry's ranks arrived, us since the first operation of the timeline began; null for one that
        /// did not report it. Ranks on different machines have different clocks.
        #[serde(default)]
        began_us: Vec<Option<f64>>,
        /// When each was done.
        #[serde(default)]
        ended_us: Vec<Option<f64>>,
    }

    /// Measured facts of one finding.
    MeasuredFinding {
        /// The index of the finding.
        index: u64,
        /// Wall clock when it was made, us since 1970. Ranks on different machines have different clocks.
        made_at_us: u64,
    }

    /// Measured facts of one failure.
    MeasuredFailure {
        /// The index of the failure event.
        index: u64,
        /// One sentence for people.
        error_detail: String,
    }

    /// Measured facts of one recovery.
    MeasuredRecovery {
        /// The index of the recovery event.
        index: u64,
        /// Time from the parent's first failure, or from the first rank that asked when there was none, to the child, us.
        recovery_time_us: f64,
    }
}
