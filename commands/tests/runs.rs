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
fn a_merge_without_all_shards_is_no_success_and_every_report_says_so() {
    let workspace = Workspace::new();
    for part in 1..=2 {
        workspace.ftest(&format!("suite.yaml --no-fail-fast --shard {part}/2 --runs-dir q{part}"));
    }
    let part = |number: u32| {
        let mut runs = fs::read_dir(workspace.path().join(format!("q{number}"))).unwrap();
        format!("q{number}/{}", runs.next().unwrap().unwrap().file_name().to_str().unwrap())
    };
    // The case that failed is in the first.
    let reports = "--junit m.xml --html m.html --markdown m.md --trace m.json --github";
    let alone = workspace.ftest(&format!("merge {} {reports}", part(2)));
    assert_eq!(alone.status.code(), Some(3), "{alone:?}");
    assert_eq!(
        text(&alone.stderr),
        "ftest: shard 1/2 is missing\nftest: this is not a whole run; `--partial` lets it pass without what is missing\n"
    );
    let partial = workspace.ftest(&format!("merge {} --partial {reports}", part(2)));
    assert_eq!(
        (partial.status.code(), text(&partial.stderr)),
        (Some(0), "ftest: warning: shard 1/2 is missing\n".into())
    );
    for output in [&alone, &partial] {
        assert!(text(&output.stdout).contains("incomplete: shard 1/2 is missing\n"), "{output:?}");
    }
    assert!(text(&alone.stdout).contains("::error title=not a whole run::shard 1/2 is missing\n"), "{alone:?}");
    assert!(text(&partial.stdout).contains("::warning title=not a whole run::shard 1/2 is missing\n"), "{partial:?}");
    for name in ["m.xml", "m.html", "m.md", "m.json"] {
        let report = fs::read_to_string(workspace.path().join(name)).unwrap().replace("&#47;", "/");
        assert!(report.to_lowercase().contains("shard 1/2 is missing"), "{name}: {report}");
    }
    // One part of one run and the other of another do not make a run: here, another selection.
    workspace.ftest("suite.yaml -E good|never --shard 1/2 --runs-dir q3");
    let mixed = workspace.ftest(&format!("merge {} {}", part(2), part(3)));
    assert_eq!(mixed.status.code(), Some(3), "{mixed:?}");
    assert_eq!(text(&mixed.stderr).matches(" of the run of ").count(), 2, "{mixed:?}");
    // Runs that are no shards do not know of each other.
    workspace.ftest("suite.yaml -E good --runs-dir q4");
    assert_eq!(workspace.ftest(&format!("merge {}", part(4))).status.code(), Some(0));
    let expected = workspace.ftest(&format!("merge {} --expect 2", part(4)));
    assert_eq!(expected.status.code(), Some(3));
    assert!(text(&expected.stderr).starts_with("ftest: 2 runs were expected, and 1 are there\n"), "{expected:?}");
}

