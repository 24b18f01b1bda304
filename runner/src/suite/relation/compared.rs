//! `compared`: what must not change under the relations of a case.

use model::node::Node;
use protocol::step_record::TensorRole;

use super::Unchanged;
use crate::case::Launch;
use crate::case::relation::Relation;
use crate::check::compared::{Compared, Files, STEP};
use crate::check::steps::Steps;
use crate::check::tensors::{ROLES, Tensors};
use crate::suite::language::relation::{COMPARED, STEPS, TENSORS};
use crate::suite::output_line::regex;
use crate::suite::rank::read_rank;
use crate::suite::reader::{Mapping, Reader};

/// What a case compares.
pub(super) struct Things {
    pub(super) compared: Option<Compared>,
    pub(super) tensors: Option<Tensors>,
    pub(super) steps: Option<Steps>,
}

/// At least one of `{numbers: REGEX, rank: 0}`, `{files: GLOB, fields: [loss], step: step}`, `{tensors: [gradients]}` and
/// `{steps: [samples]}`, with a `tolerance`.
pub(super) fn read(
    reader: &Reader<'_>,
    node: &Node,
    unchanged: Unchanged<'_>,
    relations: &[Relation],
) -> Option<Things> {
    let world = unchanged.launch.map_or(Some(u32::MAX), Launch::world_size);
    let place = reader.place(&node.span);
    let mapping = reader.section(&COMPARED, node)?;
    if ["numbers", "files", "tensors", "steps"].iter().all(|key| mapping.entry(key).is_none()) {
        let help = "say what must not change: `numbers: 'loss (?P<loss>\\S+)'`, `files: '*.jsonl'` with `fields: [loss]`, \
                    `tensors: [gradients, parameters]`, or `steps: [samples]`";
        reader.mistake(&node.span, "`compared` without `numbers`, `files`, `tensors` and `steps`", help);
    }
    let numbers = mapping.get("numbers").and_then(|node| {
        let text = reader.string("numbers", node)?;
        let numbers = regex(reader, node, &text)?;
        if !numbers.capture_names().flatten().any(|name| name != STEP) {
            let help = "give the number a name: `loss (?P<loss>\\S+)`";
            reader.mistake(&node.span, "`numbers` has no named group but `step`", help);
        }
        let restarts = relations.iter().any(|relation| relation.restart.is_some());
        if restarts && !numbers.capture_names().flatten().any(|name| name == STEP) {
            let help = "after a restart, a step may be printed again: `step (?P<step>\\d+) loss (?P<loss>\\S+)`";
            reader.mistake(&node.span, "`restart` needs a group `step` in `numbers`", help);
        }
        Some(numbers)
    });
    let files = read_files(reader, &mapping);
    let rank = mapping.get("rank").and_then(|node| {
        if mapping.entry("numbers").is_none() {
            reader.mistake(&node.span, "`rank` without `numbers`", "it is the rank that prints them: leave it out");
            return None;
        }
        if world.is_none() {
            let help = "leave `rank` out: the one process prints them";
            reader.mistake(&node.span, "this launch has no ranks", help);
            return None;
        }
        let rank = read_rank(reader, node, world)?;
        let lacks = |relation: &&Relation| relation.fewest_ranks().is_some_and(|ranks| rank >= ranks);
        if let Some(relation) = relations.iter().find(lacks) {
            let message = format!("there is no rank {rank} under `{}`", relation.name);
            let help = match relation.fewest_ranks() {
                Some(0) => "its launch has no ranks: add `ranks: 1` to it",
                _ => "name one that every variant has",
            };
            reader.mistake(&node.span, message, help);
        }
        Some(rank)
    });
    let tolerance = mapping.get("tolerance").and_then(|node| {
        let tolerance = reader.number("tolerance", node)?;
        if tolerance < 0.0 {
            reader.mistake(&node.span, format!("`tolerance` is {tolerance}"), "write 0 or more");
        }
        Some(tolerance)
    });
    let roles = mapping.get("tensors").map(|node| read_tensors(reader, node, unchanged, relations));
    let steps = mapping.get("steps").map(|node| read_steps(reader, node, unchanged));
    mapping.finish();
    let tensors = roles.map(|roles| Tensors { roles, tolerance, place: place.clone() });
    let has_numbers = numbers.is_some() || files.is_some();
    let compared = has_numbers.then_some(Compared { numbers, files, rank, tolerance, place });
    Some(Things { compared, tensors, steps })
}

