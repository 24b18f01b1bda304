//! The suites with PyTorch, started warm and cold: the outcome of a case must be the same.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attempts::{self, Attempt};
use super::command::PATIENCE;
use super::repeated::{deterministic, difference};
use super::tally::Tally;
use super::workspace::{Scale, Workspace};

/// Those that need Python.
const SUITES: [&str; 9] = ["smoke", "hang", "findings", "ddp", "validate", "labs", "device", "compute", "frameworks"];
/// A few of them, with torchrun on one and two nodes, ranks that fail, and a rank that forks and spawns.
const FEW: &str = "case(/^(train|fresh|collectives|elastic)/) & matrix.torch = \"2.15.0\"";
/// Its workers take the next operator when they are done with one, so what each process did depends on timing.
const SHARED_WORK: &str = "compute/meta[";
/// Ranks that leave by `_exit`, with their communicator: which one was first depends on timing (docs/reports.md).
const LEAVE: [&str; 2] = ["findings/fixed[", "findings/backward-fixed"];
/// A rank dies, and torchrun may end the other one before it reaches the operation that detects the loss
/// (suites/ddp.yaml).
const ENDED_BY_TORCHRUN: &str = "ddp/elastic[";
/// The time for one run of the suites.
const LIMIT: Duration = PATIENCE.saturating_mul(30);

/// The outcome of a case.
struct Came {
    /// Verdict, failed checks, how its processes ended, both reports.
    parts: Vec<(&'static str, String)>,
    attempt: Attempt,
}

/// Runs the suites both ways.
pub(super) fn warm_and_cold(workspace: &Workspace) -> Result<Tally, String> {
    let mut tally = Tally::new("cases");
    let cold = run(workspace, "0", &mut tally)?;
    let warm = run(workspace, "1", &mut tally)?;
    let (mut forked, mut reasons) = (0, BTreeMap::<String, usize>::new());
    for (name, one) in &cold {
        let Some(other) = warm.get(name) else {
            tally.fault(format!("{name} did not run warm"));
            continue;
        };
        let differ = one.parts.iter().zip(&other.parts).find(|(one, other)| one != other);
        let outcome = match differ {
            None => Ok(()),
            Some((one, other)) => Err(format!("{}, cold then warm: {}", one.0, difference(&one.1, &other.1))),
        };
        tally.add(name, Duration::ZERO, outcome);
        forked += other.attempt.warm;
        for why in &other.attempt.cold {
            // Without who it was.
            let why = why.split_once(": ").map_or(why.as_str(), |(_, why)| why);
            *reasons.entry(why.to_owned()).or_default() += 1;
        }
    }
    for (why, count) in &reasons {
        eprintln!("  cold {count} times: {why}");
    }
    if forked == 0 {
        tally.fault("no process was started warm".to_owned());
    }
    tally.note(format!("{forked} processes forked, {} started cold", reasons.values().sum::<usize>()));
    Ok(tally)
}

fn run(workspace: &Workspace, warm: &str, tally: &mut Tally) -> Result<BTreeMap<String, Came>, String> {
    let runs = workspace.path(&format!("runs-{warm}"));
    let directory = runs.to_string_lossy();
    // All of it takes as long as everything else together.
    let all = workspace.scale == Scale::Long;
    let suites: &[&str] = if all { &SUITES } else { &["ddp"] };
    let filter: &[&str] = if all { &[] } else { &["-E", FEW] };
    let words = [&["run"][..], suites, filter, &["--no-fail-fast", "--runs-dir", &*directory]].concat();
    let mut command = workspace.ftest(&words);
    command.current_dir(&workspace.root).env("FTEST_WARM", warm);
    if let Some(cache) = std::env::var_os("FTEST_CACHE_DIR") {
        // An environment takes a gigabyte.
        command.env("FTEST_CACHE_DIR", cache);
    }
    let ended = workspace.run(&mut command, LIMIT)?;
    if let Err(why) = ended.expect(&[0]) {
        tally.fault(format!("FTEST_WARM={warm}: {why}"));
    }
    let (run, attempts) = attempts::attempts(&runs)?;
    let mut came = BTreeMap::new();
    for attempt in attempts {
        let report =
            |file: &Option<String>| file.as_ref().map_or(Ok(String::new()), |file| deterministic(&run.join(file)));
        let is_shared = attempt.case.starts_with(SHARED_WORK);
        let is_timed = LEAVE.iter().chain([&ENDED_BY_TORCHRUN]).any(|case| attempt.case.starts_with(case));
        let parts = vec![
            ("the verdict", attempt.verdict.clone()),
            ("what failed", attempt.failures.join("\n")),
            ("how processes ended", attempt.ends.clone()),
            ("the cluster report", if is_timed { String::new() } else { report(&attempt.report)? }),
            ("the device reports", if is_shared { String::new() } else { report(&attempt.devices)? }),
        ];
        came.insert(attempt.case.clone(), Came { parts, attempt });
    }
    Ok(came)
}
