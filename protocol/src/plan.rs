//! The cluster after its file was read and checked: what the runner passes to coordinator and shim.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::profile::{self, GpuProfile};

/// A checked cluster. As JSON it travels in `FTEST_CLUSTER`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterPlan {
    /// Name from the file.
    pub name: String,
    /// Free text from the file, "nccl".
    pub default_backend: String,
    /// The nodes in file order. Ranks are contiguous from 0 over all nodes.
    pub nodes: Vec<NodePlan>,
    /// Between devices of one node.
    pub intra_node: FabricPlan,
    /// Between nodes.
    pub inter_node: FabricPlan,
    /// Profiles that are not built in, by the id used in `NodePlan::gpus`.
    pub custom_profiles: BTreeMap<String, GpuProfile>,
    /// What the file says of its machines, for modeled times (v2); nothing if they are those of the GPU's preset.
    #[serde(default)]
    pub machine: Option<Box<MachinePlan>>,
}

/// What a cluster file says of its machines. What it leaves out is that of the preset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachinePlan {
    /// Name of a preset, `dgx-h100`; that of the GPU's profile if none is named.
    #[serde(default)]
    pub preset: Option<String>,
    /// NVLinks of each GPU; 0 is none.
    #[serde(default)]
    pub nvlinks: Option<u32>,
    /// NICs of each node.
    #[serde(default)]
    pub nics: Option<u32>,
    /// Gbit/s of one NIC.
    #[serde(default)]
    pub nic_gbps: Option<f64>,
    /// What carries bytes between nodes: `infiniband`, `roce`, `efa2`, `sockets`, ...
    #[serde(default)]
    pub transport: Option<String>,
    /// Whether a NIC reads and writes the GPU's memory itself.
    #[serde(default)]
    pub gpudirect: Option<bool>,
}

/// One machine of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// Unique name.
    pub id: String,
    /// Free text from the file.
    pub host: String,
    /// Global ranks, one per GPU and in the same order.
    pub ranks: Vec<Rank>,
    /// Profile ids.
    pub gpus: Vec<String>,
}

/// The links of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricPlan {
    /// "nvlink", "infiniband", ...
    #[serde(rename = "type")]
    pub kind: String,
    /// Gbit/s, above 0.
    pub bandwidth_gbps: f64,
    /// Microseconds, 0 or more.
    pub latency_us: f64,
    /// Above 0; 1 is none.
    pub oversubscription: f64,
}

impl FabricPlan {
    /// Modeled time of `bytes` over one edge, us: latency, then the bytes at the oversubscribed bandwidth (model v1).
    pub fn edge_us(&self, bytes: u64) -> f64 {
        self.latency_us + 8.0 * bytes as f64 * self.oversubscription / (1000.0 * self.bandwidth_gbps)
    }
}

impl ClusterPlan {
    /// Number of ranks, which is the number of GPUs.
    pub fn world_size(&self) -> u32 {
        self.nodes.iter().map(|node| node.ranks.len() as u32).sum()
    }

    /// The node of global rank `rank`, and its index.
    pub fn node_of(&self, rank: Rank) -> Option<(usize, &NodePlan)> {
        self.nodes.iter().enumerate().find(|(_, node)| node.ranks.contains(&rank))
    }

    /// Modeled time of bytes from one global rank to another, us; `None` if the cluster does not have both.
    pub fn edge_us(&self, from: Rank, to: Rank, bytes: u64) -> Option<f64> {
        let ((source, _), (destination, _)) = (self.node_of(from)?, self.node_of(to)?);
        let fabric = if source == destination { &self.intra_node } else { &self.inter_node };
        Some(fabric.edge_us(bytes))
    }

    /// The profile behind an id of `NodePlan::gpus`.
    pub fn profile(&self, id: &str) -> Option<&GpuProfile> {
        self.custom_profiles.get(id).or_else(|| profile::builtin(id))
    }

    /// (rank, profile id) of every GPU, in rank order.
    pub fn gpus(&self) -> Vec<(Rank, &str)> {
        let mut gpus: Vec<(Rank, &str)> = self
            .nodes
            .iter()
            .flat_map(|node| node.ranks.iter().copied().zip(node.gpus.iter().map(String::as_str)))
            .collect();
        gpus.sort_by_key(|(rank, _)| *rank);
        gpus
    }
}
