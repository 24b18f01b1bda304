//! Rows that are suites or tests of the project, run many times.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::attempts;
use super::command::Ended;
use super::command::PATIENCE;
use super::tally::Tally;
use super::workspace::Workspace;

/// Time limit for all repetitions in one row.
const LIMIT: Duration = PATIENCE.saturating_mul(8);

/// `ftest ARGUMENTS --stress ROUNDS`: every attempt must pass.
fn stress(workspace: &Workspace, arguments: &[&str], rounds: usize) -> Result<Tally, String> {
    let rounds = rounds.to_string();
    let directory = workspace.path("runs");
    let directory = directory.to_string_lossy();
    let words = [arguments, &["--no-fail-fast", "--stress", &rounds, "--runs-dir", &*directory]].concat();
    let ended = workspace.run(workspace.ftest(&words).current_dir(&workspace.root), LIMIT)?;
    let mut tally = Tally::new("cases");
    if let Err(why) = ended.expect(&[0]) {
        tally.fault(why);
    }
    let (_, attempts) = attempts::attempts(&workspace.path("runs"))?;
    for attempt in attempts {
        let outcome = match attempt.verdict.as_str() {
            "passed" => Ok(()),
            // It reports why: a program or a GPU that this machine lacks.
            "skipped" => continue,
            verdict => Err(format!("{verdict}: {}", attempt.failures.join("\n"))),
        };
        tally.add(&attempt.case, attempt.took, outcome);
    }
    Ok(tally)
}

pub(super) fn one_sided(workspace: &Workspace) -> Result<Tally, String> {
    let filter = "case(/^one-sided/) & not matrix.route = unix";
    stress(workspace, &["run", "dist", "-E", filter, "-j4"], workspace.times(2, 60, 200))
}

pub(super) fn zoo(workspace: &Workspace) -> Result<Tally, String> {
    stress(workspace, &["run", "zoo"], workspace.times(1, 3, 10))
}

/// A test target of the project, in its debug build.
fn test(workspace: &Workspace, words: &[&str], variables: &[(&str, &str)]) -> Result<Ended, String> {
    cargo(workspace, &[&["test", "--quiet"], words].concat(), variables)
}

fn cargo(workspace: &Workspace, words: &[&str], variables: &[(&str, &str)]) -> Result<Ended, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = workspace.command(&cargo, words);
    command.current_dir(&workspace.root).env_remove("FTEST_HOME").envs(variables.iter().copied());
    crate::regen::forget_package(&mut command);
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        command.env("CARGO_TARGET_DIR", target);
    }
    workspace.run(&mut command, LIMIT)
}

pub(super) fn orders_of_death(workspace: &Workspace) -> Result<Tally, String> {
    // Programs that the test starts: ftest looks for the coordinator and the shim beside itself.
    cargo(workspace, &["build", "--quiet", "-p", "commands", "-p", "coordinator", "-p", "shim"], &[])?.expect(&[0])?;
    test(workspace, &["-p", "commands", "--test", "integration", "--no-run"], &[])?.expect(&[0])?;
    let mut tally = Tally::new("orders");
    for _ in 0..workspace.times(1, 20, 40) {
        let mut words = vec!["-p", "commands", "--test", "integration", "lifelines::", "--", "--nocapture"];
        if !workspace.quick() {
            words.push("--include-ignored");
        }
        let ended = test(workspace, &words, &[])?;
        // The test prints which it has run.
        let orders = ended.text().lines().filter(|line| line.starts_with("killed ")).count();
        tally.add("the orders", ended.took / orders.max(1) as u32, ended.expect(&[0]));
        tally.many(orders.saturating_sub(1) as u64);
    }
    Ok(tally)
}

