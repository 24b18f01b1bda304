//! Relations that change what a case starts, and on how many nodes: `ranks`, `nodes`, `launch` and `restart`.

use model::node::Node;

use super::Unchanged;
use super::compared::require_recording;
use crate::case::layout::{laid_out, used_nodes, with_nodes, with_ranks};
use crate::case::relation::{Relation, Restart};
use crate::case::{Launch, Warm};
use crate::suite::language::MAX_RANKS;
use crate::suite::language::relation::{BATCHES, RESTART};
use crate::suite::output_line::regex;
use crate::suite::rank::read_rank;
use crate::suite::reader::{Mapping, Reader};
use crate::suite::{Shared, launch};

/// The part of a relation that is its layout.
pub(super) fn read(shared: &Shared<'_>, mapping: &Mapping<'_, '_>, unchanged: Unchanged<'_>) -> Relation {
    let reader = shared.reader;
    let launch = mapping.get("launch").and_then(|node| read_launch(shared, node, unchanged));
    if mapping.entry("launch").is_some() {
        for entry in ["ranks", "nodes", "args"].iter().filter_map(|key| mapping.entry(key)) {
            let message = format!("`{}` beside `launch`", entry.key);
            reader.mistake(&entry.key_span, message, "say it in `launch`");
        }
    }
    let own = unchanged.launch.map(Launch::world_size);
    let ranks = mapping.get("ranks").and_then(|node| read_ranks(reader, node, unchanged));
    let nodes = mapping.get("nodes").and_then(|node| read_nodes(reader, node, ranks, unchanged));
    let started = launch.as_ref().map(|(launch, _)| launch).or(unchanged.launch);
    let laid_out = started.and_then(|launch| laid_out(launch, ranks, nodes, unchanged.cluster));
    // A restart is about the processes of the variant.
    let killed = match &laid_out {
        Some((launch, cluster)) => Unchanged { launch: Some(launch), cluster: cluster.as_ref(), ..unchanged },
        None => unchanged,
    };
    let restart = mapping.get("restart").and_then(|node| read_restart(reader, node, killed));
    let keeps_batch = mapping.get("batch").is_some_and(|node| {
        let reshards = restart.as_ref().is_some_and(|restart| restart.reshard.is_some());
        if !reshards && ["ranks", "nodes", "launch"].iter().all(|key| mapping.entry(key).is_none()) {
            let help = "it says that another number of ranks shares the same batch: add `ranks`, `nodes`, `launch` or `reshard`";
            reader.mistake(&node.span, "`batch` without another layout", help);
        }
        require_recording(reader, node, "batch", unchanged);
        reader.choice("batch", node, BATCHES).is_some()
    });
    let is_resharded = restart.as_ref().is_some_and(|restart| restart.reshard.is_some());
    let has_other_ranks = launch.as_ref().is_some_and(|(launch, _)| Some(launch.world_size()) != own);
    let changes_sums = ranks.is_some() || is_resharded || has_other_ranks;
    Relation { ranks, nodes, launch, restart, changes_sums, keeps_batch, ..Relation::default() }
}

