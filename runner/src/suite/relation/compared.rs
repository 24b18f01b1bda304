//! `compared`: what must not change under the relations of a case.

use model::node::Node;

use crate::case::relation::Relation;
use crate::check::compared::{Compared, Files, STEP};
use crate::suite::language::keys::COMPARED;
use crate::suite::output_line::regex;
use crate::suite::rank::read_rank;
use crate::suite::reader::{Mapping, Reader};

/// `{numbers: REGEX, rank: 0, tolerance: 1e-5}`, or `{files: GLOB, fields: [loss], step: step}`, or both.
pub(super) fn read(reader: &Reader<'_>, node: &Node, world: Option<u32>, relations: &[Relation]) -> Option<Compared> {
    let place = reader.place(&node.span);
    let mapping = reader.section(&COMPARED, node)?;
    if mapping.entry("numbers").is_none() && mapping.entry("files").is_none() {
        let help =
            "say what must not change: `numbers: 'loss (?P<loss>\\S+)'`, or `files: '*.jsonl'` with `fields: [loss]`";
        reader.mistake(&node.span, "`compared` without `numbers` and `files`", help);
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
        let fewest = relations.iter().filter_map(|relation| relation.ranks).min();
        if let Some(ranks) = fewest.filter(|ranks| rank >= *ranks) {
            let message = format!("there is no rank {rank} under `ranks: {ranks}`");
            reader.mistake(&node.span, message, "name one that every variant has");
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
    mapping.finish();
    (numbers.is_some() || files.is_some()).then_some(Compared { numbers, files, rank, tolerance, place })
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
