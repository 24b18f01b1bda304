//! `holds_under` and `compared`: the changes that must not change the result of a case. A change that changes nothing is a mistake.

use std::collections::BTreeMap;

use model::node::{Entry, Node, Value};
use protocol::plan::ClusterPlan;
use protocol::profile;
use protocol::step_record::TensorRole;

use crate::case::Launch;
use crate::case::relation::{Relation, Relations};
use crate::case::variant::with_ranks;
use crate::check::compared::{Compared, STEP};
use crate::check::tensors::{ROLES, Tensors};
use crate::suite::language::MAX_RANKS;
use crate::suite::language::keys::{COMPARED, RELATION, RELATIONS, TENSORS};
use crate::suite::launch::world_size;
use crate::suite::output_line::regex;
use crate::suite::rank::read_rank;
use crate::suite::reader::{Mapping, Reader};
use crate::suite::surroundings::read_env;
use crate::suite::variables;

/// What relations change of a case.
#[derive(Clone, Copy)]
pub(super) struct Unchanged<'a> {
    pub(super) launch: Option<&'a Launch>,
    pub(super) cluster: Option<&'a ClusterPlan>,
    pub(super) coordinator: bool,
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) env_unset: &'a [String],
}

/// The relations of a case, and what they compare.
pub(super) fn read(reader: &Reader<'_>, case: &Mapping<'_, '_>, unchanged: Unchanged<'_>) -> Option<Relations> {
    let (list, compared) = (case.entry("holds_under"), case.entry("compared"));
    let (list, compared) = match (list, compared) {
        (None, None) => return None,
        (Some(list), Some(compared)) => (list, compared),
        (Some(list), None) => {
            let help = "say what must not change: `compared: {numbers: 'loss (?P<loss>\\S+)'}`";
            reader.mistake(&list.key_span, "`holds_under` without `compared`", help);
            return None;
        }
        (None, Some(compared)) => {
            let help = "say what must not change it: `holds_under: [{ranks: 1}]`";
            reader.mistake(&compared.key_span, "`compared` without `holds_under`", help);
            return None;
        }
    };
    refuse_disturbances(reader, case);
    let items = reader.list("holds_under", &list.node)?;
    if items.is_empty() {
        reader.mistake(&list.node.span, "`holds_under` is empty", "name a relation, or leave it out");
    }
    let mut relations: Vec<Relation> = Vec::new();
    for item in items {
        let Some(relation) = read_relation(reader, item, unchanged) else { continue };
        if relations.iter().any(|other| other.name == relation.name) {
            reader.mistake(&item.span, format!("`{}` is there twice", relation.name), "keep one of the two");
        }
        relations.push(relation);
    }
    let world = unchanged.launch.map_or(Some(u32::MAX), world_size);
    let (compared, tensors) = read_compared(reader, &compared.node, world, &relations, unchanged)?;
    Some(Relations { relations, compared, tensors })
}

/// What ftest does to a case would change its numbers, and do so differently in each variant.
fn refuse_disturbances(reader: &Reader<'_>, case: &Mapping<'_, '_>) {
    for key in ["kill", "faults", "gpu"] {
        let is_there = |entry: &&Entry| !matches!(&entry.node.value, Value::List(items) if items.is_empty());
        if let Some(entry) = case.entry(key).filter(is_there) {
            let help = "what it does to the numbers differs from run to run: give it a case of its own";
            reader.mistake(&entry.key_span, format!("`{key}` in a case with `holds_under`"), help);
        }
    }
}

