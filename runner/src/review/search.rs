//! Finds pending snapshots, beside the accepted ones or in an artifact, and snapshot files that no case uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::pending::{Pending, Refused};
use crate::check::snapshot_file;
use crate::check::snapshot_file::SnapshotFile;
use crate::source::SourceLocation;
use crate::suite::Suite;
use crate::verdict::judge;

/// The file name suffix of a pending snapshot.
const PENDING: &str = ".snap.new";
/// How deep an artifact is searched.
const DEPTH: usize = 12;

/// Every snapshot that the cases of `suites` have, by name, whether or not there is a file.
fn expected(suites: &[Suite]) -> BTreeMap<String, (SnapshotFile, SourceLocation)> {
    let cases = suites.iter().flat_map(|suite| &suite.cases);
    let checks = cases.flat_map(|case| case.expect.snapshots.iter().map(move |check| (case, check)));
    checks
        .map(|(case, check)| {
            let file = check.file(&judge::owner(case));
            (file.expression.clone(), (file, check.place.clone()))
        })
        .collect()
}

/// The snapshots of `suites` pending beside the accepted ones, by name, and those that cannot be read.
pub fn beside(suites: &[Suite]) -> (Vec<Pending>, Vec<Refused>) {
    let (mut pending, mut refused) = (Vec::new(), Vec::new());
    for (file, place) in expected(suites).into_values() {
        let found = file.pending();
        if found.is_file() {
            match Pending::read(file, place, found.clone()) {
                Ok(one) => pending.push(one),
                Err(error) => refused.push(Refused { found, why: error.to_string() }),
            }
        }
    }
    (pending, refused)
}

/// The pending snapshots anywhere below `directory`, as in a downloaded artifact: each belongs where the case of
/// `suites` with its name expects it. Also returns those that cannot be accepted.
///
/// # Errors
/// The directory cannot be read.
pub fn below(directory: &Path, suites: &[Suite]) -> io::Result<(Vec<Pending>, Vec<Refused>)> {
    let expected = expected(suites);
    let mut copies: BTreeMap<String, Vec<Pending>> = BTreeMap::new();
    let (mut pending, mut refused) = (Vec::new(), Vec::new());
    for found in files(directory, DEPTH)?.into_iter().filter(|path| is_pending(path)) {
        let one = header(&found).and_then(|name| match expected.get(&name) {
            Some((file, place)) => {
                Pending::read(file.clone(), place.clone(), found.clone()).map_err(|error| error.to_string())
            }
            None => Err(format!("no case of these suites has the snapshot `{name}`")),
        });
        match one {
            Ok(one) => copies.entry(one.name().to_owned()).or_default().push(one),
            Err(why) => refused.push(Refused { found, why }),
        }
    }
    for (name, copies) in copies {
        let (accepted, waiting): (Vec<Pending>, Vec<Pending>) = copies.into_iter().partition(Pending::is_accepted);
        let mut waiting = waiting.into_iter();
        let Some(first) = waiting.next() else { continue };
        let differs = format!("{} is a different text for `{name}`", first.found.display());
        let others = waiting.filter(|other| other.text != first.text);
        refused.extend(others.map(|other| Refused { found: other.found, why: differs.clone() }));
        let why = format!("it is as accepted, but {differs}");
        refused.extend(accepted.into_iter().map(|one| Refused { found: one.found, why: why.clone() }));
        pending.push(first);
    }
    refused.sort_by(|one, other| one.found.cmp(&other.found));
    Ok((pending, refused))
}

/// Snapshot files beside `suites` that no case uses, sorted. Includes pending ones.
pub fn unreferenced(suites: &[Suite]) -> Vec<PathBuf> {
    let known: BTreeSet<PathBuf> =
        expected(suites).into_values().flat_map(|(file, _)| [file.pending(), file.path]).collect();
    let directories: BTreeSet<PathBuf> =
        suites.iter().map(|suite| snapshot_file::directory(&suite.file, &suite.name)).collect();
    // A missing directory has no files.
    let found = directories.iter().flat_map(|directory| files(directory, 1).unwrap_or_default());
    let snapshots =
        found.filter(|path| is_pending(path) || path.extension().is_some_and(|extension| extension == "snap"));
    let mut left: Vec<PathBuf> = snapshots.filter(|path| !known.contains(path)).collect();
    left.sort();
    left
}

fn is_pending(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(PENDING))
}

