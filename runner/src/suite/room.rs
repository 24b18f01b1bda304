//! Checks common to all launches: the script exists, and the cluster has room for the ranks.

use std::path::PathBuf;

use model::node::Node;
use protocol::plan::ClusterPlan;

use crate::suite::Shared;
use crate::suite::reader::Reader;

/// A file, relative to the suite's directory.
pub(super) fn read_script(shared: &Shared<'_>, node: &Node) -> Option<PathBuf> {
    let script = PathBuf::from(shared.reader.string("script", node)?);
    if !shared.dir.join(&script).is_file() {
        let message = format!("there is no file {}", shared.dir.join(&script).display());
        shared.reader.mistake(&node.span, message, "the path is taken from the suite's directory");
    }
    Some(script)
}

/// Whether `cluster` has room for this many ranks on this many nodes, with `per_node` on each if known; the suite sets that with
/// `key`.
pub(super) fn fits(
    reader: &Reader<'_>,
    node: &Node,
    cluster: &ClusterPlan,
    (ranks, nodes): (u32, u32),
    per_node: Option<u32>,
    key: &str,
) {
    if ranks > cluster.world_size() {
        too_many(reader, node, ranks, cluster);
    } else if nodes as usize > cluster.nodes.len() {
        let message = format!("{nodes} nodes on the cluster `{}`, which has {}", cluster.name, cluster.nodes.len());
        let key = if key == "nproc_per_node" { "nnodes" } else { "nodes" };
        reader.mistake(&node.span, message, format!("lower `{key}`, or enlarge the cluster"));
    } else if let Some(per_node) = per_node.filter(|_| nodes > 1) {
        let small = cluster.nodes.iter().take(nodes as usize).find(|node| (node.ranks.len() as u32) < per_node);
        if let Some(small) = small {
            let message = format!("{per_node} ranks per node, but node `{}` has {} GPUs", small.id, small.ranks.len());
            reader.mistake(&node.span, message, format!("lower `{key}`, or enlarge the node"));
        }
    }
}

/// More ranks than GPUs.
pub(super) fn too_many(reader: &Reader<'_>, node: &Node, ranks: u32, cluster: &ClusterPlan) {
    let message = format!("{ranks} ranks on the cluster `{}`, which has {} GPUs", cluster.name, cluster.world_size());
    reader.mistake(&node.span, message, format!("write at most {}, or enlarge the cluster", cluster.world_size()));
}
