//! `launch` and `kill`: what a case starts, and what it kills.

use model::node::{Node, Value};
use protocol::plan::ClusterPlan;

use crate::case::{Kill, KillTarget, Launch, Warm};
use crate::host::signal;
use crate::suite::Shared;
use crate::suite::language::{MAX_RANKS, keys, when};
use crate::suite::reader::{Reader, did_you_mean};
use crate::suite::{room, srun};

/// Number of ranks of a launch.
pub(super) fn world_size(launch: &Launch) -> Option<u32> {
    match launch {
        Launch::Argv { ranks, .. } => *ranks,
        Launch::Torchrun { nproc_per_node, nnodes, .. } => Some(nproc_per_node * nnodes),
        Launch::Srun(srun) => Some(srun.world_size()),
    }
}

/// The launch, and what it says of `warm`.
pub(super) fn read(shared: &Shared<'_>, node: &Node, cluster: Option<&ClusterPlan>) -> Option<(Launch, Warm)> {
    let reader = shared.reader;
    let launch = reader.section(&keys::LAUNCH, node)?;
    let argv = launch.get("argv");
    let torchrun = launch.get("torchrun");
    let slurm = launch.get("srun");
    let read = match (argv, torchrun, slurm) {
        (Some(argv), None, None) => {
            let argv = reader.words("argv", argv).filter(|words| {
                if words.is_empty() {
                    reader.mistake(&argv.span, "`argv` is empty", "write `argv: [program, argument, ...]`");
                }
                !words.is_empty()
            });
            let ranks = launch.get("ranks").map(|node| (reader.integer("ranks", node, 1, MAX_RANKS), node));
            if let (Some((Some(ranks), node)), Some(cluster)) = (ranks, cluster)
                && ranks > cluster.world_size()
            {
                room::too_many(reader, node, ranks, cluster);
            }
            match ranks {
                Some((None, _)) => None,
                Some((ranks, _)) => argv.map(|argv| Launch::Argv { argv, ranks }),
                None => argv.map(|argv| Launch::Argv { argv, ranks: None }),
            }
        }
        (None, Some(torchrun), None) => {
            let args = launch.get("args");
            read_torchrun(shared, torchrun, args, cluster)
        }
        (None, None, Some(slurm)) => srun::read(shared, slurm, cluster).map(Launch::Srun),
        (None, None, None) => {
            let help = "add `argv: [...]`, `torchrun: {...}` or `srun: {...}`";
            reader.mistake(&node.span, "`launch` does not say what to start", help);
            None
        }
        (argv, torchrun, slurm) => {
            let there = [("argv", argv), ("torchrun", torchrun), ("srun", slurm)];
            let there: Vec<String> =
                there.iter().filter(|(_, node)| node.is_some()).map(|(key, _)| format!("`{key}`")).collect();
            let (message, help) = match there.as_slice() {
                [one, two] => (format!("`launch` has both {one} and {two}"), "keep one of the two"),
                _ => (format!("`launch` has {}", there.join(", ")), "keep one of the three"),
            };
            reader.mistake(&node.span, message, help);
            None
        }
    };
    for (key, owner, absent) in [("args", "torchrun", torchrun.is_none()), ("ranks", "argv", argv.is_none())] {
        let other = argv.is_some() || torchrun.is_some() || slurm.is_some();
        if let Some(entry) = launch.entry(key).filter(|_| absent && other) {
            let message = format!("`{key}` without `{owner}`");
            reader.mistake(&entry.key_span, message, format!("it belongs to `{owner}`"));
        }
    }
    let warm = launch.get("warm").map(|node| read_warm(reader, node)).unwrap_or_default();
    launch.finish();
    Some((read?, warm))
}

