//! The suite language: a YAML file -> cases. All mistakes of a file are reported at once, each with its place.

mod case;
mod cluster;
mod expect;
pub mod find;
mod launch;
mod matrix;
mod quantity;
mod reader;
mod template;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::diagnostic::{self, Diagnostic};
use model::node::Node;
use protocol::plan::ClusterPlan;
use serde_json::json;

use crate::case::Case;
use reader::Reader;

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
    /// In the order of the file; the expansions of a matrix in the order of its axes.
    pub cases: Vec<Arc<Case>>,
}

/// Why a suite cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file says something wrong.
    #[error("{0}")]
    Mistakes(Mistakes),
}

/// The mistakes of a suite file and of the cluster files it names, each with the text that they point into.
#[derive(Debug)]
pub struct Mistakes {
    files: Vec<(String, Vec<Diagnostic>)>,
}

impl Mistakes {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.files.iter().map(|(_, mistakes)| mistakes.len()).sum()
    }

    /// For a terminal.
    pub fn styled(&self) -> String {
        self.files
            .iter()
            .map(|(text, mistakes)| diagnostic::render_styled(mistakes, text))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (text, mistakes)) in self.files.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&diagnostic::render(mistakes, text))?;
        }
        Ok(())
    }
}

/// What the cases of a file share.
struct Shared<'a> {
    reader: &'a Reader<'a>,
    suite: String,
    /// Absolute directory of the suite file.
    dir: PathBuf,
    /// By name; none for one with mistakes.
    clusters: BTreeMap<String, Option<ClusterPlan>>,
    defaults: Option<&'a Node>,
    /// Mistakes of cluster files, with their texts.
    foreign: Vec<(String, Vec<Diagnostic>)>,
}

/// Reads a suite file.
///
/// # Errors
/// It cannot be read, or all its mistakes.
pub fn load(file: &Path) -> Result<Suite, SuiteError> {
    let read_error = |error| SuiteError::Read { file: file.to_owned(), error };
    let text = fs::read_to_string(file).map_err(read_error)?;
    let dir = file.canonicalize().map_err(read_error)?.parent().unwrap_or(Path::new("/")).to_owned();
    parse(file, &text, &dir)
}

/// Reads `text`, the content of `file`, which stands in the absolute directory `dir`.
///
/// # Errors
/// All its mistakes.
pub fn parse(file: &Path, text: &str, dir: &Path) -> Result<Suite, SuiteError> {
    let reader = Reader::new(file, text);
    let mut foreign = Vec::new();
    let suite = reader.parse().and_then(|node| read(&reader, &node, dir, &mut foreign));
    let mistakes = reader.finish();
    if let (Some(suite), true, true) = (suite, mistakes.is_empty(), foreign.is_empty()) {
        return Ok(suite);
    }
    let mut files = vec![(text.to_owned(), mistakes)];
    files.retain(|(_, mistakes)| !mistakes.is_empty());
    files.extend(foreign);
    Err(SuiteError::Mistakes(Mistakes { files }))
}

fn read(reader: &Reader<'_>, node: &Node, dir: &Path, foreign: &mut Vec<(String, Vec<Diagnostic>)>) -> Option<Suite> {
    let root = reader.mapping("a suite", node)?;
    if let Some(version) =
        root.required("ftest", "ftest: 1").and_then(|node| Some((reader.integer("ftest", node, 1, u32::MAX)?, node)))
        && version.0 != VERSION
    {
        reader.mistake(
            &version.1.span,
            format!("`ftest: {}` is not known here", version.0),
            "this ftest reads `ftest: 1`",
        );
    }
    let name = root.required("suite", "suite: my-suite").and_then(|node| slug(reader, "suite", node));
    let description = root.get("description").and_then(|node| reader.string("description", node));
    let mut shared = Shared {
        reader,
        suite: name.clone().unwrap_or_default(),
        dir: dir.to_owned(),
        clusters: BTreeMap::new(),
        defaults: root.get("defaults"),
        foreign: Vec::new(),
    };
    if let Some(clusters) = root.get("clusters").and_then(|node| reader.mapping("`clusters`", node)) {
        for entry in clusters.entries() {
            let context = shared.context(json!({}), json!({}), None);
            let node = template::render(reader, &entry.node, &context);
            let plan = cluster::read(&mut shared, &node, &entry.key);
            shared.clusters.insert(entry.key.clone(), plan);
        }
    }
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
    unique(reader, &cases);
    foreign.append(&mut shared.foreign);
    Some(Suite {
        name: name?,
        description,
        file: reader.file().to_owned(),
        cases: cases.into_iter().map(|(case, _)| Arc::new(case)).collect(),
    })
}

type Span = std::ops::Range<usize>;

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

/// A name that files, XML and command lines all take.
fn slug(reader: &Reader<'_>, what: &str, node: &Node) -> Option<String> {
    let text = reader.string(what, node)?;
    if text.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')) {
        return Some(text);
    }
    reader.mistake(
        &node.span,
        format!("`{what}: {text}` holds other characters than letters, digits, `-`, `_` and `.`"),
        "free text goes into `title` or `description`",
    );
    None
}

impl Shared<'_> {
    /// The names that templates see.
    fn context(
        &self,
        matrix: serde_json::Value,
        case: serde_json::Value,
        cluster: Option<&ClusterPlan>,
    ) -> serde_json::Value {
        let env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let mut context = json!({ "matrix": matrix, "case": case, "suite": self.suite, "dir": self.dir, "env": env });
        if let Some(cluster) = cluster {
            context["cluster"] = crate::check::invariant::describe_cluster(cluster);
        }
        context
    }
}