pub(super) fn fuzz(workspace: &Workspace) -> Result<Tally, String> {
    let arguments = ["-p", "fuzz", "--test", "corpus"];
    test(workspace, &[&arguments[..], &["--no-run"]].concat(), &[])?.expect(&[0])?;
    // For each target.
    let seconds = workspace.times(0, 10, 30).to_string();
    let words = [&arguments[..], &["--", "search", "--nocapture"]].concat();
    let ended = test(workspace, &words, &[("FTEST_FUZZ_SECONDS", &seconds)])?;
    let mut tally = Tally::new("inputs");
    if let Err(why) = ended.expect(&[0]) {
        tally.fault(why);
    }
    for line in ended.text().lines() {
        let inputs = line.strip_suffix(" inputs").and_then(|line| line.rsplit_once(": "));
        tally.many(inputs.and_then(|(_, inputs)| inputs.parse().ok()).unwrap_or(0));
    }
    Ok(tally)
}

/// Cases whose report is the same in every run. Excluded: a timed fault hits a different operation each time; small sends do
/// not wait for their receiver, so the number sent before it was killed, or failed over sockets, differs (docs/reports.md).
const REPEATABLE: &str = "not case(/^(cut-link|kill-later|several-gpus-after)/) & not (case(/^stop/) & matrix.when = later) \
     & not (case(/^at-a-transfer/) & matrix.kind = kill) \
     & not (case(/^at-a-transfer/) & matrix.kind = nccl_error & not matrix.route = unix)";

/// Compares cluster reports of several runs, without measured values.
pub(super) fn same_reports(workspace: &Workspace) -> Result<Tally, String> {
    let mut tally = Tally::new("reports");
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..workspace.times(2, 3, 8) {
        let runs = format!("runs-{round}");
        let filter = if workspace.quick() { "case(/^(one-sided|killed)/)" } else { REPEATABLE };
        let jobs = (round % 4 + 1).to_string();
        let words = ["run", "dist", "faults", "-E", filter, "--no-fail-fast", "--shuffle", "-j", &jobs, "--runs-dir"];
        let runs_dir = workspace.path(&runs);
        let directory = runs_dir.to_string_lossy();
        let words = [&words[..], &[&*directory]].concat();
        let ended = workspace.run(workspace.ftest(&words).current_dir(&workspace.root), LIMIT)?;
        if let Err(why) = ended.expect(&[0]) {
            tally.fault(format!("run {round}: {why}"));
        }
        let (run, attempts) = attempts::attempts(&runs_dir)?;
        for attempt in attempts {
            let Some(file) = &attempt.report else { continue };
            let text = deterministic(&run.join(file))?;
            let expected = first.entry(attempt.case.clone()).or_insert_with(|| text.clone());
            let outcome = if *expected == text { Ok(()) } else { Err(difference(expected, &text)) };
            tally.add(&format!("{} of run {round}", attempt.case), Duration::ZERO, outcome);
        }
        let _ = fs::remove_dir_all(runs_dir);
    }
    if !tally.failed() {
        tally.note(format!("all {} are the same in every run", first.len()));
    }
    Ok(tally)
}

/// A report, or each in a list of reports, without measured values.
pub(super) fn deterministic(file: &Path) -> Result<String, String> {
    let failed = |error: String| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let mut report: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let without = |report: &mut Value| {
        if let Some(fields) = report.as_object_mut() {
            fields.remove("measured");
        }
    };
    match &mut report {
        Value::Array(reports) => {
            reports.iter_mut().for_each(without);
            // Processes write them in any order.
            reports.sort_by_key(Value::to_string);
        }
        report => without(report),
    }
    Ok(report.to_string())
}

/// The first place where two texts differ, with its surroundings.
pub(super) fn difference(expected: &str, text: &str) -> String {
    let at = expected.bytes().zip(text.bytes()).take_while(|(left, right)| left == right).count();
    let around = |text: &str| {
        let bytes = text.as_bytes();
        String::from_utf8_lossy(&bytes[at.saturating_sub(120).min(bytes.len())..(at + 80).min(bytes.len())])
            .into_owned()
    };
    format!("differs: ...{}... was ...{}...", around(text), around(expected))
}
