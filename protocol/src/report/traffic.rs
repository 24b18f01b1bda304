//! Traffic over the links of the cluster, by direction and by pair of nodes.

use serde::{Deserialize, Serialize};

report! {
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
        /// Modeled bytes on the wire.
        bytes: u64,
        /// Most bytes of one operation.
        peak_bytes_per_operation: u64,
        /// The fabric's bandwidth, Gbit/s.
        bandwidth_gbps: f64,
        /// The fabric's latency, us.
        avg_latency_us: f64,
        /// Modeled time, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
        /// Bytes over modeled time, Gbit/s.
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
        /// Modeled time both ways, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
        /// Bytes over modeled time, Gbit/s.
        average_estimated_throughput_gbps: f64,
        /// Highest of one operation, Gbit/s.
        peak_estimated_throughput_gbps: f64,
    }

    /// One direction of a node pair.
    Direction {
        /// Edges of operations.
        transfers: u64,
        /// Modeled bytes on the wire.
        total_bytes: u64,
        /// Most bytes of one operation.
        peak_bytes_per_operation: u64,
        /// The fabric's bandwidth, Gbit/s.
        model_bandwidth_gbps: f64,
        /// The fabric's latency, us.
        avg_latency_us: f64,
        /// Modeled time, us.
        estimated_time_us_total: f64,
        /// Part of it due to oversubscription, us.
        contention_penalty_us_total: f64,
        /// Bytes over modeled time, Gbit/s.
        average_estimated_throughput_gbps: f64,
        /// Highest of one operation, Gbit/s.
        peak_estimated_throughput_gbps: f64,
    }
}

words! {
    /// Which fabric a link belongs to.
    LinkScope {
        /// Within a node.
        IntraNode = "intra_node",
        /// Between nodes.
        InterNode = "inter_node",
    }
}