fn read_ranks(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<u32> {
    let ranks = reader.integer("ranks", node, 1, MAX_RANKS)?;
    let launch = unchanged.launch?;
    let mistake = |message: String, help: &str| reader.mistake(&node.span, message, help);
    match (launch, launch.world_size()) {
        (_, None) => mistake("this launch has no ranks".to_owned(), "add `ranks: N` to `launch`"),
        (_, Some(world)) if world == ranks => {
            mistake(format!("`ranks: {ranks}` changes nothing: the launch has as many"), "write another number");
        }
        (Launch::Srun(_), _) => {
            mistake(
                "`ranks` of a relation with `srun`".to_owned(),
                "its options say where ranks run: use `args` or `env`",
            );
        }
        _ if with_ranks(launch, ranks, unchanged.cluster).is_none() => {
            let help = "the nodes that it uses get the same number of ranks, and each rank needs a GPU";
            mistake(format!("this launch cannot have {ranks} ranks"), help);
        }
        _ => return Some(ranks),
    }
    None
}

/// Whether a case can have this number of nodes, which must be another one.
///
/// # Errors
/// What the mistake is, and what to do.
pub(super) fn has_nodes(nodes: u32, unchanged: Unchanged<'_>) -> Result<(), (String, &'static str)> {
    check_nodes(nodes, None, unchanged)
}

fn check_nodes(nodes: u32, ranks: Option<u32>, unchanged: Unchanged<'_>) -> Result<(), (String, &'static str)> {
    let Some(launch) = unchanged.launch else { return Ok(()) };
    if let Launch::Srun(_) = launch {
        let help = "its options say where ranks run: use `args` or `env`";
        return Err(("`nodes` of a relation with `srun`".to_owned(), help));
    }
    if unchanged.has_network {
        let help = "its links belong to nodes by number: give it a case of its own";
        return Err(("`nodes` of a relation with `network`".to_owned(), help));
    }
    if used_nodes(launch, unchanged.cluster) == Some(nodes) && ranks.is_none() {
        let message = format!("`nodes: {nodes}` changes nothing: the launch uses as many");
        return Err((message, "write another number"));
    }
    let help = "each node has the same number of ranks, and each rank needs a GPU";
    with_nodes(launch, ranks, nodes, unchanged.cluster)
        .map(drop)
        .map_err(|why| (format!("`nodes: {nodes}` is not possible: {why}"), help))
}

fn read_nodes(reader: &Reader<'_>, node: &Node, ranks: Option<u32>, unchanged: Unchanged<'_>) -> Option<u32> {
    let nodes = reader.integer("nodes", node, 1, MAX_RANKS)?;
    match check_nodes(nodes, ranks, unchanged) {
        Ok(()) => Some(nodes),
        Err((message, help)) => {
            reader.mistake(&node.span, message, help);
            None
        }
    }
}

fn read_launch(shared: &Shared<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<(Launch, Warm)> {
    let (launch, warm) = launch::read(shared, node, unchanged.cwd, unchanged.cluster)?;
    let own = unchanged.launch?;
    let refused = match (&launch, own) {
        (Launch::Srun(_), _) | (_, Launch::Srun(_)) => {
            Some(("`launch` of a relation with `srun`", "Slurm starts the ranks: use `args` or `env`"))
        }
        _ if launch == *own => Some(("`launch` changes nothing: the case has the same", "write another one")),
        _ => None,
    };
    if let Some((message, help)) = refused {
        shared.reader.mistake(&node.span, message, help);
        return None;
    }
    Some((launch, warm))
}

fn read_restart(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<Restart> {
    let mapping = reader.section(&RESTART, node)?;
    let after = mapping.required("after", "after: 'saved step 2'").and_then(|node| {
        let text = reader.string("after", node)?;
        regex(reader, node, &text)
    });
    let world = unchanged.launch.map_or(Some(u32::MAX), Launch::world_size);
    let rank = mapping.get("rank").map_or(Some(0), |node| read_rank(reader, node, world));
    let reshard = mapping.get("reshard").and_then(|node| read_reshard(reader, node, world, unchanged));
    mapping.finish();
    if let Some(Launch::Srun(_)) = unchanged.launch {
        let help = "Slurm starts and ends the ranks: use `argv` or `torchrun`";
        reader.mistake(&node.span, "`restart` of a relation with `srun`", help);
    }
    Some(Restart { after: after?, rank: rank?, reshard })
}

/// The number of ranks after a restart of a variant with `world` ranks.
fn read_reshard(reader: &Reader<'_>, node: &Node, world: Option<u32>, unchanged: Unchanged<'_>) -> Option<u32> {
    let ranks = reader.integer("reshard", node, 1, MAX_RANKS)?;
    let (message, help) = match (unchanged.launch?, world) {
        (Launch::Srun(_), _) => return None,
        (_, None) => ("this launch has no ranks".to_owned(), "add `ranks: N` to `launch`"),
        (_, Some(world)) if world == ranks => {
            (format!("`reshard: {ranks}` changes nothing: as many ranks are killed"), "write another number")
        }
        (launch, _) if with_ranks(launch, ranks, unchanged.cluster).is_none() => {
            let help = "the nodes that it uses get the same number of ranks, and each rank needs a GPU";
            (format!("this launch cannot have {ranks} ranks"), help)
        }
        _ => return Some(ranks),
    };
    reader.mistake(&node.span, message, help);
    None
}
