//! Checks common to all launches: the script exists, and the cluster has room for the ranks.

use std::path::{Path, PathBuf};

use model::node::{Node, Value};
use protocol::plan::ClusterPlan;

use crate::expression::deferred;
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

/// Reports a command line in one word: nothing splits it, so it would be the name of a program. `words` are those of `node`, and run
/// in `cwd`.
pub(super) fn check_program(reader: &Reader<'_>, node: &Node, words: &[String], cwd: &Path) {
    let (Value::List(items), Some(program)) = (&node.value, words.first()) else { return };
    let split = shlex::split(program).filter(|split| split.len() > 1);
    let (Some(item), Some(split)) = (items.first(), split) else { return };
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&on_path).chain([cwd.to_owned()]);
    if !deferred::waits_for(program).is_empty()
        || directories.map(|directory| directory.join(program)).any(|file| file.exists())
    {
        return;
    }
    let split: Vec<String> = split.iter().map(|word| serde_json::Value::from(word.as_str()).to_string()).collect();
    let help = format!("there is no shell that splits words: `argv: [{}]`", split.join(", "));
    reader.mistake(&item.span, format!("there is no program `{program}`"), help);
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