/// The script of the action's step that merges, of GitLab's job, and the command of the Kubernetes pods, as they are in the
/// repository.
#[test]
fn recipes_for_ci_fail_when_a_job_left_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let yaml = |text: &str| serde_yaml::from_str::<serde_json::Value>(text).unwrap();
    let action = yaml(&read(".github/actions/ftest/action.yml"));
    let steps = action["runs"]["steps"].as_array().unwrap();
    let script =
        |part: &str| steps.iter().filter_map(|step| step["run"].as_str()).find(|run| run.contains(part)).unwrap();
    let gitlab = yaml(&read("packaging/gitlab-ci.yml"));
    let page = read("docs/ci.md");
    let block = page.split("```").find(|block| block.starts_with("yaml\napiVersion: batch/v1")).unwrap();
    let pod = yaml(block.strip_prefix("yaml").unwrap())["spec"]["template"]["spec"]["containers"][0]["args"][0].clone();

    let workspace = Workspace::new();
    fs::create_dir(workspace.path().join("suites")).unwrap();
    let suite = SUITE.replace("exit 3", "exit 0");
    fs::write(workspace.path().join("suites/suite.yaml"), suite).unwrap();
    let program = workspace.command("").get_program().to_owned();
    let run = |script: &str, variables: &[(&str, &str)]| {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]).current_dir(workspace.path()).stdin(Stdio::null());
        command
            .env("PATH", format!("{}:{path}", Path::new(&program).parent().unwrap().display()))
            .env("PROGRAM", &program);
        for name in ["CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "FTEST_RUNS_DIR"] {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let at = |path: &str| workspace.path().join(path).display().to_string();
    let missing = |(code, stderr): (Option<i32>, String), what: &str| {
        assert!(code == Some(3) && stderr.contains(what), "{code:?} {stderr}");
    };

    for part in ["1/2", "2/2"] {
        let out = at(&format!("parts/part-{}", &part[..1]));
        let variables = [("SUITES", "suites"), ("ARGUMENTS", ""), ("SHARD", part), ("OUT", &out)];
        assert_eq!(run(script("\"$PROGRAM\" run"), &variables).0, Some(0));
    }
    let merge = |expect: &str| {
        run(
            script("\"$PROGRAM\" merge"),
            &[("PARTS", &at("parts")), ("OUT", &at("out")), ("MERGE", "part-*"), ("EXPECT", expect)],
        )
    };
    assert_eq!(merge(""), (Some(0), String::new()));
    missing(merge("3"), "3 runs were expected, and 2 are there");
    fs::remove_dir_all(at("parts/part-2")).unwrap();
    missing(merge(""), "shard 2/2 is missing");
    assert!(fs::read_to_string(at("out/junit.xml")).unwrap().contains("shard 2/2 is missing"));
    fs::remove_dir_all(at("parts/part-1")).unwrap();
    assert_eq!(merge("").0, Some(3));

    let line = |job: &str| gitlab[job]["script"][0].as_str().unwrap().replace(".ftest/installed/bin/", "");
    let node = |index: &str| {
        run(
            &line(".ftest"),
            &[("SUITES", "suites"), ("ARGUMENTS", ""), ("CI_NODE_INDEX", index), ("CI_NODE_TOTAL", "2")],
        )
    };
    assert_eq!(node("1").0, Some(0));
    missing(run(&line(".ftest-merge"), &[]), "shard 2/2 is missing");
    assert_eq!(node("2").0, Some(0));
    assert_eq!(run(&line(".ftest-merge"), &[]).0, Some(0));

    let start = |job: &str, index: &str| {
        let variables = [("JOB", job), ("JOB_COMPLETION_INDEX", index), ("SHARDS", "2"), ("RUNS", &at("claim"))];
        run(pod.as_str().unwrap(), &variables)
    };
    let merged = |job: &str| run(&format!("ftest merge claim/{job}/*/*"), &[]);
    assert_eq!((start("old", "0").0, start("old", "1").0, merged("old").0), (Some(0), Some(0), Some(0)));
    assert_eq!(start("new", "0").0, Some(0));
    missing(merged("new"), "shard 2/2 is missing");
}

#[test]
fn a_shard_without_cases_is_a_part_like_any_other() {
    let workspace = Workspace::new();
    let mut parts = Vec::new();
    for part in 1..=4 {
        let output =
            workspace.ftest(&format!("suite.yaml -E good|never --shard {part}/4 --runs-dir q --junit {part}.xml"));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let none = format!("ftest: shard {part}/4 holds none of the 2 selected cases\n");
        assert_eq!(text(&output.stderr), if part > 2 { none } else { String::new() });
        assert!(fs::read_to_string(workspace.path().join(format!("{part}.xml"))).unwrap().ends_with("</testsuites>\n"));
    }
    for entry in fs::read_dir(workspace.path().join("q")).unwrap() {
        parts.push(format!("q/{}", entry.unwrap().file_name().to_str().unwrap()));
    }
    let merged = workspace.ftest(&format!("merge {}", parts.join(" ")));
    assert_eq!((merged.status.code(), text(&merged.stderr)), (Some(0), String::new()));
    // What selects nothing selects nothing in every shard.
    assert_eq!(workspace.ftest("suite.yaml -E case(nobody) --shard 4/4").status.code(), Some(4));
}

#[test]
fn a_run_that_was_cut_off_is_told_apart_from_one_that_ended() {
    let workspace = Workspace::new();
    workspace.ftest("suite.yaml --no-fail-fast -j 1 --shard 1/1");
    let run = workspace.runs().remove(0);
    let log = run.join("events.jsonl");
    let all = fs::read_to_string(&log).unwrap();
    // Up to the verdict of the first case; then up to the middle of the first line.
    let verdict = all.find("\"event\":\"case_finished\"").unwrap();
    let cut = verdict + all[verdict..].find('\n').unwrap() + 20;
    fs::write(&log, &all[..cut]).unwrap();
    let merged = workspace.ftest(&format!("merge {} --partial --junit m.xml", run.display()));
    assert_eq!(merged.status.code(), Some(3), "a part that ended early is not a part that is known to be missing");
    assert!(text(&merged.stderr).contains("did not end; its remaining cases count as not run"), "{merged:?}");
    assert!(
        fs::read_to_string(workspace.path().join("m.xml"))
            .unwrap()
            .contains("<error message=\"the run was interrupted\"")
    );
    let failed = workspace.ftest("run --failed --list");
    assert_eq!(text(&failed.stdout), "s/bad[w=2]\ns/never\n");
    let stderr = text(&failed.stderr);
    assert!(
        stderr.contains("is only shard 1/1") && stderr.contains("did not end: 2 cases without a result run, too"),
        "{stderr}"
    );
    fs::write(&log, &all[..50]).unwrap();
    for words in ["replay", "run --failed", &format!("merge {}", run.display())] {
        let output = workspace.ftest(words);
        assert_eq!(output.status.code(), Some(3), "{words}: {output:?}");
        assert!(text(&output.stderr).contains("its log has no complete line, so nothing is known of it"), "{output:?}");
    }
}

