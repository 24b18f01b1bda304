//! Which node a rank is on, and which fabric connects two ranks. Built once per run.

use protocol::ids::Rank;
use protocol::plan::{ClusterPlan, FabricPlan};
use protocol::report::LinkScope;

/// Nodes and fabrics of a cluster, looked up by global rank.
#[derive(Clone, Debug)]
pub struct Topology {
    node_names: Vec<String>,
    /// Node index of each global rank.
    node_of: Vec<usize>,
    intra_node: FabricPlan,
    inter_node: FabricPlan,
}

impl Topology {
    /// The topology of a checked plan.
    pub fn new(plan: &ClusterPlan) -> Self {
        let mut node_of = vec![0; plan.world_size() as usize];
        for (index, node) in plan.nodes.iter().enumerate() {
            for rank in &node.ranks {
                if let Some(slot) = node_of.get_mut(rank.0 as usize) {
                    *slot = index;
                }
            }
        }
        Self {
            node_names: plan.nodes.iter().map(|node| node.id.clone()).collect(),
            node_of,
            intra_node: plan.intra_node.clone(),
            inter_node: plan.inter_node.clone(),
        }
    }

    /// Number of ranks.
    pub fn world_size(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// Names of the nodes, in file order.
    pub fn node_names(&self) -> &[String] {
        &self.node_names
    }

    /// Index of the node of `rank`, if the cluster has that rank.
    pub fn node_of(&self, rank: Rank) -> Option<usize> {
        self.node_of.get(rank.0 as usize).copied()
    }

    /// Which fabric connects two nodes.
    pub fn scope(&self, src_node: usize, dst_node: usize) -> LinkScope {
        if src_node == dst_node { LinkScope::IntraNode } else { LinkScope::InterNode }
    }

    /// The fabric of a scope.
    pub fn fabric(&self, scope: LinkScope) -> &FabricPlan {
        match scope {
            LinkScope::IntraNode => &self.intra_node,
            LinkScope::InterNode => &self.inter_node,
        }
    }
}
