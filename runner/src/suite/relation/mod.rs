//! `holds_under`: the changes that must not change the result of a case. A change that changes nothing is a mistake.

mod compared;
mod layout;
mod unchanged;
mod word;

pub(super) use unchanged::Unchanged;

use std::collections::BTreeMap;

use model::node::{Entry, Node, Value};
use protocol::profile;
use protocol::schedule::Schedule;

use crate::case::Case;
use crate::case::layout::with_ranks;
use crate::case::relation::{Relation, Relations};
use crate::case::variables::{OF_PYTHON, REPRODUCIBLE};
use crate::suite::Shared;
use crate::suite::language::relation::{RELATION, WORDS};
use crate::suite::policy::read_schedule;
use crate::suite::reader::{Mapping, Reader};
use crate::suite::surroundings::read_env;
use crate::suite::variables;

/// The relations of a case, and what they compare.
pub(super) fn read(shared: &Shared<'_>, case: &Mapping<'_, '_>, unchanged: Unchanged<'_>) -> Option<Relations> {
    let reader = shared.reader;
    let (list, what) = (case.entry("holds_under"), case.entry("compared"));
    let (list, what) = match (list, what) {
        (None, None) => return None,
        (Some(list), Some(what)) => (list, what),
        (Some(list), None) => {
            let help = "say what must not change: `compared: {numbers: 'loss (?P<loss>\\S+)'}`";
            reader.mistake(&list.key_span, "`holds_under` without `compared`", help);
            return None;
        }
        (None, Some(what)) => {
            let help = "say what must not change it: `holds_under: [{ranks: 1}]`";
            reader.mistake(&what.key_span, "`compared` without `holds_under`", help);
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
        let Some(relation) = read_relation(shared, item, unchanged) else { continue };
        if relations.iter().any(|other| other.name == relation.name) {
            reader.mistake(&item.span, format!("`{}` is there twice", relation.name), "keep one of the two");
        }
        relations.push(relation);
    }
    let compared::Things { compared, tensors, steps } = compared::read(reader, &what.node, unchanged, &relations)?;
    Some(Relations { relations, compared, tensors, steps })
}

/// The relations that need nothing else from the program of `case`: every word that changes something, and one rank.
pub fn possible(case: &Case) -> Vec<Relation> {
    let unchanged = Unchanged {
        launch: Some(&case.launch),
        cluster: case.cluster.as_ref(),
        coordinator: case.coordinator,
        has_network: case.network.is_some(),
        schedule: case.schedule,
        env: &case.env,
        env_unset: &case.env_unset,
        cwd: &case.cwd,
    };
    let mut possible: Vec<Relation> = WORDS.iter().filter_map(|word| word::relation(word, unchanged).ok()).collect();
    let has_more = case.world_size().is_some_and(|world| world > 1);
    if has_more && with_ranks(&case.launch, 1, case.cluster.as_ref()).is_some() {
        let name = "ranks: 1".to_owned();
        possible.push(Relation { name, ranks: Some(1), changes_sums: true, ..Relation::default() });
    }
    if layout::has_nodes(1, unchanged).is_ok() {
        possible.push(Relation { name: "nodes: 1".to_owned(), nodes: Some(1), ..Relation::default() });
    }
    possible.iter_mut().for_each(|relation| relation.place = case.place.clone());
    possible
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
fn read_relation(shared: &Shared<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<Relation> {
    let reader = shared.reader;
    if !matches!(node.value, Value::Map(_)) {
        return word::read(reader, node, unchanged);
    }
    let mapping = reader.section(&RELATION, node)?;
    let layout = layout::read(shared, &mapping, unchanged);
    let changes = Relation {
        name: name(reader, mapping.entries()),
        gpu: mapping.get("gpu").and_then(|node| read_gpu(reader, node, unchanged)),
        args: mapping.get("args").and_then(|node| read_args(reader, node)).unwrap_or_default(),
        env: mapping.get("env").map(|node| read_variables(reader, node, unchanged)).unwrap_or_default(),
        schedule: mapping.get("schedule").and_then(|node| read_delays(reader, node, unchanged)),
        place: reader.place(&node.span),
        ..layout
    };
    if mapping.entries().is_empty() {
        let help = "write at least one of `ranks`, `nodes`, `launch`, `gpu`, `args`, `env`, `schedule` and `restart`";
        reader.mistake(&node.span, "a relation without a change", help);
    }
    mapping.finish();
    Some(changes)
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

fn read_delays(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<Schedule> {
    let schedule = read_schedule(reader, node)?;
    if unchanged.cluster.is_none() {
        reader.mistake(&node.span, word::DELAYS_NOTHING, word::DELAYS_GPUS);
    } else if unchanged.schedule == Some(schedule) {
        reader.mistake(&node.span, "`schedule` changes nothing: the case has the same", "write another seed");
    }
    Some(schedule)
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
        let inherited = || std::env::var_os(name).is_none();
        let of_every_case = REPRODUCIBLE.iter().chain(OF_PYTHON.iter().filter(|_| inherited()));
        let of_every_case = of_every_case.filter(|(usual, _)| usual == name && !unchanged.env_unset.contains(name));
        let usual = of_every_case.map(|(_, value)| *value).next();
        let is_usual = own.is_none() && usual.is_some() && usual == set.get(name).map(String::as_str);
        let is_unset = own.is_none() && unchanged.env_unset.contains(name) && unset.contains(name);
        if is_unset || is_usual || own.is_some() && own == set.get(name) {
            let message = format!("`{name}` changes nothing: the case has the same value");
            reader.mistake(&entry.key_span, message, "write another value");
        }
    }
    let set = set.into_iter().map(|(name, value)| (name, Some(value)));
    set.chain(unset.into_iter().map(|name| (name, None))).collect()
}
