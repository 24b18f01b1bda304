//! `kill`: what a case kills, with which signal, and when.

use model::node::{Node, Value};
use protocol::plan::ClusterPlan;

use crate::case::{Kill, KillTarget};
use crate::host::signal;
use crate::suite::language::keys;
use crate::suite::output_line::read_when;
use crate::suite::rank::read_rank;
use crate::suite::reader::{Reader, did_you_mean};

pub(super) fn read(reader: &Reader<'_>, node: &Node, world: Option<u32>, cluster: Option<&ClusterPlan>) -> Vec<Kill> {
    let items = reader.list("kill", node).unwrap_or_default();
    items.iter().filter_map(|item| read_kill(reader, item, world, cluster)).collect()
}

fn read_kill(reader: &Reader<'_>, node: &Node, world: Option<u32>, cluster: Option<&ClusterPlan>) -> Option<Kill> {
    let mapping = reader.section(&keys::KILL, node)?;
    let target =
        mapping.required("target", "target: {rank: 1}").and_then(|node| read_target(reader, node, world, cluster));
    let signal = mapping.get("signal").map_or(Some(libc::SIGKILL), |node| read_signal(reader, node));
    let when = mapping.required("when", "when: {output: REGEX}").and_then(|node| read_when(reader, node, world));
    mapping.finish();
    let (target, (output, of)) = (target?, when?);
    let watch = of.unwrap_or(match target {
        KillTarget::Rank(rank) => rank,
        KillTarget::Coordinator | KillTarget::Node(_) => 0,
    });
    Some(Kill { target, signal: signal?, watch, output, place: reader.place(&node.span) })
}

fn read_target(
    reader: &Reader<'_>,
    node: &Node,
    world: Option<u32>,
    cluster: Option<&ClusterPlan>,
) -> Option<KillTarget> {
    if let Value::Text(text) = &node.value {
        if text == "coordinator" && cluster.is_some() {
            return Some(KillTarget::Coordinator);
        }
        let message =
            if text == "coordinator" { "there is no coordinator without a cluster" } else { "unknown target" };
        reader.mistake(&node.span, message, "write `{rank: 1}`, `{node: 0}` or `coordinator`");
        return None;
    }
    let mapping = reader.section(&keys::TARGET, node)?;
    let rank = mapping.get("rank").map(|node| read_rank(reader, node, world).map(KillTarget::Rank));
    let machine = mapping.get("node").map(|node| {
        let nodes = cluster.map_or(1, |cluster| cluster.nodes.len() as u32);
        reader.integer("node", node, 0, nodes.saturating_sub(1)).map(KillTarget::Node)
    });
    mapping.finish();
    match (rank, machine) {
        (Some(target), None) | (None, Some(target)) => target,
        _ => {
            reader.mistake(&node.span, "a target is one rank or one node", "write `{rank: 1}` or `{node: 0}`");
            None
        }
    }
}

/// A signal by its name.
pub(super) fn read_signal(reader: &Reader<'_>, node: &Node) -> Option<i32> {
    let name = reader.string("signal", node)?;
    let number = signal::number(&name);
    if number.is_none() {
        reader.mistake(
            &node.span,
            format!("unknown signal `{name}`"),
            did_you_mean(&name, signal::names().collect::<Vec<_>>()),
        );
    }
    number
}
