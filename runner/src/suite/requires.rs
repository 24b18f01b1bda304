//! `requires`: the conditions under which a case runs.

use model::node::{Entry, Node, Value};

use crate::case::Requirement;
use crate::case::python::{PythonNeed, package};
use crate::host::version::{BadRange, Range};
use crate::suite::language::keys;
use crate::suite::reader::{Mapping, Reader, did_you_mean};

/// The conditions of these layers, in order. `torch` is not one of them: it goes into `python`.
pub(super) fn read(
    reader: &Reader<'_>,
    layers: &[&Mapping<'_, '_>],
    python: &mut Option<PythonNeed>,
) -> Vec<Requirement> {
    let lists =
        layers.iter().filter_map(|layer| layer.get("requires")).filter_map(|node| reader.list("requires", node));
    let mut requires = Vec::new();
    for item in lists.flatten() {
        match entry_of(reader, item) {
            Some(entry) if entry.key == "torch" => need_torch(reader, entry, python),
            Some(entry) => requires.extend(one(reader, entry)),
            None => {}
        }
    }
    requires
}

fn entry_of<'n>(reader: &Reader<'_>, node: &'n Node) -> Option<&'n Entry> {
    let mapping = reader.section(&keys::REQUIREMENT, node)?;
    let [entry] = mapping.entries() else {
        reader.mistake(&node.span, "each item of `requires` has one key", "write one `- key: value` per line");
        return None;
    };
    Some(entry)
}

fn need_torch(reader: &Reader<'_>, entry: &Entry, python: &mut Option<PythonNeed>) {
    let Some(version) = reader.word("torch", &entry.node) else { return };
    let PythonNeed::Managed(requirements) = python.get_or_insert(PythonNeed::Managed(Vec::new())) else {
        let help = format!("with `python: system` write `python_module: {{name: torch, version: \"=={version}\"}}`");
        reader.mistake(
            &entry.node.span,
            "`torch` names what a managed environment holds, and this case has none",
            help,
        );
        return;
    };
    requirements.retain(|requirement| package(requirement) != "torch");
    requirements.push(format!("torch=={version}"));
    // PyTorch does not require NumPy, but few programs do without it.
    if !requirements.iter().any(|requirement| requirement.starts_with("numpy")) {
        requirements.push("numpy".to_owned());
    }
    requirements.sort_unstable();
}

fn one(reader: &Reader<'_>, entry: &Entry) -> Option<Requirement> {
    let word = || reader.word(&entry.key, &entry.node);
    match entry.key.as_str() {
        "platform" => word().map(Requirement::Platform),
        "command" => word().map(Requirement::Command),
        "env" => word().map(|value| match value.split_once('=') {
            Some((name, value)) => Requirement::Env { name: name.to_owned(), value: Some(value.to_owned()) },
            None => Requirement::Env { name: value, value: None },
        }),
        "file" => word().map(|file| Requirement::File(file.into())),
        "python_module" => module(reader, &entry.node),
        "cpus" => reader.integer("cpus", &entry.node, 1, 1024).map(Requirement::Cpus),
        "memory" => reader.size("memory", &entry.node).map(Requirement::Memory),
        "shm" => reader.size("shm", &entry.node).map(Requirement::Shm),
        "not" => inner(reader, &entry.node).map(|inner| Requirement::Not(Box::new(inner))),
        "any" => several(reader, "any", &entry.node).map(Requirement::Any),
        "all" => several(reader, "all", &entry.node).map(Requirement::All),
        "torch" => {
            let help = "it is not a condition: it makes the case's Python environment";
            reader.mistake(&entry.key_span, "`torch` goes directly into `requires`", help);
            None
        }
        other => {
            let known = keys::REQUIREMENT.keys().map(|key| key.name).collect::<Vec<_>>();
            reader.mistake(&entry.key_span, format!("unknown requirement `{other}`"), did_you_mean(other, known));
            None
        }
    }
}

fn inner(reader: &Reader<'_>, node: &Node) -> Option<Requirement> {
    entry_of(reader, node).and_then(|entry| one(reader, entry))
}

fn several(reader: &Reader<'_>, what: &str, node: &Node) -> Option<Vec<Requirement>> {
    let items = reader.list(what, node)?;
    if items.is_empty() {
        reader.mistake(&node.span, format!("`{what}` is empty"), "name at least one condition");
    }
    let read: Vec<Requirement> = items.iter().filter_map(|item| inner(reader, item)).collect();
    (read.len() == items.len()).then_some(read)
}

/// `numpy`, or `{name: torch, version: ">=2.6"}`.
fn module(reader: &Reader<'_>, node: &Node) -> Option<Requirement> {
    if !matches!(node.value, Value::Map(_)) {
        let name = reader.word("python_module", node)?;
        return Some(Requirement::PythonModule { name, version: None });
    }
    let mapping = reader.section(&keys::MODULE, node)?;
    let name = mapping.required("name", "name: torch").and_then(|node| reader.string("name", node));
    let version = mapping.get("version").map(|node| {
        let text = reader.word("version", node)?;
        let wrong = |bad: BadRange| {
            let help = "write it like `>=2.6`, `==2.9.*` or `>=2.6,<3`";
            reader.mistake(&node.span, bad.to_string(), help);
        };
        Range::parse(&text).map_err(wrong).ok()
    });
    mapping.finish();
    Some(Requirement::PythonModule { name: name?, version: version.map_or(Some(None), |version| version.map(Some))? })
}