fn read_steps(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Steps {
    require_recording(reader, node, "steps", unchanged);
    let mut words = Vec::new();
    let items = reader.list("steps", node).unwrap_or_default();
    if items.is_empty() {
        reader.mistake(&node.span, "`steps` is empty", "name `count` or `samples`");
    }
    for item in items {
        let Some(choice) = reader.choice("steps", item, STEPS) else { continue };
        let word = STEPS[choice];
        if words.contains(&word) {
            reader.mistake(&item.span, format!("`{word}` is there twice"), "keep one of the two");
        }
        words.push(word);
    }
    let has = |word| words.contains(&word);
    Steps { count: has("count"), samples: has("samples"), place: reader.place(&node.span) }
}

/// What the shim records in ranks needs simulated GPUs, on this machine.
pub(super) fn require_recording(reader: &Reader<'_>, node: &Node, key: &str, unchanged: Unchanged<'_>) {
    if unchanged.cluster.is_none() {
        let help = "it is seen in programs with simulated GPUs: add `cluster: ...`";
        reader.mistake(&node.span, format!("`{key}` without a cluster"), help);
    }
    if matches!(unchanged.launch, Some(Launch::Srun(_))) {
        let help = "Slurm may place ranks on other machines: use `argv` or `torchrun`, or compare `numbers`";
        reader.mistake(&node.span, format!("`{key}` with `srun`"), help);
    }
}

fn read_tensors(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>, relations: &[Relation]) -> Vec<TensorRole> {
    require_recording(reader, node, "tensors", unchanged);
    if relations.iter().any(|relation| relation.restart.is_some()) {
        let help =
            "each process counts the steps of its optimizers from 1: compare `numbers` or `files` after a restart";
        reader.mistake(&node.span, "`tensors` with `restart`", help);
    }
    let items = reader.list("tensors", node).unwrap_or_default();
    if items.is_empty() {
        reader.mistake(&node.span, "`tensors` is empty", "name `gradients`, `optimizer` or `parameters`");
    }
    let mut roles = Vec::new();
    for item in items {
        let Some(choice) = reader.choice("tensors", item, TENSORS) else { continue };
        let (word, role) = ROLES[choice];
        if roles.contains(&role) {
            reader.mistake(&item.span, format!("`{word}` is there twice"), "keep one of the two");
        }
        roles.push(role);
    }
    roles
}

/// `files`, `fields` and `step`.
fn read_files(reader: &Reader<'_>, mapping: &Mapping<'_, '_>) -> Option<Files> {
    let glob = mapping.get("files").and_then(|node| reader.string("files", node));
    let fields = mapping.get("fields").and_then(|node| {
        let fields = reader.texts("fields", node)?;
        if fields.is_empty() {
            reader.mistake(&node.span, "`fields` is empty", "name a number of the files: `fields: [loss]`");
        }
        Some(fields)
    });
    let step = mapping.get("step").and_then(|node| reader.string("step", node));
    match (mapping.entry("files"), mapping.entry("fields").or(mapping.entry("step"))) {
        (Some(files), _) if mapping.entry("fields").is_none() => {
            let help = "name the numbers to compare: `fields: [loss]`";
            reader.mistake(&files.key_span, "`files` without `fields`", help);
        }
        (None, Some(other)) => {
            let message = format!("`{}` without `files`", other.key);
            reader.mistake(&other.key_span, message, "say in which files: `files: '*.jsonl'`");
        }
        _ => {}
    }
    Some(Files { glob: glob?, fields: fields?, step: step.unwrap_or_else(|| STEP.to_owned()) })
}
