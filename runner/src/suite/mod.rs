//! The suite language: a YAML file -> cases. All mistakes of a file are reported at once, each with its place.
//!
//! The keys are in [`language`], which explains how to add one; everything else (schema, documentation) follows from there.

mod case;
mod cluster;
mod expect;
mod explain;
mod fault;
pub mod find;
mod fixture;
pub mod format;
mod gpu;
mod kill;
pub mod language;
mod launch;
mod lint;
mod matrix;
mod moment;
mod network;
mod output_line;
mod path;
mod perf;
mod policy;
pub(crate) mod quantity;
mod rank;
mod reader;
mod report;
pub(crate) mod requirements;
mod requires;
mod room;
mod srun;
mod surroundings;
pub(crate) mod template;
mod torchrun;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::diagnostic::{self, Diagnostic};
use model::node::{Entry, Node};
use protocol::fault::Fault;
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
    /// What is allowed in it but probably a mistake.
    pub warnings: Warnings,
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
    /// The file has mistakes.
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

/// Warnings of a suite file, with the text that they point into.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    text: String,
    list: Vec<Diagnostic>,
}

impl Warnings {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// For a terminal.
    pub fn styled(&self) -> String {
        diagnostic::render_warnings(&self.list, &self.text, true)
    }
}

impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&diagnostic::render_warnings(&self.list, &self.text, false))
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
    /// The entries of `clusters`, by name, for those that extend them.
    definitions: BTreeMap<String, Node>,
    /// Clusters that a case names, or another cluster extends.
    used: BTreeSet<String>,
    defaults: Option<&'a Node>,
    fixtures: fixture::Definitions<'a>,
    /// What its cases may take together.
    timeout: Option<std::time::Duration>,
    /// Limits of groups, by name.
    groups: BTreeMap<String, u32>,
    /// Each case fully resolved, where requested.
    explained: Option<Vec<String>>,
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

/// Reads `text`, the content of `file`, in the absolute directory `dir`.
///
/// # Errors
/// All its mistakes.
pub fn parse(file: &Path, text: &str, dir: &Path) -> Result<Suite, SuiteError> {
    parse_with(file, text, dir, &mut None)
}

/// [`load`], and each case fully resolved, with the origin of every value: YAML with comments.
///
/// # Errors
/// It cannot be read, or all its mistakes.
pub fn explain(file: &Path) -> Result<Vec<(Arc<Case>, String)>, SuiteError> {
    let read_error = |error| SuiteError::Read { file: file.to_owned(), error };
    let text = fs::read_to_string(file).map_err(read_error)?;
    let dir = file.canonicalize().map_err(read_error)?.parent().unwrap_or(Path::new("/")).to_owned();
    let mut explained = Some(Vec::new());
    let suite = parse_with(file, &text, &dir, &mut explained)?;
    Ok(suite.cases.into_iter().zip(explained.unwrap_or_default()).collect())
}

/// What happens to GPUs of `cluster`: `text` is what a case may have under `gpu`, and `name` is what messages call it.
///
/// # Errors
/// All mistakes.
pub fn gpu_events(name: &str, text: &str, cluster: &ClusterPlan) -> Result<Vec<Fault>, SuiteError> {
    let reader = Reader::new(Path::new(name), text);
    let mut faults = Vec::new();
    if let Some(node) = reader.parse() {
        let entry = Entry { key: "gpu".to_owned(), key_span: node.span.clone(), node };
        gpu::read(&reader, &entry, Some(cluster), &mut faults);
    }
    let mistakes = reader.finish();
    if mistakes.is_empty() {
        return Ok(faults.into_iter().map(|fault| fault.fault).collect());
    }
    Err(SuiteError::Mistakes(Mistakes { files: vec![(text.to_owned(), mistakes)] }))
}

fn parse_with(file: &Path, text: &str, dir: &Path, explained: &mut Option<Vec<String>>) -> Result<Suite, SuiteError> {
    let reader = Reader::new(file, text);
    let mut foreign = Vec::new();
    let suite = reader.parse().and_then(|node| read(&reader, &node, dir, &mut foreign, explained));
    let mistakes = reader.finish();
    if let (Some(suite), true, true) = (suite, mistakes.is_empty(), foreign.is_empty()) {
        return Ok(suite);
    }
    let mut files = vec![(text.to_owned(), mistakes)];
    files.retain(|(_, mistakes)| !mistakes.is_empty());
    files.extend(foreign);
    Err(SuiteError::Mistakes(Mistakes { files }))
}

fn read(
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
        clusters: BTreeMap::new(),
        definitions: BTreeMap::new(),
        used: BTreeSet::new(),
        defaults: root.get("defaults"),
        fixtures: fixture::read(reader, root.get("fixtures")),
        timeout: root.get("timeout").and_then(|node| reader.duration("timeout", node)),
        groups: root.get("groups").map(|node| read_groups(reader, node)).unwrap_or_default(),
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

/// Whether files, XML and command lines all take this as a name.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.'))
}

