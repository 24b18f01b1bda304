//! Checks: an observation against what a case expects. Pure, except that a snapshot reads and writes its file.

pub mod capture;
pub mod compare;
pub mod environment;
pub mod exit;
pub mod gap;
pub mod hang;
pub mod invariant;
pub mod need;
pub mod operator;
pub mod output;
pub mod perf;
pub mod report;
pub mod report_shape;
pub mod snapshot;
pub mod stream;
pub mod tolerance;

use std::time::Duration;

use crate::case::{Case, KillTarget, Place};
use crate::observation::{Exit, Observation, Role};
use snapshot::SnapshotMode;

/// What must come of a case.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// How processes end.
    pub exit: exit::ExitExpectation,
    /// What they write.
    pub output: Vec<output::OutputCheck>,
    /// Values of reports.
    pub report: Vec<report::ReportCheck>,
    /// Expressions that are true.
    pub invariants: Vec<invariant::Invariant>,
    /// Numbers to watch.
    pub perf: Vec<perf::PerfCheck>,
    /// Accepted parts of reports.
    pub snapshots: Vec<snapshot::SnapshotCheck>,
    /// How soon the processes end, from the first start.
    pub within: Option<(Duration, Place)>,
    /// What may be left behind.
    pub leaks: Leaks,
    /// A hang that is found.
    pub hang: Option<hang::HangExpectation>,
    /// Gaps that occur.
    pub gaps: Vec<gap::GapExpectation>,
}

/// What a case may leave behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaks {
    /// No process and no socket.
    #[default]
    Processes,
    /// Nothing in `/dev/shm` either, as far as can be known.
    Strict,
    /// Anything. Processes are ended all the same.
    Allowed,
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every check held.
    Passed,
    /// A check did not hold.
    Failed,
    /// We could not play our part: a gap, or something the runner could not do.
    Broken,
    /// It did not run: why.
    Skipped(String),
    /// The kill deadline passed.
    Timeout,
    /// It did not pass, as its `xfail` says: why that is expected.
    Xfailed(String),
}

impl Verdict {
    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Broken => "broken",
            Verdict::Skipped(_) => "skipped",
            Verdict::Timeout => "timeout",
            Verdict::Xfailed(_) => "xfailed",
        }
    }

    /// Whether a run with it can end with 0.
    pub fn is_neutral(&self) -> bool {
        matches!(self, Verdict::Passed | Verdict::Skipped(_) | Verdict::Xfailed(_))
    }
}

/// A check that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where the check is written; none for what every case must satisfy.
    pub place: Option<Place>,
    /// The kind of check: `exit`, `stdout`, `report`, ...
    pub kind: &'static str,
    /// What was wanted.
    pub expected: String,
    /// What was there.
    pub got: String,
    /// What to do next; may be empty.
    pub next: String,
}

/// The verdict, and every check that did not hold. `snapshots` is what becomes of those that differ, where every other check holds.
pub fn judge(case: &Case, observation: &Observation, snapshots: SnapshotMode) -> (Verdict, Vec<Failure>) {
    if let Some(reason) = &observation.skipped {
        return (Verdict::Skipped(reason.clone()), Vec::new());
    }
    if observation.cancelled {
        return (Verdict::Skipped("interrupted while it ran".to_owned()), Vec::new());
    }
    let mut broken = ours(case, observation);
    if observation.infra_error.is_some() || observation.fixture_error.is_some() {
        return (Verdict::Broken, broken);
    }
    if let Some(whose) = observation.past.as_ref().filter(|_| observation.processes.is_empty()) {
        let got = "it was not started".to_owned();
        return (Verdict::Timeout, vec![out_of_time(case, whose, got)]);
    }
    let mut failures = always(case, observation);
    let stopped = expected(case, observation, &mut failures);
    let right = broken.is_empty() && failures.is_empty();
    let mode = if right { snapshots } else { SnapshotMode::CompareOnly };
    let checks = case.expect.snapshots.iter().filter(|_| !stopped);
    failures.extend(checks.filter_map(|check| check.check(case, observation, mode)));
    let timed_out =
        observation.timed_out && !hang::wanted(case, observation) && failed_early(case, observation).is_empty();
    let verdict = match (broken.is_empty(), timed_out, failures.is_empty()) {
        (false, _, _) => Verdict::Broken,
        (true, true, _) => Verdict::Timeout,
        (true, false, false) => Verdict::Failed,
        (true, false, true) => Verdict::Passed,
    };
    broken.extend(failures);
    (verdict, broken)
}

