//! What is kept of a run, and what comes of it later: the log, files, `ftest runs`, `replay`, `--failed`, `merge`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SUITE: &str = "ftest: 1
suite: s
cases:
- {id: good, launch: {argv: [echo, fine]}}
- {id: bad, matrix: {axes: {w: [2]}}, launch: {argv: [sh, -c, 'echo said $MY_TOKEN; touch $FTEST_SCRATCH/left; exit 3']}}
- {id: never, launch: {argv: ['true']}}
";

/// A directory with a suite, its own temporary directory and no runs.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place::with(SUITE)
    }

    fn with(suite: &str) -> Place {
        let place = Place(tempfile::tempdir_in("/tmp").unwrap());
        fs::write(place.path().join("suite.yaml"), suite).unwrap();
        fs::create_dir(place.path().join("tmp")).unwrap();
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
        command.args(words.split_whitespace()).current_dir(self.path()).stdin(Stdio::null());
        command.env_remove("CI").env_remove("FTEST_RUNS_DIR").env("NO_COLOR", "1");
        command.env("TMPDIR", self.path().join("tmp")).env("MY_TOKEN", "hunter2hunter2");
        command
    }

    fn ftest(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// The directories of the kept runs, oldest first.
    fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path().join(".ftest/runs")).into_iter().flatten();
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        runs.sort();
        runs
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every file below `directory`.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_run_and_its_files_are_kept_and_nothing_is_left_elsewhere() {
    let place = Place::new();
    let output = place.ftest("suite.yaml --no-fail-fast");
    assert_eq!(output.status.code(), Some(1));
    let [run] = place.runs().try_into().unwrap();
    let names: Vec<String> =
        files(&run).iter().map(|path| path.strip_prefix(&run).unwrap().display().to_string()).collect();
    for name in ["events.jsonl", "s/bad.w=2/launcher-0.stdout", "s/bad.w=2/shared/left"] {
        assert!(names.iter().any(|known| known == name), "{name} is not among {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("good")), "{names:?}");
    assert_eq!(fs::read_dir(place.path().join("tmp")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(place.path().join(".ftest/.gitignore")).unwrap(), "*\n");
    let id = run.file_name().unwrap().to_str().unwrap();
    let stdout = text(&output.stdout);
    assert!(stdout.contains(&format!("kept: .ftest/runs/{id}/s/bad.w=2\n")), "{stdout}");

    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let events: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("run_started", "run_finished"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "attempt_finished").count(), 3);
    assert_eq!((&events[0]["version"], &events[0]["run"]), (&1.into(), &id.into()));
    assert_eq!(events[events.len() - 1]["exit_code"], 1);
    let attempt = events.iter().find(|event| event["case"] == "s/bad[w=2]" && event["attempt"].is_object()).unwrap();
    assert_eq!(attempt["attempt"]["kept"], "s/bad.w=2");
    assert_eq!(attempt["attempt"]["processes"][0]["stdout"]["file"], "s/bad.w=2/launcher-0.stdout");
}

#[test]
fn secrets_of_the_environment_are_nowhere() {
    let place = Place::new();
    let output = place.ftest("suite.yaml --no-fail-fast --junit out.xml");
    let mut all =
        vec![text(&output.stdout), text(&output.stderr), fs::read_to_string(place.path().join("out.xml")).unwrap()];
    all.extend(files(&place.path().join(".ftest")).iter().map(|path| text(&fs::read(path).unwrap())));
    assert!(all.iter().all(|text| !text.contains("hunter2")), "{all:#?}");
    assert!(all.iter().filter(|text| text.contains("said ***")).count() >= 4, "{all:#?}");
}

#[test]
fn a_run_that_cannot_be_kept_goes_on() {
    let place = Place::new();
    fs::write(place.path().join("file"), "").unwrap();
    for filter in ["good", "bad"] {
        let output = place.ftest(&format!("suite.yaml --runs-dir file/runs -E {filter}"));
        assert_eq!(output.status.code(), Some(i32::from(filter == "bad")));
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with("ftest: this run is not kept: cannot write file/runs: "), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn the_last_runs_are_kept() {
    let place = Place::new();
    for _ in 0..4 {
        place.ftest("suite.yaml -E good --keep-runs 2");
    }
    assert_eq!(place.runs().len(), 2);
}

#[test]
fn a_directory_of_a_run_that_was_killed_is_cleaned_up_by_the_next() {
    let place = Place::new();
    let stale = place.path().join("tmp/ft-01234567");
    let foreign = place.path().join("tmp/ft-89abcdef");
    fs::create_dir_all(stale.join("0/shared")).unwrap();
    fs::write(stale.join("owner"), "1\n").unwrap();
    fs::create_dir_all(&foreign).unwrap();
    place.ftest("suite.yaml -E good");
    assert!(!stale.exists() && foreign.exists());
}
