//! Which process failed by itself before the others, and the last line of its error: when a rank is lost, the others fail, too, and
//! their errors say nothing of the reason.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::observation::{Captured, Exit, Observation, ProcessObservation, Role};

/// The longest line that is quoted, characters.
const LONGEST: usize = 300;
/// The beginnings of the names of failures that a rank has because another is gone.
const LOSSES: [&str; 2] = ["rank_lost", "unreachable"];
/// What libraries say when the other end of a connection is gone: NCCL, gloo, PyTorch's store.
const CONSEQUENCES: [&str; 6] = [
    "ncclRemoteError",
    "remote process exited",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "failed to recv, got 0 bytes",
];

/// A process that failed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Which.
    pub role: Role,
    /// The last line of its error; empty if it wrote none.
    pub line: String,
}

/// The first in time of the processes that ended with an error which the case does not expect (`is_wrong`), and not because of
/// another one.
pub fn first(is_wrong: impl Fn(&ProcessObservation) -> bool, observation: &Observation) -> Option<Cause> {
    let victims = victims(observation);
    let has_launcher =
        observation.processes.iter().any(|process| matches!(process.role, Role::Launcher(_) | Role::Srun));
    let is_by_itself = |process: &&ProcessObservation| {
        let was_ended = has_launcher && process.exit == Exit::Signal(libc::SIGTERM);
        let by_loss = || matches!(process.role, Role::Rank(rank) if victims.contains(&rank));
        let says_so = || CONSEQUENCES.iter().any(|words| error_line(&process.stderr).contains(words));
        is_wrong(process) && !was_ended && !by_loss() && !says_so()
    };
    let failed: Vec<&ProcessObservation> =
        observation.finished().filter(|process| matches!(process.role, Role::Rank(_))).filter(is_by_itself).collect();
    let ends = observation.execution.ran().map_or(&[][..], |ran| &ran.ends);
    let place = |process: &&&ProcessObservation| ends.iter().position(|role| *role == process.role);
    // One whose end was not seen comes after those that were.
    let first = failed.iter().min_by_key(|process| place(process).unwrap_or(usize::MAX))?;
    let (exit, line) = (&first.exit, error_line(&first.stderr));
    // Of those that failed alike, chance decides which ends first; the lowest rank is the same in every run.
    let first = failed.iter().find(|process| process.exit == *exit && error_line(&process.stderr) == line)?;
    Some(Cause { role: first.role, line })
}

/// The ranks that noticed in NCCL that another was gone.
fn victims(observation: &Observation) -> BTreeSet<u32> {
    let report = observation.cluster_report.as_ref();
    let events = report.and_then(|report| report.pointer("/resilience/failure_events")).and_then(Value::as_array);
    let is_loss = |event: &&Value| event["error_code"].as_str().is_some_and(|code| LOSSES.contains(&code));
    let observed = events.into_iter().flatten().filter(is_loss).flat_map(|event| event["observed_ranks"].as_array());
    observed.flatten().filter_map(|rank| u32::try_from(rank.as_u64()?).ok()).collect()
}

/// The last line of the last error in a stream: of a Python traceback, a C++ exception, a Rust panic, or else the last line.
pub fn error_line(stderr: &Captured) -> String {
    let bytes = if stderr.tail.is_empty() { &stderr.head } else { &stderr.tail };
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(without_rank).collect();
    let line = of_traceback(&lines).or_else(|| of_exception(&lines)).or_else(|| {
        let is_text = |line: &&&str| !line.trim().is_empty();
        lines.iter().rev().find(is_text).map(|line| line.trim().to_owned())
    });
    line.unwrap_or_default().chars().take(LONGEST).collect()
}

/// PyTorch begins the lines of an uncaught exception with `[rank1]: `.
fn without_rank(line: &str) -> &str {
    let rest = line.strip_prefix("[rank").and_then(|rest| rest.split_once("]: "));
    rest.filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit())).map_or(line, |(_, rest)| rest)
}

/// `RuntimeError: ...` after the frames of the last traceback that ended the program.
fn of_traceback(lines: &[&str]) -> Option<String> {
    let is_last = |at: &usize| {
        let is_ignored = at.checked_sub(1).is_some_and(|before| lines[before].starts_with("Exception ignored"));
        lines[*at].starts_with("Traceback (most recent call last):") && !is_ignored
    };
    let at = (0..lines.len()).rev().find(is_last)?;
    let error = lines[at + 1..].iter().find(|line| line.starts_with(|first: char| !first.is_whitespace()))?;
    Some(error.trim_end().to_owned())
}

