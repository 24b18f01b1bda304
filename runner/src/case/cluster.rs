//! A cluster as expressions see it.

use serde_json::{Value, json};

/// A cluster as expressions see it.
pub fn describe(cluster: &protocol::plan::ClusterPlan) -> Value {
    let nodes: Vec<Value> = cluster
        .nodes
        .iter()
        .map(|node| json!({ "id": node.id, "host": node.host, "ranks": node.ranks, "gpus": node.gpus }))
        .collect();
    json!({
        "name": cluster.name,
        "world_size": cluster.world_size(),
        "node_count": cluster.nodes.len(),
        "nodes": nodes,
        "intra_node": cluster.intra_node,
        "inter_node": cluster.inter_node,
    })
}
