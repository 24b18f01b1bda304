//! What `perf` measured is in the event log, whether or not it is within its bounds.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program;

const SUITE: &str = "ftest: 1
suite: s
cases:
- id: a
  launch: {argv: [echo, 'speed=41.5 size=0']}
  expect:
    stdout: {matches: 'speed=(?<speed>\\S+) size=(?<size>\\S+)', capture: [speed, size]}
    perf:
    - {metric: '${{ captures.speed }}', name: fast, unit: GB/s, reference: 40, lower: -10%, warn_lower: +5%}
    - {metric: '${{ captures.speed }}', name: slow, lower: 50}
    - {metric: '${{ captures.size }}', name: nothing, reference: 0, upper: 1}
";

#[test]
fn the_log_has_every_number_with_its_bounds_and_verdict() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("suite.yaml"), SUITE).unwrap();
    let runs = directory.path().join("runs");
    let output = program::ftest()
        .args(["run", "suite.yaml", "--runs-dir"])
        .arg(&runs)
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let run = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let log = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path());
    let log = log.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "jsonl")).unwrap();
    let lines = fs::read_to_string(log).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let attempt = events.into_iter().find(|event| event["event"] == "attempt_finished").unwrap();
    assert_eq!(
        attempt["attempt"]["perf"],
        json!([
            {"name": "fast", "value": 41.5, "unit": "GB/s", "reference": 40.0, "lower": 36.0, "warn_lower": 42.0, "verdict": "warning"},
            {"name": "slow", "value": 41.5, "lower": 50.0, "verdict": "failed"},
            {"name": "nothing", "value": 0.0, "reference": 0.0, "upper": 1.0, "verdict": "ok"},
        ])
    );
}