/// The name in the header of a snapshot file.
fn header(path: &Path) -> Result<String, String> {
    #[derive(serde::Deserialize)]
    struct Header {
        expression: String,
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let header = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    let (header, _) = header.ok_or("not a snapshot: it has no header")?;
    let header: Header = serde_yaml::from_str(header).map_err(|error| format!("not a snapshot: {error}"))?;
    Ok(header.expression)
}

/// The files below `directory`, sorted; links are not followed.
fn files(directory: &Path, depth: usize) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 1 {
            found.extend(files(&entry.path(), depth - 1)?);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    const SUITE: &str = "ftest: 1\nsuite: s\nclusters: {c: {nodes: 1, gpus_per_node: 1, profile: a100}}\ncases:\n- id: a\n  cluster: c\n  launch: {argv: [x]}\n  expect: {snapshot: {name: report}}\n- id: b\n  cluster: c\n  launch: {argv: [x]}\n  expect: {snapshot: [{name: report}, {name: links}]}\n";

    fn suite(root: &Path) -> Suite {
        let file = root.join("s.yaml");
        fs::write(&file, SUITE).unwrap();
        suite::load(&file).unwrap()
    }

    fn leave(path: &Path, name: &str, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("---\nsource: \"s.yaml\"\nexpression: \"{name}\"\n---\n{text}")).unwrap();
    }

    fn names(pending: &[Pending]) -> Vec<&str> {
        pending.iter().map(Pending::name).collect()
    }

    #[test]
    fn those_beside_the_accepted_ones_are_found_accepted_and_rejected() {
        let root = tempfile::tempdir().unwrap();
        let suites = [suite(root.path())];
        let directory = root.path().join("snapshots/s");
        leave(&directory.join("a.snap"), "s/a report", "1\n");
        leave(&directory.join("a.snap.new"), "s/a report", "2\n");
        leave(&directory.join("b__links.snap.new"), "s/b links", "3\n");
        fs::write(directory.join("b.snap.new"), "no header").unwrap();
        let (pending, refused) = beside(&suites);
        assert_eq!(names(&pending), ["s/a report", "s/b links"]);
        assert_eq!(pending[0].accepted.as_deref(), Some("1\n"));
        assert_eq!(refused.len(), 1);
        pending[0].accept().unwrap();
        pending[1].reject().unwrap();
        assert_eq!(snapshot_file::read(&directory.join("a.snap")).unwrap(), "2\n");
        assert!(!directory.join("a.snap.new").exists() && !directory.join("b__links.snap.new").exists());
        assert!(!directory.join("b__links.snap").exists());
    }

    #[test]
    fn an_artifact_is_taken_by_name_and_only_what_a_case_has() {
        let root = tempfile::tempdir().unwrap();
        let suites = [suite(root.path())];
        let artifact = root.path().join("artifact");
        leave(&artifact.join("shard-1/deep/a.snap.new"), "s/a report", "2\n");
        leave(&artifact.join("shard-2/a.snap.new"), "s/a report", "2\n");
        leave(&artifact.join("evil.snap.new"), "s/../../etc report", "x");
        leave(&artifact.join("one/b.snap.new"), "s/b report", "4\n");
        leave(&artifact.join("two/b.snap.new"), "s/b report", "5\n");
        let (pending, refused) = below(&artifact, &suites).unwrap();
        assert_eq!(names(&pending), ["s/a report", "s/b report"]);
        let why: Vec<&str> = refused.iter().map(|refused| refused.why.as_str()).collect();
        assert!(why[0].starts_with("no case of these suites has"), "{why:?}");
        assert!(why[1].ends_with("is a different text for `s/b report`"), "{why:?}");
        pending[0].accept().unwrap();
        assert_eq!(snapshot_file::read(&root.path().join("snapshots/s/a.snap")).unwrap(), "2\n");
        assert!(pending[0].found.exists(), "the artifact is not changed");
        let (left, refused_now) = below(&artifact, &suites).unwrap();
        assert_eq!(names(&left), ["s/b report"], "what is accepted does not wait");
        assert_eq!(refused_now, refused, "a second copy of it is not an error");
    }

    #[test]
    fn a_copy_as_accepted_beside_another_text_is_found_wherever_it_is() {
        for (same, other) in [("one", "two"), ("two", "one")] {
            let root = tempfile::tempdir().unwrap();
            let suites = [suite(root.path())];
            leave(&root.path().join("snapshots/s/a.snap"), "s/a report", "1\n");
            let artifact = root.path().join("artifact");
            let [same, other] = [same, other].map(|shard| artifact.join(shard).join("a.snap.new"));
            leave(&same, "s/a report", "1\n");
            leave(&other, "s/a report", "2\n");
            let (pending, refused) = below(&artifact, &suites).unwrap();
            assert_eq!(pending.iter().map(|one| &one.found).collect::<Vec<_>>(), [&other]);
            let why = format!("it is as accepted, but {} is a different text for `s/a report`", other.display());
            assert_eq!(refused, [Refused { found: same, why }]);
        }
    }

    #[test]
    fn files_that_no_case_has_are_found() {
        let root = tempfile::tempdir().unwrap();
        let suites = [suite(root.path())];
        assert!(unreferenced(&suites).is_empty());
        let directory = root.path().join("snapshots/s");
        for name in ["a.snap", "b__links.snap.new", "gone.snap", "old.snap.new", "notes.txt"] {
            leave(&directory.join(name), "s/x report", "1\n");
        }
        assert_eq!(unreferenced(&suites), [directory.join("gone.snap"), directory.join("old.snap.new")]);
    }
}
