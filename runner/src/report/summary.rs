//! One-line summaries used by several reports: exits, verdicts, seconds.

use crate::record::Run;
use crate::record::event::Attempt;

/// `rank 0: code 0, rank 1: SIGKILL`.
pub fn exits(attempt: &Attempt) -> String {
    let exits: Vec<String> =
        attempt.processes.iter().map(|process| format!("{}: {}", process.role, process.how())).collect();
    exits.join(", ")
}

/// Why the verdicts of a run are not those of everything that was asked for, each in a sentence without a period.
pub fn incomplete(run: &Run) -> Vec<String> {
    let ended = match &run.end {
        None => Some("the run did not end: ftest was killed or is still running".to_owned()),
        Some(end) if end.interrupted => Some("the run was interrupted".to_owned()),
        Some(_) => None,
    };
    ended.into_iter().chain(run.info.missing.iter().cloned()).collect()
}

/// Seconds of microseconds.
pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// `48 passed, 2 failed`: the verdicts of a run, good ones first.
pub fn counts(run: &Run) -> String {
    let counts = run.counts();
    let mut parts: Vec<String> = ["passed", "xfailed", "failed", "broken", "timeout", "skipped", "not run"]
        .into_iter()
        .filter_map(|word| counts.get(word).map(|count| format!("{count} {word}")))
        .collect();
    match run.teardowns.len() {
        0 => {}
        1 => parts.push("1 failed teardown".to_owned()),
        several => parts.push(format!("{several} failed teardowns")),
    }
    if parts.is_empty() { "no cases".to_owned() } else { parts.join(", ") }
}
