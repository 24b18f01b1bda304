//! The attempts of a run, read from its event log.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// One attempt of a case, as recorded in a run's event log.
#[derive(Debug)]
pub(super) struct Attempt {
    pub case: String,
    pub verdict: String,
    /// The failure messages, each prefixed with its kind.
    pub failures: Vec<String>,
    pub took: Duration,
    /// The cluster report that was kept, from the run's directory.
    pub report: Option<String>,
    /// The list of device reports, likewise.
    pub devices: Option<String>,
    /// Roles and exits of its processes.
    pub ends: String,
    /// How many processes were forked from a warm one, and why others were not.
    pub warm: u64,
    pub cold: Vec<String>,
}

/// The attempts of the only run below `runs`.
///
/// # Errors
/// There is not exactly one run, or its log cannot be read.
pub(super) fn attempts(runs: &Path) -> Result<(PathBuf, Vec<Attempt>), String> {
    let entries: Vec<_> =
        fs::read_dir(runs).map_err(|error| format!("{}: {error}", runs.display()))?.flatten().collect();
    let directories: Vec<PathBuf> =
        entries.iter().map(|entry| entry.path()).filter(|path| path.join("events.jsonl").is_file()).collect();
    let [run] = directories.as_slice() else { return Err(format!("{} runs in {}", directories.len(), runs.display())) };
    let log = fs::read_to_string(run.join("events.jsonl")).map_err(|error| error.to_string())?;
    let mut attempts = Vec::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| format!("event log: {error}"))?;
        if event["event"] == "attempt_finished" {
            attempts.push(Attempt::read(&event));
        }
    }
    Ok((run.clone(), attempts))
}

impl Attempt {
    fn read(event: &Value) -> Attempt {
        let attempt = &event["attempt"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let processes = attempt["processes"].as_array().into_iter().flatten();
        let failure = |failure: &Value| {
            format!("{}: {} | {}", text(&failure["kind"]), text(&failure["expected"]), text(&failure["got"]))
        };
        Attempt {
            case: text(&event["case"]),
            verdict: text(&attempt["verdict"]["is"]),
            failures: attempt["failures"].as_array().into_iter().flatten().map(failure).collect(),
            took: Duration::from_micros(attempt["duration_us"].as_u64().unwrap_or_default()),
            report: attempt["cluster_report"].as_str().map(str::to_owned),
            devices: attempt["device_reports"].as_str().map(str::to_owned),
            ends: processes
                .map(|process| format!("{} {}", process["role"], process["exit"]))
                .collect::<Vec<_>>()
                .join(", "),
            warm: attempt["starts"]["warm"].as_u64().unwrap_or_default(),
            cold: attempt["starts"]["cold"].as_array().into_iter().flatten().map(text).collect(),
        }
    }
}