/// What is our fault and not the program's.
fn ours(case: &Case, observation: &Observation) -> Vec<Failure> {
    let failure = |kind, expected: &str, got: String, next: &str| Failure {
        place: None,
        kind,
        expected: expected.to_owned(),
        got,
        next: next.to_owned(),
    };
    let mut failures = Vec::new();
    if let Some(error) = &observation.infra_error {
        failures.push(failure("infra", "the case can be run", error.clone(), ""));
    }
    if let Some(error) = &observation.fixture_error {
        failures.push(Failure {
            place: Some(error.place.clone()),
            kind: "fixture",
            expected: error.expected.clone(),
            got: error.got.clone(),
            next: error.next.clone(),
        });
    }
    failures.extend(environment::failures(case, observation));
    failures.extend(gap::failures(case, observation));
    let killed = case.kill.iter().any(|kill| kill.target == KillTarget::Coordinator);
    if let Some(coordinator) = observation.process(Role::Coordinator)
        && coordinator.exit != Exit::Code(0)
        && !killed
    {
        let next = format!("its stderr is {}", coordinator.stderr.path.display());
        failures.push(failure(
            "coordinator",
            "the coordinator ends with code 0",
            exit::describe(&coordinator.exit),
            &next,
        ));
    }
    if let Some(report) = &observation.cluster_report {
        for mistake in report_shape::mistakes(report) {
            failures.push(failure("schema", "the cluster report is valid against its schema", mistake, ""));
        }
    }
    failures
}

/// What every case must satisfy.
fn always(case: &Case, observation: &Observation) -> Vec<Failure> {
    let failure = |kind, expected: String, got: String, next: String| Failure {
        place: Some(case.place.clone()),
        kind,
        expected,
        got,
        next,
    };
    let mut failures = Vec::new();
    if observation.timed_out && !hang::wanted(case, observation) && failed_early(case, observation).is_empty() {
        let deadline = case.timeout.kill.as_secs_f64();
        let got = still_running(observation);
        if let Some(whose) = &observation.past {
            failures.push(out_of_time(case, whose, got));
        } else if let Some(failure) = hang::failure(case, observation) {
            failures.push(failure);
        } else {
            failures.push(failure(
                "timeout",
                format!("ends within {deadline} s"),
                got,
                "raise `timeout.kill` if it only needs longer".to_owned(),
            ));
        }
    }
    for kill in &observation.kills_not_triggered {
        failures.push(failure("kill", "every `kill` is triggered".to_owned(), kill.clone(), String::new()));
    }
    for fault in &observation.faults_not_fired {
        failures.push(failure("fault", "every fault fires".to_owned(), fault.clone(), String::new()));
    }
    if case.expect.leaks == Leaks::Strict {
        for object in observation.shared_memory.iter().map(|object| object.display()) {
            let next = format!("who makes it has to remove it; `rm {object}`");
            failures.push(failure(
                "leak",
                "nothing is left behind".to_owned(),
                format!("shared memory {object}"),
                next,
            ));
        }
    }
    for leak in observation.leaked.iter().filter(|_| case.expect.leaks != Leaks::Allowed) {
        failures.push(failure("leak", "nothing is left behind".to_owned(), leak.clone(), String::new()));
    }
    failures
}

