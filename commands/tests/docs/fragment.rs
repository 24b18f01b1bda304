//! The suites and cluster files that pages show, whole or in part: a part is read in the suite that it would be in.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use runner::suite::{self, language};
use serde_json::Value;

/// What parts leave out: the beginning of the suite, something to start, an axis of a matrix.
const HEAD: &str = "ftest: 1\nsuite: page\ndefaults: { cluster: { nodes: 3, gpus_per_node: 4, profile: h100 } }\n";
const LAUNCH: &str = "launch: { argv: [\"true\"], ranks: 4 }";
const MATRIX: &str = "matrix: { axes: { world: [2, 8] } }";

/// The keys of a part of the language.
struct Keys {
    suite: BTreeSet<String>,
    case: BTreeSet<String>,
    expect: BTreeSet<String>,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let schema = language::json_schema();
    let of = |section: &Value| section["properties"].as_object().unwrap().keys().cloned().collect();
    Keys { suite: of(&schema), case: of(&schema["$defs"]["case"]), expect: of(&schema["$defs"]["expect"]) }
});

/// What is wrong with a block of YAML. `directory` takes files: what the block names relatively is there.
pub(crate) fn mistakes(text: &str, directory: &Path) -> Vec<String> {
    let parts = alternatives(&unindented(text));
    parts.iter().filter_map(|part| mistake(part, directory)).collect()
}

fn mistake(part: &str, directory: &Path) -> Option<String> {
    let keys = keys(part);
    let all_in = |known: &BTreeSet<String>| keys.iter().all(|key| known.contains(*key));
    let suite = if keys.is_empty() && part.lines().any(|line| line.starts_with("- ")) {
        format!("{HEAD}cases:\n{}", indented(part, 2))
    } else if keys.contains("ftest") {
        part.to_owned()
    } else if keys.contains("nodes") {
        fs::write(directory.join("cluster.yaml"), part).unwrap();
        whole("  - id: page\n    cluster: page\n")
            .replace("cases:", "clusters: { page: { file: cluster.yaml } }\ncases:")
    } else if all_in(&KEYS.case) {
        whole(&format!("  - id: page\n{}", indented(part, 4)))
    } else if all_in(&KEYS.expect) {
        whole(&format!("  - id: page\n    expect:\n{}", indented(part, 6)))
    } else if all_in(&KEYS.suite) && keys.contains("cases") {
        format!("{HEAD}{part}")
    } else if all_in(&KEYS.suite) {
        format!("{HEAD}{part}\ncases:\n  - id: page\n    {LAUNCH}\n")
    } else {
        return Some(format!("which part of a suite has the keys {keys:?}?"));
    };
    let file = directory.join("page.yaml");
    fs::write(&file, suite).unwrap();
    suite::load(&file).err().map(|error| error.to_string())
}

/// A suite around the lines of a case, with what they leave out.
fn whole(case: &str) -> String {
    let mut case = case.to_owned();
    for line in [LAUNCH, MATRIX] {
        let key = line.split(':').next().unwrap_or_default();
        if !case.lines().any(|line| line.starts_with(&format!("    {key}:"))) {
            case.push_str(&format!("    {line}\n"));
        }
    }
    format!("{HEAD}cases:\n{case}")
}

/// The keys of the outermost mapping.
fn keys(part: &str) -> BTreeSet<&str> {
    let key = |line: &'_ str| line.starts_with(|letter: char| letter.is_ascii_lowercase());
    part.lines().filter(|line| key(line)).filter_map(|line| line.split(':').next()).collect()
}

/// A block that gives a key more than once shows several ways: each is read on its own.
fn alternatives(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        let part = parts.last().map(String::as_str).unwrap_or_default();
        if keys(line).iter().any(|key| keys(part).contains(key)) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}

/// Without the spaces that all lines begin with.
fn unindented(text: &str) -> String {
    let filled = || text.lines().filter(|line| !line.trim().is_empty());
    let least = filled().map(|line| line.len() - line.trim_start().len()).min().unwrap_or_default();
    text.lines().map(|line| format!("{}\n", line.get(least..).unwrap_or_default())).collect()
}

fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

#[test]
fn a_part_with_a_mistake_is_found_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    for (right, wrong, said) in [
        ("ftest: 1\nsuite: a\ncases: [{ id: a, launch: { argv: [x] } }]", "ftest: 1\nsuite: a\ncases: []", "is empty"),
        ("nodes: 2\ngpus_per_node: 2\nprofile: h100", "nodes: 2\ngpus_per_node: 2\nprofile: h1000", "h1000"),
        ("retries: 2\nretries: 3", "retries: 2\nretries: many", "retries"),
        ("    timeout: 3s", "    timeout: 3 parsecs", "timeout"),
        ("timeout: 3s\nexpect: { exit: 0 }", "timeout: 3s\nexpect: { exit: x }", "exit"),
        ("stdout: x", "stdout: { contained: x }", "contained"),
        ("- id: a\n  launch: { argv: [x] }", "- id: a\n  lunch: { argv: [x] }", "lunch"),
        ("groups: { a: { max: 1 } }", "groups: { a: { maximum: 1 } }", "maximum"),
        ("env: { A: b }", "environment: { A: b }", "which part of a suite"),
    ] {
        assert_eq!(mistakes(right, directory.path()), Vec::<String>::new(), "{right}");
        let found = mistakes(wrong, directory.path());
        assert!(found.len() == 1 && found[0].contains(said), "{wrong}: {found:?}");
    }
}