/// A name.
fn slug(reader: &Reader<'_>, what: &str, node: &Node) -> Option<String> {
    let text = reader.string(what, node)?;
    if is_name(&text) {
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
            context["cluster"] = crate::case::cluster::describe(cluster);
        }
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::python::PythonNeed;
    use proptest::prelude::*;

    const WHOLE: &str = "ftest: 1
suite: whole
clusters: {two: {nodes: 2, gpus_per_node: 2, profile: a100}}
defaults: {cluster: two, timeout: {slow: 1s, kill: 2s}, env: {A: 1, B: ~}, tags: [x], allow_gaps: [cudart.*]}
cases:
- id: one
  title: a title
  matrix: {axes: {n: [1, 2], t: [a, b]}, include: [{n: 3, t: c}], exclude: [{n: 2, t: b}], max: 9}
  requires: [{command: sh}, {torch: 2.15.0}, {env: HOME}, {file: x}, {platform: linux}, {python_module: numpy}]
  launch: {argv: [x, '${{ matrix.n + cluster.world_size }}'], ranks: 4}
  kill: [{target: {rank: 1}, signal: SIGTERM, when: {output: ready, rank: 0}}]
  expect:
    exit: {rank: {1: {signal: SIGTERM}}, others: nonzero, launcher: any, all: 0}
    stdout: [{rank: all, contains: [a, b]}, {rank: 3, matches: '^(?<loss>x)$', capture: [loss], because: y}]
    stderr: {absent: z}
    report:
    - {path: $.a, eq: 1, ne: 2, lt: 1GiB, len: 3}
    - {path: '$.b[*]', all: {near: 1.5, rel: 1e-6}, any: {in: [1, 2]}, of: device}
    - {path: $.c, absent: true}
    - {path: '$.d[*]', none: {eq: 1, unordered: false}, count: {where: {gt: 1}, min: 1, max: 2}, unique: true, sorted: ascending}
    - {path: '$.d[*]', count: {eq: 1}, eq: [1], unordered: true}
    - {path: $.e, between: [1, 1KiB], near: nan, dtype: bfloat16, nan: equal, type: integer}
    - {path: $.e, le: '${{ captures.loss }}', ge: 1, contains: a, matches: a}
    - {path: '$.e[*]', all: {ne: 1, lt: 1, le: 1, gt: 1, ge: 1, between: [1, 2], abs: 1, near: 1, dtype: float32, nan: equal}}
    - {path: '$.e[*]', any: {contains: 1, matches: x, type: text, len: 1, unique: true, sorted: descending, in: []}}
    perf: [{metric: $.t, of: device, name: n, unit: u, reference: 3, lower: -10%, upper: ~, warn_lower: -5%, warn_upper: 9, because: b}]
    invariants: [report.x == matrix.n, {id: i, that: 'ranks | length == 4', because: b}]
    snapshot: [{name: n, of: report, select: [$.a], redact: {$.b: '[b]'}, round: {$.c: 2}, sort: {$.d: [op]}}]
    gaps: [cublas.x]
";

    /// What [`WHOLE`] does not use.
    const REST: &str = "ftest: 1
suite: rest
description: more
clusters: {two: {nodes: 2, gpus_per_node: 2, profile: a100}, file: {file: none.yaml}, more: {extends: two, nodes: 1}}
timeout: 9m
groups: {g: {max: 1}}
fixtures:
  data: {scope: suite, setup: {argv: [x, '${{ dir.scratch }}']}, teardown: {shell: y}, outputs: [A]}
  more: {uses: [data], setup: {shell: '${{ fixtures.data.A }}'}, env: {B: ~}, python: [numpy], timeout: {kill: 1s, grace: 1s}}
defaults: {cluster: two, coordinator: true, transport: tcp, network: {seed: 1}, resources: {cpus: 2, memory: 1GiB, groups: [g]}, python: [numpy], uses: [more], env_inherit: [PATH]}
cases:
- id: one
  python: {requirements: none.txt, project: none, extras: [x], packages: [numpy], compile: true}
  requires: [{python_module: {name: x, version: '>=1'}}]
  timeout: {slow: 1s, kill: 9s, grace: 1s, idle: 2s, survivors: 1s}
  sanitize: [races]
  deterministic: {ignore: ['[0-9]+ ms'], except: [stderr], except_files: ['*.log']}
  schedule: {seed: 7, jitter: 250us}
  retries: {count: 1, only_if: [infra, {stderr: x}], delay: 1s, flaky: fail}
  xfail: {reason: r, issue: 3, strict: false, until: 2999-01-01, if: true}
  launch: {torchrun: {nproc_per_node: 1, nnodes: 2, script: x, args: [a], max_restarts: 1}, warm: true}
  kill: [{target: {node: 0}, when: {output: ready}}]
  network:
    delay: 1ms
    loss: 0.5
    gbps: 10
    links: [{between: [node1, coordinator], delay: 2ms, loss: 1, gbps: 1}]
    cuts: [{between: [node0, node1], when: {output: x, rank: 1}, for: 1s}, {node: node0, when: {output: y}}]
  faults:
  - {at: {rank: 1, collective: all_reduce, seq: 1, communicator: 1}, do: {delay: 1s}}
  - {at: {after: 1s}, do: {slow_link: {between: [node0, node1], delay: 1ms, gbps: 1}}}
  - {do: {cut_link: {between: [node0, node1]}}}
  gpu:
    node0/0:
    - {at: {collective: send, seq: 1, communicator: 1}, lost: false, xid: 48, throttle: thermal, pcie_gen: 1, pcie_width: 8}
    - {ecc: {corrected: 1, uncorrected: 1, earlier_corrected: 1, earlier_uncorrected: 1}}
    node1/0: {at: {after: 1s}, remapped_rows: {corrected: 1, uncorrected: 1, pending: true, failed: true}}
    node1/1: {retired_pages: {corrected: 1, uncorrected: 1, pending: true}}
  expect:
    within: 1s
    leaks: none
    hang: [x]
    exit: {code: 1}
    report: [{path: $.a, gt: 1, abs: 1, near: 2, exists: true}]
    findings: [count_mismatch, {kind: count_mismatch, ranks: [0], contains: x, lines: {0: 'a.py:1'}, optional: true}]
- {id: two, launch: {srun: {nodes: 1, ntasks: 1, ntasks_per_node: 1, options: [-p, x], argv: [x]}}}
- {id: three, launch: {srun: {torchrun: {nproc_per_node: 1, script: x, args: [a], max_restarts: 1}}}}
";

    #[test]
    fn every_key_of_the_tables_is_read_and_no_other() {
        let mut asked = BTreeSet::new();
        for text in [WHOLE, REST] {
            let reader = Reader::new(Path::new("w.yaml"), text);
            let node = reader.parse().unwrap();
            read(&reader, &node, Path::new("/"), &mut Vec::new(), &mut None);
            asked.append(&mut reader.asked.take());
        }
        // `model` reads clusters; sections with one key of several are read by the key that is there, and refuse any other.
        let elsewhere = ["cluster", "cluster_names", "node", "gpu", "fabric", "links", "requires", "do", "only_if"];
        asked.retain(|(section, _)| !elsewhere.contains(section));
        let tables: BTreeSet<(&str, &str)> = language::all()
            .into_iter()
            .filter(|section| !elsewhere.contains(&section.name))
            .flat_map(|section| section.keys().map(|key| (section.name, key.name)))
            .collect();
        let unread: Vec<_> = tables.difference(&asked).collect();
        let unlisted: Vec<_> = asked.difference(&tables).collect();
        assert!(unread.is_empty() && unlisted.is_empty(), "not read: {unread:?}; in no table: {unlisted:?}");
    }

    fn parsed(text: &str) -> Result<Suite, SuiteError> {
        parse(Path::new("w.yaml"), text, Path::new("/"))
    }

    #[test]
    fn every_key_of_the_language_is_read() {
        let suite = parsed(WHOLE).unwrap_or_else(|error| panic!("{error}"));
        let ids: Vec<&str> = suite.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids, ["one[n=1,t=a]", "one[n=1,t=b]", "one[n=2,t=a]", "one[n=3,t=c]"]);
        let case = &suite.cases[3];
        assert_eq!(case.launch, crate::case::Launch::Argv { argv: vec!["x".into(), "7".into()], ranks: Some(4) });
        assert_eq!(case.python, Some(PythonNeed::Managed(vec!["numpy".into(), "torch==2.15.0".into()])));
        assert_eq!((case.requires.len(), case.place.line, case.coordinator), (5, 6, true));
        assert_eq!((case.env["A"].as_str(), case.env_unset.as_slice()), ("1", &["B".to_owned()][..]));
        let expect = &case.expect;
        assert_eq!((expect.output.len(), expect.report.len(), expect.invariants.len()), (4, 9, 2));
        assert_eq!(expect.snapshots[0].path, Path::new("snapshots/whole/one@n-3,t-c__n.snap"));
        assert_eq!((expect.report[0].place.line, expect.report[0].operators.len()), (17, 4));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn a_damaged_suite_is_read_or_refused_with_a_place(start in 0..WHOLE.len(), length in 0..40_usize, with in "[ -~\n]{0,6}") {
            let end = (start + length).min(WHOLE.len());
            let text = format!("{}{with}{}", &WHOLE[..start], &WHOLE[end..]);
            if let Err(SuiteError::Mistakes(mistakes)) = parsed(&text) {
                prop_assert!(mistakes.count() > 0);
                prop_assert!(mistakes.to_string().contains("w.yaml:"), "{}", mistakes);
            }
        }
    }
}
