//! `ftest review`, `accept` and `reject` on real files, as a person or a CI job calls them.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::program;

const SUITE: &str = "ftest: 1\nsuite: s\nclusters: {c: {nodes: 1, gpus_per_node: 1, profile: a100}}\ncases:\n- id: a\n  cluster: c\n  launch: {argv: [x]}\n  expect: {snapshot: {name: report}}\n- id: b\n  cluster: c\n  launch: {argv: [x]}\n  expect: {snapshot: {name: report}}\n";

fn ftest(root: &Path, arguments: &[&str]) -> Output {
    program::ftest().args(arguments).current_dir(root).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
}

fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn leave(path: &Path, name: &str, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("---\nsource: \"suites/s.yaml\"\nexpression: \"{name}\"\n---\n{text}")).unwrap();
}

fn project() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("suites")).unwrap();
    fs::write(root.path().join("suites/s.yaml"), SUITE).unwrap();
    root
}

#[test]
fn without_a_terminal_review_shows_what_waits_and_accept_takes_it() {
    let root = project();
    let snapshots = root.path().join("suites/snapshots/s");
    leave(&snapshots.join("a.snap"), "s/a report", "{\n  \"calls\": 3\n}\n");
    leave(&snapshots.join("a.snap.new"), "s/a report", "{\n  \"calls\": 4\n}\n");
    let (code, out, error) = outcome(&ftest(root.path(), &["review"]));
    assert_eq!(code, 1, "{out}{error}");
    assert_eq!(
        out,
        "\n1 of 1: s/a report\nsuites/snapshots/s/a.snap, wanted at suites/s.yaml:8:22\n1   {\n2 -   \"calls\": 3\n2 +   \"calls\": 4\n3   }\n"
    );
    assert_eq!(
        error,
        "ftest: 0 accepted, 0 rejected, 1 left; `ftest accept` accepts all of them, `ftest reject` removes them\n"
    );
    let (code, out, error) = outcome(&ftest(root.path(), &["accept", "-E", "case(b)"]));
    assert_eq!((code, &*out, &*error), (0, "", "ftest: no snapshot is pending\n"));
    let (code, out, error) = outcome(&ftest(root.path(), &["accept", "s"]));
    assert_eq!((code, &*out, &*error), (0, "accepted s/a report: suites/snapshots/s/a.snap\n", ""));
    assert!(fs::read_to_string(snapshots.join("a.snap")).unwrap().contains("\"calls\": 4"));
    assert_eq!(outcome(&ftest(root.path(), &["review"])).0, 0);
}

#[test]
fn without_a_suite_the_last_run_says_which() {
    let root = project();
    // Not in `suites`, and run from elsewhere.
    let (suite, deep) = (root.path().join("mine.yaml"), root.path().join("deep"));
    let text =
        SUITE.replace("suite: s", "suite: mine").replace("cases:", "cases:\n- {id: runs, launch: {argv: ['true']}}");
    fs::write(&suite, text).unwrap();
    leave(&root.path().join("snapshots/mine/a.snap.new"), "mine/a report", "1\n");
    fs::create_dir(&deep).unwrap();
    let runs = ["--runs-dir", root.path().join("runs").to_str().unwrap()].map(str::to_owned);
    let with =
        |words: &[&'static str]| words.iter().map(|word| (*word).to_owned()).chain(runs.clone()).collect::<Vec<_>>();
    let call = |at: &Path, words: &[&'static str]| {
        outcome(&ftest(at, &with(words).iter().map(String::as_str).collect::<Vec<_>>()))
    };
    call(root.path(), &["run", "mine.yaml", "-E", "case(runs)"]);
    let (code, out, error) = call(root.path(), &["review"]);
    assert!((code, out.contains("mine/a")) == (1, true), "{out}{error}");
    let (code, out, error) = call(&deep, &["accept"]);
    assert!((code, out.starts_with("accepted mine/a")) == (0, true), "{out}{error}");
    fs::remove_file(&suite).unwrap();
    let (code, _, error) = call(root.path(), &["review"]);
    assert_eq!(code, 0);
    assert!(
        error.starts_with("ftest: the suites of the last run, ") && error.contains("are no longer there"),
        "{error}"
    );
}

#[test]
fn an_artifact_of_a_ci_run_is_accepted_file_by_file() {
    let root = project();
    let artifact = root.path().join("artifact");
    leave(&artifact.join("shard-1/snapshots/a.snap.new"), "s/a report", "1\n");
    leave(&artifact.join("shard-2/snapshots/gone.snap.new"), "s/gone report", "1\n");
    let (code, out, error) = outcome(&ftest(root.path(), &["accept", "--from", "artifact"]));
    assert_eq!((code, &*out), (1, "accepted s/a report: suites/snapshots/s/a.snap\n"));
    assert_eq!(
        error,
        "ftest: artifact/shard-2/snapshots/gone.snap.new is left alone: no case of these suites has the snapshot `s/gone report`\n"
    );
    let (code, _, error) = outcome(&ftest(root.path(), &["accept", "--from", "nowhere"]));
    assert_eq!(code, 2);
    assert!(error.starts_with("ftest: nowhere: No such file or directory"), "{error}");
}

#[test]
fn unreferenced_snapshots_are_listed_and_removed() {
    let root = project();
    let snapshots = root.path().join("suites/snapshots/s");
    leave(&snapshots.join("old.snap"), "s/old report", "1\n");
    leave(&snapshots.join("a.snap"), "s/a report", "1\n");
    leave(&snapshots.join("b.snap.new"), "s/b report", "1\n");
    let (code, _, error) = outcome(&ftest(root.path(), &["check", "s"]));
    assert_eq!(code, 0);
    let warning =
        "warning: no case has the snapshot suites/snapshots/s/old.snap; `ftest reject --unreferenced` removes it\n";
    assert_eq!(error, format!("{warning}ftest: 1 warning\n"));
    let (code, out, _) = outcome(&ftest(root.path(), &["reject", "--unreferenced"]));
    assert_eq!((code, &*out), (0, "removed suites/snapshots/s/old.snap\n"));
    let (code, out, _) = outcome(&ftest(root.path(), &["reject"]));
    assert_eq!((code, &*out), (0, "rejected s/b report: suites/snapshots/s/b.snap\n"));
    assert!(snapshots.join("a.snap").exists() && !snapshots.join("b.snap.new").exists());
}