/// `true`, `false`, or the modules that are imported beside PyTorch.
fn read_warm(reader: &Reader<'_>, node: &Node) -> Warm {
    if !matches!(node.value, Value::List(_)) {
        return match reader.boolean("warm", node) {
            Some(false) => Warm::Never,
            Some(true) => Warm::Wanted(Vec::new()),
            None => Warm::Possible,
        };
    }
    let mut modules = Vec::new();
    for item in reader.list("warm", node).unwrap_or_default() {
        let Some(name) = reader.string("warm", item) else { continue };
        let part = |part: &str| {
            part.chars().all(|letter| letter == '_' || letter.is_alphanumeric())
                && part.chars().next().is_some_and(|letter| !letter.is_numeric())
        };
        if name.split('.').all(part) {
            modules.push(name);
        } else {
            let message = format!("`{name}` is not the name of a module");
            reader.mistake(&item.span, message, "write what follows `import`: `warm: [transformers]`");
        }
    }
    Warm::Wanted(modules)
}

fn read_torchrun(
    shared: &Shared<'_>,
    node: &Node,
    outer_args: Option<&Node>,
    cluster: Option<&ClusterPlan>,
) -> Option<Launch> {
    let reader = shared.reader;
    let torchrun = reader.section(&keys::TORCHRUN, node)?;
    let nproc_per_node = torchrun
        .required("nproc_per_node", "nproc_per_node: 2")
        .and_then(|node| reader.integer("nproc_per_node", node, 1, MAX_RANKS));
    let nnodes = torchrun.get("nnodes").map_or(Some(1), |node| reader.integer("nnodes", node, 1, MAX_RANKS));
    let max_restarts =
        torchrun.get("max_restarts").map_or(Some(0), |node| reader.integer("max_restarts", node, 0, 100));
    let script = torchrun.required("script", "script: train.py").and_then(|node| room::read_script(shared, node));
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

pub(super) fn read_kills(
    reader: &Reader<'_>,
    node: &Node,
    world: Option<u32>,
    cluster: Option<&ClusterPlan>,
) -> Vec<Kill> {
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

/// A line to wait for, and of which rank.
pub(super) fn read_when(
    reader: &Reader<'_>,
    node: &Node,
    world: Option<u32>,
) -> Option<(regex::bytes::Regex, Option<u32>)> {
    let when = reader.section(&when::WHEN, node)?;
    let output = when.required("output", "output: REGEX").and_then(|node| {
        let text = reader.string("output", node)?;
        regex(reader, node, &text)
    });
    let of = when.get("rank").and_then(|node| read_rank(reader, node, world));
    when.finish();
    Some((output?, of))
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

/// A rank, or a list of them.
pub(super) fn read_ranks(reader: &Reader<'_>, node: &Node, world: Option<u32>) -> Vec<u32> {
    let items = if let Value::List(items) = &node.value { items.as_slice() } else { std::slice::from_ref(node) };
    if items.is_empty() {
        reader.mistake(&node.span, "`rank` is empty", "name at least one rank, or leave it out");
    }
    items.iter().filter_map(|item| read_rank(reader, item, world)).collect()
}

/// A global rank of the launch.
pub(super) fn read_rank(reader: &Reader<'_>, node: &Node, world: Option<u32>) -> Option<u32> {
    match world {
        Some(world) => {
            let rank = reader.integer("rank", node, 0, u32::MAX)?;
            if rank >= world {
                let message = format!("unknown rank {rank}: the launch has {world} ranks");
                reader.mistake(&node.span, message, format!("write a rank from 0 to {}", world - 1));
                return None;
            }
            Some(rank)
        }
        None => {
            reader.mistake(&node.span, "this launch has no ranks", "add `ranks: N` to `launch`, or name the launcher");
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

/// An expression over bytes in which `^` and `$` are ends of lines.
pub(super) fn regex(reader: &Reader<'_>, node: &Node, text: &str) -> Option<regex::bytes::Regex> {
    regex::bytes::RegexBuilder::new(text)
        .multi_line(true)
        .build()
        .map_err(|error| {
            let reason = error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            reader.mistake(
                &node.span,
                format!("wrong regular expression: {reason}"),
                "its syntax is that of Rust's regex crate",
            );
        })
        .ok()
}
