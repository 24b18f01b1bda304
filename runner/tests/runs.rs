//! What is kept of a run, and what comes of it later: the log, files, `ftest runs`, `replay`, `--failed`, `merge`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::program;

const SUITE: &str = "ftest: 1
suite: s
cases:
- {id: good, launch: {argv: [echo, fine]}}
- {id: bad, matrix: {axes: {w: [2]}}, launch: {argv: [sh, -c, 'echo said $MY_TOKEN; touch $FTEST_SCRATCH/left; exit 3']}}
- {id: never, launch: {argv: ['true']}}
";

/// A directory with a suite, its own temporary directory and no runs.
struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new() -> Workspace {
        Workspace::with(SUITE)
    }

    fn with(suite: &str) -> Workspace {
        let workspace = Workspace(tempfile::tempdir_in("/tmp").unwrap());
        fs::write(workspace.path().join("suite.yaml"), suite).unwrap();
        fs::create_dir(workspace.path().join("tmp")).unwrap();
        workspace
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = program::ftest();
        command.args(words.split_whitespace()).current_dir(self.path()).stdin(Stdio::null());
        command.env("NO_COLOR", "1");
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
    let workspace = Workspace::new();
    let output = workspace.ftest("suite.yaml --no-fail-fast");
    assert_eq!(output.status.code(), Some(1));
    let [run] = workspace.runs().try_into().unwrap();
    let names: Vec<String> =
        files(&run).iter().map(|path| path.strip_prefix(&run).unwrap().display().to_string()).collect();
    for name in ["events.jsonl", "s/bad.w=2/launcher-0.stdout", "s/bad.w=2/shared/left"] {
        assert!(names.iter().any(|known| known == name), "{name} is not among {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("good")), "{names:?}");
    assert_eq!(fs::read_dir(workspace.path().join("tmp")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(workspace.path().join(".ftest/.gitignore")).unwrap(), "*\n");
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
    let workspace = Workspace::new();
    let output = workspace.ftest("suite.yaml --no-fail-fast --junit out.xml");
    let mut all =
        vec![text(&output.stdout), text(&output.stderr), fs::read_to_string(workspace.path().join("out.xml")).unwrap()];
    all.extend(files(&workspace.path().join(".ftest")).iter().map(|path| text(&fs::read(path).unwrap())));
    assert!(all.iter().all(|text| !text.contains("hunter2")), "{all:#?}");
    assert!(all.iter().filter(|text| text.contains("said ***")).count() >= 4, "{all:#?}");
}

#[test]
fn secrets_of_cases_and_fixtures_are_nowhere_either() {
    let workspace = Workspace::with(
        "ftest: 1
suite: s
fixtures:
  account:
    env: {ADMIN_PASSWORD: hunter2-of-the-fixture}
    setup: {argv: [sh, -c, 'echo ACCESS_TOKEN=hunter2-given >> $FTEST_OUTPUT; echo setup said $ADMIN_PASSWORD']}
    outputs: [ACCESS_TOKEN]
  never:
    setup: {argv: [sh, -c, 'echo API_KEY=hunter2-of-never >> $FTEST_OUTPUT; echo said hunter2-of-never; exit 1']}
    outputs: [API_KEY]
cases:
- {id: own, env: {MY_SECRET: hunter2-of-the-case}, launch: {argv: [sh, -c, 'echo said $MY_SECRET; exit 3']}}
- {id: given, uses: [account], env: {A_KEY: '${{ fixtures.account.ACCESS_TOKEN }}-b'},
   launch: {argv: [sh, -c, 'echo said $A_KEY hunter2-given hunter2-of-the-fixture; exit 3']}}
- {id: refused, uses: [never], launch: {argv: ['true']}}
",
    );
    let output = workspace.ftest("suite.yaml --no-fail-fast --keep --junit out.xml --html out.html --markdown out.md");
    let mut all = vec![text(&output.stdout), text(&output.stderr)];
    all.extend(["out.xml", "out.html", "out.md"].map(|file| fs::read_to_string(workspace.path().join(file)).unwrap()));
    all.extend(files(&workspace.path().join(".ftest")).iter().map(|path| text(&fs::read(path).unwrap())));
    assert!(all.iter().all(|text| !text.contains("hunter2")), "{all:#?}");
    assert!(all.iter().filter(|text| text.contains("said ***")).count() >= 6, "{all:#?}");
    assert!(text(&output.stdout).contains("said *** *** ***"), "{}", text(&output.stdout));
}

#[test]
fn a_run_that_cannot_be_kept_goes_on() {
    let workspace = Workspace::new();
    fs::write(workspace.path().join("file"), "").unwrap();
    for filter in ["good", "bad"] {
        let output = workspace.ftest(&format!("suite.yaml --runs-dir file/runs -E {filter}"));
        assert_eq!(output.status.code(), Some(i32::from(filter == "bad")));
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with("ftest: this run is not kept: cannot write file/runs: "), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn the_last_runs_are_kept() {
    let workspace = Workspace::new();
    for _ in 0..4 {
        workspace.ftest("suite.yaml -E good --keep-runs 2");
    }
    assert_eq!(workspace.runs().len(), 2);
}

#[test]
fn a_directory_of_a_run_that_was_killed_is_cleaned_up_by_the_next() {
    let workspace = Workspace::new();
    let stale = workspace.path().join("tmp/ft-01234567");
    let unowned = workspace.path().join("tmp/ft-23456789");
    let kept = workspace.path().join("tmp/ft-89abcdef");
    let foreign = workspace.path().join("tmp/ft-elsewhere");
    fs::create_dir_all(stale.join("0/shared")).unwrap();
    fs::write(stale.join("owner"), "1\n").unwrap();
    for directory in [&unowned, &kept.join("0"), &foreign] {
        fs::create_dir_all(directory).unwrap();
    }
    workspace.ftest("suite.yaml -E good");
    assert!(!stale.exists() && !unowned.exists() && kept.exists() && foreign.exists());
}

/// Without what differs from run to run.
fn plain(bytes: &[u8]) -> String {
    let text = text(bytes);
    let text = regex::Regex::new(r"\d+\.\d+ s").unwrap().replace_all(&text, "TIME");
    regex::Regex::new(r"\d{8}T\d{6}\.\d{3}-[0-9a-f]{4}").unwrap().replace_all(&text, "ID").into_owned()
}

#[test]
fn a_replay_says_and_writes_what_the_run_did() {
    let workspace = Workspace::new();
    let run = workspace.ftest("suite.yaml --no-fail-fast --junit first.xml");
    let replay = workspace.ftest("replay --junit second.xml");
    assert_eq!((replay.status.code(), plain(&replay.stdout)), (Some(1), plain(&run.stdout)));
    let junit = |name: &str| fs::read_to_string(workspace.path().join(name)).unwrap();
    assert_eq!(junit("first.xml"), junit("second.xml"));
    let strict = workspace.ftest("replay --junit strict.xml --junit-profile strict");
    assert_eq!(strict.status.code(), Some(1));
    assert!(junit("strict.xml").contains("[[PROPERTY|matrix.w=2]]") && !junit("strict.xml").contains(" line="));

    let listed = text(&workspace.ftest("runs").stdout);
    assert!(plain(listed.as_bytes()).contains("TIME  2 passed, 1 failed\n"), "{listed}");
    let id = listed.split_whitespace().next().unwrap();
    let part = workspace.ftest(&format!("replay {}", &id[id.len() - 4..]));
    assert_eq!(plain(&part.stdout), plain(&run.stdout));
    let unknown = workspace.ftest("replay nothing-like-it");
    assert_eq!(unknown.status.code(), Some(2));
    assert_eq!(
        text(&unknown.stderr),
        "ftest: no run in .ftest/runs is called nothing-like-it; `ftest runs` lists them\n"
    );
}

#[test]
fn the_log_of_a_killed_run_is_replayed_as_far_as_it_goes() {
    let workspace = Workspace::new();
    workspace.ftest("suite.yaml --no-fail-fast");
    let log = workspace.runs()[0].join("events.jsonl");
    let all = fs::read_to_string(&log).unwrap();
    // Torn in the middle of the last line.
    fs::write(&log, &all[..all.len() - 20]).unwrap();
    let output = workspace.ftest("replay --junit out.xml");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stdout).ends_with("3 cases so far: 2 passed, 1 failed\n"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("the run was killed"), "{}", text(&output.stderr));
    assert!(fs::read_to_string(workspace.path().join("out.xml")).unwrap().ends_with("</testsuites>\n"));
    assert!(text(&workspace.ftest("runs").stdout).contains("    killed  2 passed, 1 failed\n"));
}

#[test]
fn only_what_failed_or_did_not_run_runs_again() {
    let workspace = Workspace::new();
    let first = workspace.ftest("suite.yaml -j 1");
    assert!(text(&first.stdout).contains("3 cases: 1 passed, 1 failed, 1 not run"), "{}", text(&first.stdout));
    let id = workspace.runs()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let fixed = SUITE.replace("exit 3", "exit 0");
    fs::write(workspace.path().join("suite.yaml"), fixed).unwrap();
    // No suite is named: the run knows them.
    let listed = workspace.ftest("run --failed --list");
    assert_eq!(text(&listed.stdout), "s/bad[w=2]\ns/never\n");
    let again = workspace.ftest("run --failed");
    assert_eq!(again.status.code(), Some(0));
    assert!(text(&again.stdout).contains("2 cases: 2 passed"), "{}", text(&again.stdout));
    let nothing = workspace.ftest("run --failed");
    assert_eq!(nothing.status.code(), Some(4));
    assert!(text(&nothing.stderr).contains("none of the selected cases failed in run "), "{}", text(&nothing.stderr));
    let named = workspace.ftest(&format!("suite.yaml --failed={id} --list"));
    assert_eq!(text(&named.stdout), "s/bad[w=2]\ns/never\n");
}

#[test]
fn shards_become_one_run_again() {
    let workspace = Workspace::new();
    for part in 1..=2 {
        workspace.ftest(&format!("suite.yaml --no-fail-fast --shard {part}/2 --runs-dir shards"));
    }
    let shards: Vec<String> = fs::read_dir(workspace.path().join("shards"))
        .unwrap()
        .map(|entry| format!("shards/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    let merged = workspace.ftest(&format!("merge {} --junit merged.xml", shards.join(" ")));
    assert_eq!((merged.status.code(), text(&merged.stderr)), (Some(1), String::new()));
    assert!(text(&merged.stdout).contains("3 cases: 2 passed, 1 failed in "), "{}", text(&merged.stdout));
    let junit = fs::read_to_string(workspace.path().join("merged.xml")).unwrap();
    assert!(junit.contains("<testsuites name=\"ftest\" tests=\"3\" skipped=\"0\" failures=\"1\""), "{junit}");
    let twice = workspace.ftest(&format!("merge {} {}", shards[0], shards[0]));
    assert_eq!(twice.status.code(), Some(2));
}

#[test]
fn a_killed_ftest_leaves_a_log_and_a_junit_file_that_can_be_read() {
    let suite = "ftest: 1
suite: s
cases:
- {id: first, launch: {argv: ['true']}}
- {id: kills, launch: {argv: [sh, -c, 'kill -KILL $PPID; sleep 60']}}
- {id: later, launch: {argv: ['true']}}
";
    let workspace = Workspace::with(suite);
    let output = workspace.ftest("suite.yaml -j 1 --junit out.xml");
    assert_eq!(output.status.code(), None);
    let junit = fs::read_to_string(workspace.path().join("out.xml")).unwrap();
    assert!(junit.contains("tests=\"3\"") && junit.ends_with("</testsuites>\n"), "{junit}");
    let replay = workspace.ftest("replay");
    assert_eq!(replay.status.code(), Some(3));
    assert!(text(&replay.stdout).contains("s/first"), "{}", text(&replay.stdout));
    assert!(text(&replay.stdout).ends_with("3 cases so far: 1 passed, 2 not run\n"), "{}", text(&replay.stdout));
}

#[test]
fn what_took_long_starts_first_the_next_time() {
    let suite = "ftest: 1
suite: s
cases:
- {id: quick, launch: {argv: ['true']}}
- {id: long, launch: {argv: [sleep, '0.3']}}
- {id: new, launch: {argv: ['true']}}
";
    let workspace = Workspace::with(suite);
    workspace.ftest("suite.yaml -j 2 -E !case(new)");
    workspace.ftest("suite.yaml -j 2");
    let log = fs::read_to_string(workspace.runs()[1].join("events.jsonl")).unwrap();
    let started = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        (event["event"] == "case_started").then(|| event["case"].as_str().unwrap().to_owned())
    };
    let order: Vec<String> = log.lines().filter_map(started).collect();
    // Nobody knows how long a new one takes.
    assert_eq!(order, ["s/new", "s/long", "s/quick"]);
}
