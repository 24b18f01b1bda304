//! What a case and a fixture have in common: `env` and `python`.

use std::collections::BTreeMap;

use model::node::{Node, Value};

use crate::case::python::{self, PythonNeed};
use crate::suite::reader::{Mapping, Reader};

/// Adds variables to `env`, and those that are null to `unset`.
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

/// `[torch==2.15.0, numpy]`, or `{torch: "2.15.0"}`, or `system`.
pub(super) fn read_python(reader: &Reader<'_>, node: &Node) -> Option<PythonNeed> {
    if let Value::Text(text) = &node.value {
        if text == python::SYSTEM {
            return Some(PythonNeed::System);
        }
        let help = format!("write a list, `python: [{text}]`, or `system` for the Python on PATH");
        reader.mistake(&node.span, format!("unknown `python`: `{text}`"), help);
        return None;
    }
    let mut requirements = match &node.value {
        Value::Map(_) => versions(reader, &reader.mapping("`python`", node)?),
        _ => reader.texts("python", node)?,
    };
    requirements.sort_unstable();
    requirements.dedup();
    Some(PythonNeed::Managed(requirements))
}

fn versions(reader: &Reader<'_>, mapping: &Mapping<'_, '_>) -> Vec<String> {
    mapping
        .entries()
        .iter()
        .filter_map(|entry| {
            let version = reader.word(&entry.key, &entry.node)?;
            let pinned = version.starts_with(|first: char| first.is_ascii_digit());
            Some(format!("{}{}{version}", entry.key, if pinned { "==" } else { "" }))
        })
        .collect()
}
