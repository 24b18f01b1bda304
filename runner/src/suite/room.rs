//! Checks common to all launches: the script exists, and the cluster has room for the ranks.

use std::path::{Path, PathBuf};

use model::node::Node;
use protocol::plan::ClusterPlan;

use crate::suite::reader::Reader;

/// A file, relative to the working directory of the case.
pub(super) fn read_script(reader: &Reader<'_>, node: &Node, cwd: &Path) -> Option<PathBuf> {
    let script = PathBuf::from(reader.string("script", node)?);
    if !cwd.join(&script).is_file() {
        let message = format!("there is no file {}", cwd.join(&script).display());
        reader.mistake(&node.span, message, "the path is taken from `cwd`, by default the suite's directory");
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
