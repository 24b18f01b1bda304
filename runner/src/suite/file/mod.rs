//! The top level of a suite file: its own keys, its clusters, and case after case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::diagnostic::Diagnostic;
use model::node::{Entry, Node};
use serde_json::json;

use super::mistakes::Warnings;
use super::name::slug;
use super::reader::{Reader, Span};
use super::shared::Shared;
use super::{case, cluster, directory, fixture, fixture_definitions, language, lint, template};
use crate::case::Case;

/// The version of the language, `ftest: 1`.
const VERSION: u32 = 1;

/// A suite: the cases of one file.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// Free text.
    pub description: Option<String>,
    /// The file as the user named it.
    pub file: PathBuf,
    /// Things that are allowed in it but are probably mistakes.
    pub warnings: Warnings,
    /// The cases in file order; expansions of a matrix are in the order of its axes.
    pub cases: Vec<Arc<Case>>,
}

pub(super) fn read(
    reader: &Reader<'_>,
    node: &Node,
    dir: &Path,
    foreign: &mut Vec<(String, Vec<Diagnostic>)>,
    explained: &mut Option<Vec<String>>,
) -> Option<Suite> {
    let root = reader.section(&language::keys::SUITE, node)?;
    if let Some(version) =
        root.required("ftest", "ftest: 1").and_then(|node| Some((reader.integer("ftest", node, 1, u32::MAX)?, node)))
        && version.0 != VERSION
    {
        reader.mistake(
            &version.1.span,
            format!("`ftest: {}` is not supported", version.0),
            "this ftest reads `ftest: 1`",
        );
    }
    let name = root.required("suite", "suite: my-suite").and_then(|node| slug(reader, "suite", node));
    let description = root.get("description").and_then(|node| reader.string("description", node));
    let mut shared = Shared {
        reader,
        suite: name.clone().unwrap_or_default(),
        dir: dir.to_owned(),
        repository: directory::repository(dir),
        clusters: BTreeMap::new(),
        definitions: BTreeMap::new(),
        used: BTreeSet::new(),
        defaults: root.get("defaults"),
        fixtures: fixture_definitions::read(reader, root.get("fixtures")),
        timeout: root.get("timeout").and_then(|node| reader.duration("timeout", node)),
        groups: root.get("groups").map(|node| read_groups(reader, node)).unwrap_or_default(),
        unhonored: Default::default(),
        foreign: Vec::new(),
        explained: explained.take(),
    };
    if let Some(clusters) = root.get("clusters").and_then(|node| reader.mapping("`clusters`", node)) {
        for entry in clusters.entries() {
            let context = shared.context(json!({}), json!({}), None);
            let node = template::render(reader, &entry.node, &context);
            fixture::check_none(&shared, &node);
            shared.definitions.insert(entry.key.clone(), node);
        }
        for (name, node) in shared.definitions.clone() {
            let plan = cluster::read(&mut shared, &node, &name);
            shared.clusters.insert(name, plan);
        }
    }
    let root_clusters = root.get("clusters");
    let mut cases = Vec::new();
    if let Some(node) = root.required("cases", "cases: [{id: ..., launch: ..., expect: ...}]") {
        let items = reader.list("cases", node).unwrap_or_default();
        if items.is_empty() && reader.count() == 0 {
            reader.mistake(&node.span, "`cases` is empty", "a suite has at least one case");
        }
        for item in items {
            cases.extend(case::read(&mut shared, item));
        }
    }
    root.finish();
    if let Some(node) = root_clusters {
        lint::clusters(&shared, node);
    }
    shared.fixtures.finish(reader);
    shared.unhonored.finish(reader);
    unique(reader, &cases);
    foreign.append(&mut shared.foreign);
    *explained = shared.explained.take();
    Some(Suite {
        name: name?,
        description,
        file: reader.file().to_owned(),
        warnings: Warnings { text: reader.text().to_owned(), list: reader.take_warnings() },
        cases: cases.into_iter().map(|(case, _)| Arc::new(case)).collect(),
    })
}

/// `{port: {max: 1}}`.
fn read_groups(reader: &Reader<'_>, node: &Node) -> BTreeMap<String, u32> {
    let Some(mapping) = reader.mapping("`groups`", node) else { return BTreeMap::new() };
    let read = |entry: &Entry| {
        let group = reader.section(&language::keys::GROUP, &entry.node)?;
        let max = group.required("max", "max: 1").and_then(|node| reader.integer("max", node, 1, 1024));
        group.finish();
        Some((entry.key.clone(), max?))
    };
    mapping.entries().iter().filter_map(read).collect()
}

fn unique(reader: &Reader<'_>, cases: &[(Case, Span)]) {
    let mut seen: BTreeMap<&str, &Span> = BTreeMap::new();
    let mut files: BTreeMap<&Path, &str> = BTreeMap::new();
    for (case, span) in cases {
        if let Some(first) = seen.insert(&case.id, span) {
            let place = reader.place(first);
            reader.mistake(
                span,
                format!("a second case `{}`", case.id),
                format!("the first is at line {}", place.line),
            );
        }
        for snapshot in &case.expect.snapshots {
            if let Some(other) = files.insert(&snapshot.path, &case.id) {
                let message =
                    format!("the snapshot `{}` of `{}` would be the file of `{other}`", snapshot.name, case.id);
                reader.mistake(span, message, "give it another `name`");
            }
        }
    }
}

#[cfg(test)]
mod tests;
