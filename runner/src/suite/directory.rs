//! `cwd`: the directory in which processes of a case, or the steps of a fixture, run. Without it, that of the suite.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::node::{Entry, Node, Value};

use crate::expression::deferred;
use crate::suite::reader::Mapping;
use crate::suite::{Shared, template};

/// The directory of a case: its own, or else that of `defaults`. A wrong one in either is a mistake.
pub(super) fn of_case(shared: &Shared<'_>, layers: &[&Mapping<'_, '_>]) -> PathBuf {
    let nodes = layers.iter().filter_map(|layer| layer.get("cwd"));
    nodes.filter_map(|node| read(shared, node)).last().unwrap_or_else(|| shared.dir.clone())
}

/// The directory of a fixture whose own `cwd` is this, or else that of `defaults`.
pub(super) fn of_fixture(shared: &Shared<'_>, own: Option<&Node>, context: &serde_json::Value) -> PathBuf {
    let found = match own {
        Some(node) => read(shared, node),
        None => shared
            .defaults
            .and_then(entry)
            .and_then(|entry| read(shared, &template::render(shared.reader, &entry.node, context))),
    };
    found.unwrap_or_else(|| shared.dir.clone())
}

/// The root of the Git repository that contains `directory`.
pub(super) fn repository(directory: &Path) -> Option<PathBuf> {
    // A file in worktrees and submodules.
    directory.ancestors().find(|ancestor| ancestor.join(".git").exists()).map(Path::to_owned)
}

fn entry(defaults: &Node) -> Option<&Entry> {
    match &defaults.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == "cwd"),
        _ => None,
    }
}

fn read(shared: &Shared<'_>, node: &Node) -> Option<PathBuf> {
    let reader = shared.reader;
    let text = reader.string("cwd", node)?;
    if text == template::POISON || !deferred::waits_for(&text).is_empty() {
        // Reported where the expression is read.
        return None;
    }
    let path = shared.dir.join(&text);
    let message = match path.canonicalize() {
        Ok(found) if found.is_dir() && !text.is_empty() => return Some(found),
        Ok(_) if text.is_empty() => "`cwd` is empty".to_owned(),
        Ok(_) => format!("{} is not a directory", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => format!("there is no directory {}", path.display()),
        Err(error) => format!("{}: {error}", path.display()),
    };
    let help = "the path is taken from the suite's directory; `${{ repository }}` is the root of its repository";
    reader.mistake(&node.span, message, help);
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::suite;

    const SUITE: &str = "ftest: 1
suite: s
defaults: { cwd: .. }
fixtures:
  usual: { setup: { argv: [x] } }
  own: { scope: suite, cwd: data, setup: { argv: [x] } }
cases:
- { id: usual, uses: [usual, own], launch: { torchrun: { nproc_per_node: 1, script: train.py } } }
- { id: own, cwd: \"${{ repository }}/data\", uses: [usual], launch: { argv: [./x] } }
";

    #[test]
    fn a_case_comes_before_defaults_and_fixtures_follow_defaults() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for place in [".git", "data", "suites/data"] {
            fs::create_dir_all(root.join(place)).unwrap();
        }
        fs::write(root.join("train.py"), "").unwrap();
        let file = root.join("suites/s.yaml");
        fs::write(&file, SUITE).unwrap();
        let suite = suite::load(&file).unwrap_or_else(|error| panic!("{error}"));
        let cases: Vec<&Path> = suite.cases.iter().map(|case| case.cwd.as_path()).collect();
        assert_eq!(cases, [&root, &root.join("data")]);
        assert!(suite.cases.iter().all(|case| case.dir == root.join("suites")));
        let fixtures: Vec<&Path> =
            suite.cases.iter().flat_map(|case| &case.uses).map(|fixture| fixture.dir.as_path()).collect();
        assert_eq!(fixtures, [&root, &root.join("suites/data"), &root]);
    }

    #[test]
    fn what_is_no_directory_is_refused_where_it_is_written() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        for (cwd, at, message) in [
            ("nowhere", "3:18", "there is no directory"),
            ("file", "3:18", "is not a directory"),
            ("''", "3:18", "`cwd` is empty"),
            ("'${{ repository }}'", "3:18", "is in no Git repository"),
            ("'${{ fixtures.f.A }}'", "3:18", "known only when the case runs"),
        ] {
            let text = format!(
                "ftest: 1\nsuite: s\ndefaults: {{ cwd: {cwd} }}\nfixtures: {{ f: {{ setup: {{ argv: [x] }}, outputs: [A] }} }}\n\
                 cases: [{{ id: a, uses: [f], launch: {{ argv: [x] }} }}]\n"
            );
            let error = suite::parse(Path::new("s.yaml"), &text, root.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("s.yaml:{at}")) && error.contains(message), "{cwd}: {error}");
            assert_eq!(error.matches("error: ").count(), 1, "{cwd}: {error}");
        }
    }
}
