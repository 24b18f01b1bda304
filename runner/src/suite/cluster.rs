//! Clusters in suites: a name, a file, or an inline definition.

use std::fs;

use model::cluster_file;
use model::node::{Entry, Node, Value};
use protocol::plan::ClusterPlan;

use crate::suite::Shared;
use crate::suite::reader::did_you_mean;

/// The cluster of `defaults` or of a case: the name of one of `clusters`, or a definition.
pub(super) fn resolve(shared: &mut Shared<'_>, node: &Node, name: &str) -> Option<ClusterPlan> {
    let Value::Text(wanted) = &node.value else { return read(shared, node, name) };
    shared.used.insert(wanted.clone());
    match shared.clusters.get(wanted) {
        Some(plan) => plan.clone(),
        None => {
            let help = did_you_mean(wanted, shared.clusters.keys().map(String::as_str));
            let help = if help.is_empty() { "define it under `clusters`".to_owned() } else { help };
            shared.reader.mistake(&node.span, format!("unknown cluster `{wanted}`"), help);
            None
        }
    }
}

/// `own`, with missing keys taken from the cluster that it extends.
fn extend(shared: &mut Shared<'_>, own: &[Entry], extends: &Entry) -> Option<Node> {
    let reader = shared.reader;
    let base_name = reader.string("extends", &extends.node)?;
    let span = &extends.node.span;
    let Some(base) = shared.definitions.get(&base_name) else {
        let help = did_you_mean(&base_name, shared.definitions.keys().map(String::as_str));
        reader.mistake(span, format!("unknown cluster `{base_name}`"), help);
        return None;
    };
    let Value::Map(base) = &base.value else { return None };
    for (key, help) in [
        ("extends", "`extends` cannot be chained: extend what it extends"),
        ("file", "only what is written out under `clusters` can be extended"),
    ] {
        if base.iter().any(|entry| entry.key == key) {
            reader.mistake(span, format!("`{base_name}` has `{key}`"), help);
            return None;
        }
    }
    let find = |entries: &[Entry], key: &str| entries.iter().find(|entry| entry.key == key).cloned();
    // Both apply only to a number of nodes.
    let lists_nodes = find(own, "nodes").is_some_and(|nodes| matches!(nodes.node.value, Value::List(_)));
    let mut merged: Vec<Entry> = own.iter().filter(|entry| entry.key != "extends").cloned().collect();
    for entry in base {
        let name_of_its_own = entry.key == "name";
        let of_a_number = lists_nodes && matches!(entry.key.as_str(), "gpus_per_node" | "profile");
        match merged.iter_mut().find(|own| own.key == entry.key) {
            Some(own) if entry.key == "fabric" => {
                if let (Value::Map(own), Value::Map(base)) = (&mut own.node.value, &entry.node.value) {
                    let more: Vec<Entry> = base.iter().filter(|link| find(own, &link.key).is_none()).cloned().collect();
                    own.extend(more);
                }
            }
            None if !name_of_its_own && !of_a_number => merged.push(entry.clone()),
            Some(_) | None => {}
        }
    }
    shared.used.insert(base_name);
    Some(Node { value: Value::Map(merged), span: extends.key_span.clone() })
}

/// A definition: `file: PATH`, or the content of a cluster file.
pub(super) fn read(shared: &mut Shared<'_>, node: &Node, name: &str) -> Option<ClusterPlan> {
    let reader = shared.reader;
    let dir = shared.dir.clone();
    let load_in = |dir: &std::path::Path, path: &str| {
        fs::read_to_string(dir.join(path)).map_err(|error| format!("{}: {error}", dir.join(path).display()))
    };
    let Value::Map(entries) = &node.value else {
        return reader.mapping(&format!("cluster `{name}`"), node).and(None);
    };
    if !entries.iter().any(|entry| entry.key == "file") {
        let load = |path: &str| load_in(&dir, path);
        let extended = match entries.iter().find(|entry| entry.key == "extends") {
            Some(extends) => Some(extend(shared, entries, extends)?),
            None => None,
        };
        let node = extended.as_ref().unwrap_or(node);
        return cluster_file::from_node(reader.name(), reader.text(), node, name, &load)
            .map_err(|mistakes| mistakes.into_iter().for_each(|mistake| reader.note(mistake)))
            .ok();
    }
    let mapping = reader.mapping(&format!("cluster `{name}`"), node)?;
    let file = mapping.get("file").and_then(|node| Some((reader.string("file", node)?, node)));
    mapping.finish();
    let (file, file_node) = file?;
    let path = dir.join(&file);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            reader.mistake(
                &file_node.span,
                format!("{}: {error}", path.display()),
                "the path is taken from the suite's directory",
            );
            return None;
        }
    };
    let beside = path.parent().unwrap_or(&dir);
    let load = |profile: &str| load_in(beside, profile);
    let shown = reader.file().parent().map_or_else(|| file.clone(), |parent| parent.join(&file).display().to_string());
    match cluster_file::parse(&shown, &text, &load) {
        Ok(plan) => Some(plan),
        Err(mistakes) => {
            if !shared.foreign.iter().any(|(_, known)| *known == mistakes) {
                shared.foreign.push((text, mistakes));
            }
            None
        }
    }
}
