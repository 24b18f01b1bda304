//! Keys common to cases and fixtures: `env` and `python`.

use std::collections::BTreeMap;
use std::path::Path;

use model::node::{Entry, Node, Value};

use crate::case::python::{self, PythonNeed};
use crate::suite::language::launch::PYTHON;
use crate::suite::reader::{Mapping, Reader};
use crate::suite::requirements;

/// The key of `python` that is a switch and may appear among package names.
const COMPILE: &str = "compile";

/// Adds variables to `env`, and null ones to `unset`.
pub(super) fn read_env(reader: &Reader<'_>, node: &Node, env: &mut BTreeMap<String, String>, unset: &mut Vec<String>) {
    let Some(mapping) = reader.mapping("`env`", node) else { return };
    for entry in mapping.entries() {
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            reader.mistake(&entry.key_span, format!("`{}` is not a valid name of a variable", entry.key), "");
        }
        if entry.node.value == Value::Null {
            env.remove(&entry.key);
            unset.push(entry.key.clone());
        } else if let Some(value) = reader.word(&entry.key, &entry.node) {
            unset.retain(|name| *name != entry.key);
            env.insert(entry.key.clone(), value);
        }
    }
}

/// `[torch==2.15.0, numpy]`, or `{torch: "2.15.0", compile: true}`, or `{requirements: FILE}` from `directory`, or `system`.
pub(super) fn read_python(reader: &Reader<'_>, node: &Node, directory: &Path) -> Option<PythonNeed> {
    if let Value::Text(text) = &node.value {
        if text == python::SYSTEM {
            return Some(PythonNeed::System);
        }
        let help = format!("write a list, `python: [{text}]`, or `system` for the Python on PATH");
        reader.mistake(&node.span, format!("unknown `python`: `{text}`"), help);
        return None;
    }
    let names_files = |entry: &Entry| entry.key != COMPILE && PYTHON.keys().any(|key| key.name == entry.key);
    let mut requirements = match &node.value {
        Value::Map(entries) if entries.iter().any(names_files) => sources(reader, node, directory)?,
        Value::Map(_) => versions(reader, &reader.mapping("`python`", node)?)?,
        _ => reader.texts("python", node)?,
    };
    requirements.sort_unstable();
    requirements.dedup();
    Some(PythonNeed::Managed(requirements))
}

/// The requirements in the files of a repository.
fn sources(reader: &Reader<'_>, node: &Node, directory: &Path) -> Option<Vec<String>> {
    let python = reader.section(&PYTHON, node)?;
    let mut found = Vec::new();
    let mut take = |node: &Node, lines: Result<Vec<String>, requirements::Mistake>| match lines {
        Ok(lines) => found.extend(lines),
        Err(mistake) => reader.mistake(&node.span, mistake.to_string(), mistake.help),
    };
    let files = python.get("requirements");
    let items = match files {
        Some(Node { value: Value::List(items), .. }) => items.as_slice(),
        Some(node) => std::slice::from_ref(node),
        None => &[],
    };
    for item in items {
        if let Some(file) = reader.string("requirements", item) {
            take(item, requirements::of_file(&directory.join(file)));
        }
    }
    let extras = python.get("extras").and_then(|node| reader.texts("extras", node)).unwrap_or_default();
    let project = python.get("project");
    if let (Some(entry), None) = (python.entry("extras"), project) {
        reader.mistake(
            &entry.key_span,
            "`extras` without `project`",
            "they are extras of the project: add `project: DIRECTORY`",
        );
    }
    if let Some((node, project)) = project.and_then(|node| Some((node, reader.string("project", node)?))) {
        take(node, requirements::of_project(&directory.join(project), &extras));
    }
    let packages = python.get("packages").and_then(|node| reader.texts("packages", node)).unwrap_or_default();
    found.extend(packages);
    let compile = python.get(COMPILE);
    if files.is_none() && project.is_none() && compile.is_none() {
        let help = "with packages alone, write a list: `python: [torch==2.15.0, numpy]`";
        reader.mistake(&node.span, "`python` has neither `requirements` nor `project`", help);
    }
    let compile = compile.is_some_and(|node| reader.boolean(COMPILE, node) == Some(true));
    python.finish();
    Some(if compile { python::with_compiler(found) } else { found })
}

fn versions(reader: &Reader<'_>, mapping: &Mapping<'_, '_>) -> Option<Vec<String>> {
    let mut compile = false;
    let mut found = Vec::new();
    for entry in mapping.entries() {
        if entry.key == COMPILE {
            compile = reader.boolean(COMPILE, &entry.node)?;
        } else if let Some(version) = reader.word(&entry.key, &entry.node) {
            let pinned = version.starts_with(|first: char| first.is_ascii_digit());
            found.push(format!("{}{}{version}", entry.key, if pinned { "==" } else { "" }));
        }
    }
    Some(if compile { python::with_compiler(found) } else { found })
}