fn of_exception(lines: &[&str]) -> Option<String> {
    let last = |is: fn(&str) -> bool| lines.iter().rposition(|line| is(line));
    if let Some(at) = last(|line| line.contains("' panicked at ")) {
        // The message is on the next line.
        return Some(lines.get(at + 1).map_or(lines[at], |line| line).trim().to_owned());
    }
    let at = last(|line| line.trim_start().starts_with("what():") || line.starts_with("Fatal Python error:"))?;
    Some(lines[at].trim().trim_start_matches("what():").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observation::{Execution, Ran};

    fn process(rank: u32, exit: Exit, stderr: &str) -> ProcessObservation {
        let stderr = Captured { head: stderr.as_bytes().to_vec(), ..Captured::default() };
        ProcessObservation { role: Role::Rank(rank), exit, stdout: Captured::default(), stderr }
    }

    fn seen(processes: Vec<ProcessObservation>, ends: &[u32], victims: &[u32]) -> Observation {
        let event = json!({"error_code": "rank_lost", "observed_ranks": victims});
        let ends = ends.iter().map(|rank| Role::Rank(*rank)).collect();
        Observation {
            execution: Execution::Ran(Box::new(Ran { ends, ..Ran::default() })),
            processes,
            cluster_report: Some(json!({"resilience": {"failure_events": [event]}})),
            ..Observation::default()
        }
    }

    const OWN: &str = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 3, in <module>\n[rank1]:     f()\n\
                       [rank1]: RuntimeError: Expected tensor on cuda:1 but found cuda:0\n[rank1]:[W] destroy was not called\n";
    const REMOTE: &str = "Traceback (most recent call last):\n  File \"t.py\", line 4\ntorch.distributed.DistBackendError: NCCL error\n\
                          ncclRemoteError: A call failed\n";

    #[test]
    fn the_first_that_failed_by_itself() {
        let role = |observation: &Observation| {
            first(|process| process.exit != Exit::Code(0), observation).map(|cause| cause.role)
        };
        let (one, ok) = (|| Exit::Code(1), || Exit::Code(0));
        let all = |second: &str| vec![process(0, one(), "x"), process(1, one(), second), process(2, one(), "y")];
        // By time, without those that only noticed.
        assert_eq!(role(&seen(all(OWN), &[2, 1, 0], &[])), Some(Role::Rank(2)));
        assert_eq!(role(&seen(all(OWN), &[0, 2, 1], &[0, 2])), Some(Role::Rank(1)));
        // Of those that failed alike, the lowest: which ends first is chance.
        let alike = vec![process(0, one(), "why\n"), process(1, one(), "x"), process(2, one(), "why\n")];
        assert_eq!(role(&seen(alike, &[2, 0, 1], &[])), Some(Role::Rank(0)));
        // Gloo and the store have no report, but words.
        let closed = "RuntimeError: [../gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1\n";
        let gloo = vec![process(0, one(), closed), process(1, one(), OWN)];
        assert_eq!(role(&seen(gloo, &[0, 1], &[])), Some(Role::Rank(1)));
        // Nobody failed: one rank left early.
        assert_eq!(role(&seen(vec![process(0, one(), REMOTE), process(1, ok(), "")], &[1, 0], &[0])), None);
        // torchrun ends the others.
        let mut ended = seen(vec![process(0, Exit::Signal(15), ""), process(1, one(), OWN)], &[], &[]);
        ended.processes.push(ProcessObservation { role: Role::Launcher(0), ..process(0, one(), "ChildFailedError") });
        assert_eq!(role(&ended), Some(Role::Rank(1)));
        // What ftest ended did not fail, and what is expected is no failure.
        ended.execution.ran_mut().unwrap().unfinished = vec![Role::Rank(1)];
        assert_eq!(role(&ended), None);
    }

    #[test]
    fn the_line_that_says_why() {
        let line = |text: &str| error_line(&Captured { head: text.as_bytes().to_vec(), ..Captured::default() });
        assert_eq!(line(OWN), "RuntimeError: Expected tensor on cuda:1 but found cuda:0");
        let chained = "Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'\n\nDuring handling of the above exception, another \
                       exception occurred:\n\nTraceback (most recent call last):\n  File \"b\"\nValueError: no x\nmore\n\
                       Exception ignored in: <f>\nTraceback (most recent call last):\n  File \"c\"\nOSError: late\n";
        assert_eq!(line(chained), "ValueError: no x");
        assert_eq!(line("terminate called after throwing 'std::runtime_error'\n  what():  bad size\n"), "bad size");
        assert_eq!(
            line("\nthread 'main' panicked at src/main.rs:3:5:\nindex out of bounds\nnote: run with\n"),
            "index out of bounds"
        );
        assert_eq!(line("step 1\nwrong answer\n\n"), "wrong answer");
        assert_eq!(line(""), "");
    }
}
