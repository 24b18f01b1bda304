//! `launch: {torchrun: ...}`: the ranks that torchrun starts, and their script.

use std::path::Path;

use model::node::Node;
use protocol::plan::ClusterPlan;

use crate::case::Launch;
use crate::suite::Shared;
use crate::suite::language::MAX_RANKS;
use crate::suite::language::launch::TORCHRUN;
use crate::suite::room;

pub(super) fn read(
    shared: &Shared<'_>,
    node: &Node,
    outer_args: Option<&Node>,
    cwd: &Path,
    cluster: Option<&ClusterPlan>,
) -> Option<Launch> {
    let reader = shared.reader;
    let torchrun = reader.section(&TORCHRUN, node)?;
    let nproc_per_node = torchrun
        .required("nproc_per_node", "nproc_per_node: 2")
        .and_then(|node| reader.integer("nproc_per_node", node, 1, MAX_RANKS));
    let nnodes = torchrun.get("nnodes").map_or(Some(1), |node| reader.integer("nnodes", node, 1, MAX_RANKS));
    let max_restarts =
        torchrun.get("max_restarts").map_or(Some(0), |node| reader.integer("max_restarts", node, 0, 100));
    let script =
        torchrun.required("script", "script: train.py").and_then(|node| room::read_script(shared.reader, node, cwd));
    let inner_args = torchrun.get("args");
    if let (Some(_), Some(outer)) = (inner_args, outer_args) {
        reader.mistake(&outer.span, "`args` is here and in `torchrun`", "keep one of the two");
    }
    let args = inner_args.or(outer_args).map_or(Some(Vec::new()), |node| reader.words("args", node));
    torchrun.finish();
    let (nproc_per_node, nnodes) = (nproc_per_node?, nnodes?);
    if let Some(cluster) = cluster {
        let ranks = nproc_per_node.saturating_mul(nnodes);
        room::fits(reader, node, cluster, (ranks, nnodes), Some(nproc_per_node), "nproc_per_node");
    }
    Some(Launch::Torchrun { nproc_per_node, nnodes, script: script?, args: args?, max_restarts: max_restarts? })
}
