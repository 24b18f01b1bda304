//! `launch`: what a case starts.

use std::path::Path;

use model::node::{Node, Value};
use protocol::plan::ClusterPlan;

use crate::case::{Launch, Warm};
use crate::suite::Shared;
use crate::suite::language::MAX_RANKS;
use crate::suite::language::launch::LAUNCH;
use crate::suite::reader::Reader;
use crate::suite::{room, srun, torchrun as torchrun_launch};

/// The launch, in the directory `cwd`, and its value of `warm`.
pub(super) fn read(
    shared: &Shared<'_>,
    node: &Node,
    cwd: &Path,
    cluster: Option<&ClusterPlan>,
) -> Option<(Launch, Warm)> {
    let reader = shared.reader;
    let launch = reader.section(&LAUNCH, node)?;
    let argv = launch.get("argv");
    let torchrun = launch.get("torchrun");
    let slurm = launch.get("srun");
    let read = match (argv, torchrun, slurm) {
        (Some(argv), None, None) => {
            let argv = reader.words("argv", argv).filter(|words| {
                if words.is_empty() {
                    reader.mistake(&argv.span, "`argv` is empty", "write `argv: [program, argument, ...]`");
                }
                room::check_program(reader, argv, words, cwd);
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
            torchrun_launch::read(shared, torchrun, args, cwd, cluster)
        }
        (None, None, Some(slurm)) => srun::read(shared, slurm, cwd, cluster).map(Launch::Srun),
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
    if let (Warm::Wanted(_), Some(entry), Some(_)) = (&warm, launch.entry("warm"), slurm) {
        reader.mistake(&entry.key_span, "`warm` with `srun`", "Slurm starts the processes: leave it out");
    }
    launch.finish();
    Some((read?, warm))
}

/// `true`, `false`, or the modules to import besides PyTorch.
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