#[test]
fn failed_cases_that_are_gone_are_not_forgotten() {
    let workspace = Workspace::new();
    workspace.ftest("suite.yaml --no-fail-fast -E never|bad");
    let log = workspace.runs()[0].join("events.jsonl");
    let all = fs::read_to_string(&log).unwrap();
    fs::write(&log, all.replace("s/never", "s/renamed")).unwrap();
    fs::write(&log, fs::read_to_string(&log).unwrap().replace("\"is\":\"passed\"", "\"is\":\"failed\"")).unwrap();
    let refused = workspace.ftest("run --failed");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let stderr = text(&refused.stderr);
    assert!(
        stderr.contains("ftest: s/renamed did not pass in run ") && stderr.contains("-E 'all()' runs the others"),
        "{stderr}"
    );
    let others = workspace.ftest("run --failed -E all() --list");
    assert_eq!((others.status.code(), text(&others.stdout)), (Some(0), "s/bad[w=2]\n".to_owned()));
    fs::remove_file(workspace.path().join("suite.yaml")).unwrap();
    let without = workspace.ftest("run --failed");
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("there is no suite `suite.yaml`"), "{without:?}");
}

#[test]
fn the_files_of_many_failures_stay_within_the_limit() {
    let program = "yes out | head -c 400000; yes err | head -c 400000 >&2; echo last word; exit 1";
    let workspace = Workspace::with(&format!(
        "ftest: 1
suite: s
cases:
- {{id: a, matrix: {{axes: {{n: {:?}}}}}, launch: {{argv: [sh, -c, '{program}']}}}}
",
        (0..20).collect::<Vec<_>>()
    ));
    let output = workspace.ftest("suite.yaml --no-fail-fast --keep-size 8MiB");
    let run = workspace.runs().remove(0);
    let sizes = files(&run).iter().map(|path| path.metadata().unwrap().len()).sum::<u64>();
    // A quarter of it; 16 MB were written.
    assert!(sizes < 9 << 18, "{sizes}");
    for number in 0..20 {
        let kept = fs::read_to_string(run.join(format!("s/a.n={number}/launcher-0.stdout"))).unwrap();
        assert!(kept.starts_with("out\n") && kept.ends_with("last word\n"), "{number}: {} bytes", kept.len());
        assert!(kept.contains(" bytes are left out here: FTEST_KEEP_SIZE"));
    }
    let stdout = text(&output.stdout);
    let note = "note: only both ends are kept of launcher-0.stderr (400000 bytes), launcher-0.stdout (400010 bytes): \
         the kept runs may have 8388608 bytes (--keep-size, FTEST_KEEP_SIZE)\n";
    assert_eq!(stdout.matches(note).count(), 20, "{stdout}");
    for (words, variable) in [("--keep-size 5", ""), ("", "much")] {
        let mut command = workspace.command(&format!("suite.yaml {words}"));
        let output = command.env("FTEST_KEEP_SIZE", variable).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).to_lowercase().replace('-', "_").contains("keep_size"), "{output:?}");
    }
}

#[test]
fn text_of_users_stays_on_its_line() {
    let workspace = Workspace::with(
        r#"ftest: 1
suite: s
cases:
- {id: known, title: "a\nb", xfail: {reason: "one\n  failed  s/forged\ttwo"}, launch: {argv: ['false']}}
- {id: vso, launch: {argv: [sh, -c, "echo '##vso[task.complete result=Succeeded;]done' >&2; exit 1"]}}
"#,
    );
    let output = workspace.ftest("suite.yaml --no-fail-fast");
    let stdout = text(&output.stdout);
    assert!(stdout.lines().next().unwrap().ends_with(" s/known (one failed s/forged two)"), "{stdout}");
    assert!(stdout.contains("# #vso[task.complete") && !stdout.contains("##vso["), "{stdout}");
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
    // Three cases, and that the run did not end.
    assert!(junit.contains("tests=\"4\"") && junit.contains("errors=\"1\""), "{junit}");
    assert!(junit.ends_with("</testsuites>\n"), "{junit}");
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