/// A word, or a mapping with at least one change.
fn read_relation(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<Relation> {
    let place = reader.place(&node.span);
    if !matches!(node.value, Value::Map(_)) {
        let word = RELATIONS[reader.choice("holds_under", node, RELATIONS)?];
        let (variable, value) = other_value(word, unchanged.env);
        let env = [(variable.to_owned(), Some(value.to_owned()))].into();
        return Some(Relation { name: word.to_owned(), env, place, ..Relation::default() });
    }
    let mapping = reader.section(&RELATION, node)?;
    let ranks = mapping.entry("ranks");
    let changes = Relation {
        name: name(reader, mapping.entries()),
        ranks: ranks.and_then(|entry| read_ranks(reader, &entry.node, unchanged)),
        gpu: mapping.get("gpu").and_then(|node| read_gpu(reader, node, unchanged)),
        args: mapping.get("args").and_then(|node| read_args(reader, node)).unwrap_or_default(),
        env: mapping.get("env").map(|node| read_variables(reader, node, unchanged)).unwrap_or_default(),
        place,
    };
    if mapping.entries().is_empty() {
        let help = "write at least one of `ranks`, `gpu`, `args` and `env`";
        reader.mistake(&node.span, "a relation without a change", help);
    }
    mapping.finish();
    Some(changes)
}

/// The variable behind a word, and a value that the case does not have.
fn other_value(word: &str, env: &BTreeMap<String, String>) -> (&'static str, &'static str) {
    let (variable, values) = match word {
        "hash-seed" => ("PYTHONHASHSEED", ["1", "2"]),
        // Not a whole number of hours from UTC, and its date is another one for most of the day.
        _ => ("TZ", ["<+1345>-13:45", "UTC"]),
    };
    let inherited = || std::env::var(variable).ok().filter(|_| variable != "TZ");
    let own = env.get(variable).cloned().or_else(inherited);
    (variable, if own.as_deref() == Some(values[0]) { values[1] } else { values[0] })
}

/// A relation as the suite writes it, on one line.
fn name(reader: &Reader<'_>, entries: &[Entry]) -> String {
    fn text(reader: &Reader<'_>, node: &Node) -> String {
        match &node.value {
            Value::List(items) => {
                format!("[{}]", items.iter().map(|item| text(reader, item)).collect::<Vec<_>>().join(", "))
            }
            Value::Map(entries) => format!("{{{}}}", name(reader, entries)),
            _ => reader.scalar(node).unwrap_or_else(|| "~".to_owned()),
        }
    }
    let keys = entries.iter().map(|entry| format!("{}: {}", entry.key, text(reader, &entry.node)));
    keys.collect::<Vec<_>>().join(", ")
}

fn read_ranks(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<u32> {
    let ranks = reader.integer("ranks", node, 1, MAX_RANKS)?;
    let launch = unchanged.launch?;
    let mistake = |message: String, help: &str| reader.mistake(&node.span, message, help);
    match (launch, world_size(launch)) {
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

fn read_gpu(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<String> {
    let written = reader.word("gpu", node)?;
    let Some(cluster) = unchanged.cluster else {
        reader.mistake(
            &node.span,
            "`gpu` of a relation without a cluster",
            "it replaces simulated GPUs: add `cluster: ...`",
        );
        return None;
    };
    let own = cluster.custom_profiles.contains_key(&written).then(|| written.clone());
    let Some(id) = own.or_else(|| profile::builtin(&written).map(|profile| profile.id.clone())) else {
        reader.mistake(&node.span, profile::unknown(&written), "");
        return None;
    };
    if cluster.gpus().iter().all(|(_, profile)| *profile == id) {
        let message = format!("`gpu: {id}` changes nothing: every GPU of the cluster is one");
        reader.mistake(&node.span, message, "write another profile; `ftest profiles` lists them");
        return None;
    }
    Some(id)
}

fn read_args(reader: &Reader<'_>, node: &Node) -> Option<Vec<String>> {
    let words = reader.words("args", node)?;
    if words.is_empty() {
        reader.mistake(&node.span, "`args` is empty", "write an argument, or leave it out");
    }
    Some(words)
}

fn read_variables(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> BTreeMap<String, Option<String>> {
    let (mut set, mut unset) = (BTreeMap::new(), Vec::new());
    read_env(reader, node, &mut set, &mut unset);
    let (cluster, coordinator) = (unchanged.cluster.is_some(), unchanged.coordinator);
    variables::of_case(reader, node, variables::Has { launch: unchanged.launch, cluster, coordinator }, false);
    let Value::Map(entries) = &node.value else { return BTreeMap::new() };
    if entries.is_empty() {
        reader.mistake(&node.span, "`env` is empty", "name a variable, or leave it out");
    }
    for entry in entries {
        let (own, name) = (unchanged.env.get(&entry.key), &entry.key);
        let is_unset = own.is_none() && unchanged.env_unset.contains(name) && unset.contains(name);
        if is_unset || own.is_some() && own == set.get(name) {
            let message = format!("`{name}` changes nothing: the case has the same value");
            reader.mistake(&entry.key_span, message, "write another value");
        }
    }
    let set = set.into_iter().map(|(name, value)| (name, Some(value)));
    set.chain(unset.into_iter().map(|name| (name, None))).collect()
}

/// `{numbers: REGEX, rank: 0, tensors: [gradients], tolerance: 1e-5}`.
fn read_compared(
    reader: &Reader<'_>,
    node: &Node,
    world: Option<u32>,
    relations: &[Relation],
    unchanged: Unchanged<'_>,
) -> Option<(Option<Compared>, Option<Tensors>)> {
    let place = reader.place(&node.span);
    let mapping = reader.section(&COMPARED, node)?;
    let numbers = mapping.get("numbers").and_then(|node| {
        let text = reader.string("numbers", node)?;
        let numbers = regex(reader, node, &text)?;
        if !numbers.capture_names().flatten().any(|name| name != STEP) {
            let help = "give the number a name: `loss (?P<loss>\\S+)`";
            reader.mistake(&node.span, "`numbers` has no named group but `step`", help);
        }
        Some(numbers)
    });
    let rank = mapping.get("rank").and_then(|node| {
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
    let roles = mapping.get("tensors").map(|node| read_tensors(reader, node, unchanged));
    if mapping.entry("numbers").is_none() {
        if roles.is_none() {
            let help = "write `numbers: 'loss (?P<loss>\\S+)'`, or `tensors: [gradients, parameters]`";
            reader.mistake(&node.span, "`compared` without `numbers` and `tensors`", help);
        }
        if let Some(entry) = mapping.entry("rank") {
            let help = "leave it out: tensors are those of all ranks";
            reader.mistake(&entry.key_span, "`rank` without `numbers`", help);
        }
    }
    mapping.finish();
    let tensors = roles.map(|roles| Tensors { roles, tolerance, place: place.clone() });
    Some((numbers.map(|numbers| Compared { numbers, rank, tolerance, place }), tensors))
}

fn read_tensors(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Vec<TensorRole> {
    if unchanged.cluster.is_none() {
        let help = "they are those of simulated GPUs: add `cluster: ...`";
        reader.mistake(&node.span, "`tensors` without a cluster", help);
    }
    if matches!(unchanged.launch, Some(Launch::Srun(_))) {
        let help = "Slurm may place ranks on other machines: use `argv` or `torchrun`, or compare `numbers`";
        reader.mistake(&node.span, "`tensors` with `srun`", help);
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