/// Processes that failed before the case was ended: no deadline is to blame then.
fn failed_early<'a>(case: &Case, observation: &'a Observation) -> Vec<&'a crate::observation::ProcessObservation> {
    let ended = observation.timed_out || observation.cut_short;
    if ended && case.expect.hang.is_none() { case.expect.exit.failed_early(observation) } else { Vec::new() }
}

/// Who was ended, and who had ended before.
fn still_running(observation: &Observation) -> String {
    let names = |roles: &[Role]| roles.iter().map(Role::to_string).collect::<Vec<String>>().join(", ");
    let mut text = match observation.unfinished.as_slice() {
        [] => "still running".to_owned(),
        unfinished => format!("still running: {}", names(unfinished)),
    };
    match observation.stopped.as_slice() {
        [] => {}
        [one] => text.push_str(&format!("; {one} is stopped by a signal")),
        several => text.push_str(&format!("; {} are stopped by a signal", names(several))),
    }
    let mut before: Vec<(String, Vec<Role>)> = Vec::new();
    for process in observation.finished().filter(|process| process.role != Role::Coordinator) {
        let end = exit::describe(&process.exit);
        match before.iter_mut().find(|(known, _)| *known == end) {
            Some((_, roles)) => roles.push(process.role),
            None => before.push((end, vec![process.role])),
        }
    }
    for (end, roles) in before {
        text.push_str(&format!("; {} had ended: {end}", names(&roles)));
    }
    text
}

fn out_of_time(case: &Case, whose: &str, got: String) -> Failure {
    let expected = format!("it ends before the time of {whose} is up");
    Failure { place: Some(case.place.clone()), kind: "timeout", expected, got, next: String::new() }
}

/// The failure of a case whose processes ended, but not soon enough.
fn too_late(case: &Case, observation: &Observation) -> Option<Failure> {
    let (within, place) = case.expect.within.as_ref()?;
    let ended = observation.timed_out || observation.cut_short;
    let late = observation.duration > *within && (!ended || hang::wanted(case, observation));
    late.then(|| Failure {
        place: Some(place.clone()),
        kind: "within",
        expected: format!("ends within {} s", within.as_secs_f64()),
        got: format!("it ended in {:.1} s", observation.duration.as_secs_f64()),
        next: String::new(),
    })
}

/// The checks of the case. True when a fatal one does not hold: those after it are not made.
fn expected(case: &Case, observation: &Observation, failures: &mut Vec<Failure>) -> bool {
    let expect = &case.expect;
    let mut stops = |found: Vec<Failure>, fatal: bool| {
        let stops = fatal && !found.is_empty();
        failures.extend(found);
        if let Some(last) = failures.last_mut().filter(|_| stops) {
            let note = "it is `fatal`: no check after it was made";
            last.next = if last.next.is_empty() { note.to_owned() } else { format!("{}\n{note}", last.next) };
        }
        stops
    };
    // How processes end is not asked where the deadline ended those that did nothing wrong, nor where a hang is what is wanted.
    let asked = !observation.timed_out || !failed_early(case, observation).is_empty();
    let exits = if asked { expect.exit.check(observation) } else { Vec::new() };
    if stops(exits, expect.exit.fatal) {
        return true;
    }
    for check in &expect.output {
        if stops(check.check(observation).into_iter().collect(), check.fatal) {
            return true;
        }
    }
    let captures = capture::Captures::collect(&expect.output, observation);
    for check in &expect.report {
        if stops(check.check(observation, &captures), check.fatal) {
            return true;
        }
    }
    if !expect.invariants.is_empty() {
        let context = invariant::context(case, observation, &captures);
        for invariant in &expect.invariants {
            if stops(invariant.check(&context, &captures).into_iter().collect(), invariant.fatal) {
                return true;
            }
        }
    }
    failures.extend(too_late(case, observation));
    failures.extend(expect.perf.iter().filter_map(|check| check.check(observation, &captures).1));
    failures.extend(expect.hang.iter().flat_map(|hang| hang.check(observation)));
    failures.extend(expect.gaps.iter().filter_map(|gap| gap.check(observation)));
    false
}

#[cfg(test)]
mod tests;
