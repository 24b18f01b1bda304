//! Clusters in suites: a name, a file, or one written out in place.

use std::fs;

use model::cluster_file;
use model::node::{Node, Value};
use protocol::plan::ClusterPlan;

use crate::suite::Shared;
use crate::suite::reader::did_you_mean;

/// The cluster of `defaults` or of a case: the name of one of `clusters`, or a definition.
pub(super) fn resolve(shared: &mut Shared<'_>, node: &Node, name: &str) -> Option<ClusterPlan> {
    let Value::Text(wanted) = &node.value else { return read(shared, node, name) };
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

/// A definition: `file: PATH`, or what a cluster file holds.
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
