//! A run, built from its events: the one fold that every report, the exit code and later runs use.

use super::concluded;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::case::Case;
use crate::check::Failure;
use crate::record::event::{Attempt, CaseInfo, Event, RunInfo};
use crate::verdict::Verdict;
use crate::verdict::conclusion::Conclusion;
use crate::verdict::exit_code::ExitCode;

/// A run, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The data of its first line; the cases are in `cases`.
    pub info: RunInfo,
    /// The selected cases, in suite order, with their results.
    pub cases: Vec<CaseRun>,
    /// Fixtures (`suite/fixture`) that could not be torn down, in the order of the events.
    pub teardowns: Vec<(String, Failure)>,
    /// How it ended; none while it goes on, and in the log of a run that was killed.
    pub end: Option<RunEnd>,
    /// Where the files of its attempts are; empty if no directory is known.
    pub directory: PathBuf,
    index: HashMap<String, usize>,
    /// Bytes of streams in memory.
    text: usize,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Wall clock, ms since 1970.
    pub at_ms: u64,
    /// Time of the run, us.
    pub duration_us: u64,
    /// Ctrl-C or SIGTERM ended it.
    pub interrupted: bool,
    /// What `ftest` ended with.
    pub exit_code: u8,
}

/// One case of a run.
#[derive(Clone, Debug, Default)]
pub struct CaseRun {
    /// What was known before.
    pub info: CaseInfo,
    /// Wall clock of its start, ms since 1970; none when it did not start.
    pub started_ms: Option<u64>,
    /// Its attempts, in order. A case that was skipped before it began has none.
    pub attempts: Vec<Attempt>,
    /// The verdict; none while there is none: the case runs, waits, or was not run.
    pub end: Option<CaseEnd>,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseEnd {
    /// What counts.
    pub verdict: Verdict,
    /// It passed after an attempt that did not.
    pub flaky: bool,
    /// The failures of a policy, beyond those of the attempts.
    pub failures: Vec<Failure>,
    /// Other things a reader should know.
    pub notes: Vec<String>,
}

impl CaseRun {
    /// A case as it was before it ran.
    pub fn new(info: CaseInfo) -> CaseRun {
        CaseRun { info, ..CaseRun::default() }
    }

    /// A case that ran alone.
    pub fn concluded(case: &Case, conclusion: &Conclusion) -> CaseRun {
        let mut run = CaseRun::new(CaseInfo::from(case));
        concluded::events(conclusion, case, None).iter().for_each(|event| run.apply(event));
        run
    }

    /// Takes note of an event of this case.
    fn apply(&mut self, event: &Event) {
        match event {
            Event::CaseStarted { at_ms, .. } => self.started_ms = Some(*at_ms),
            Event::AttemptFinished { attempt, .. } => self.attempts.push(attempt.clone()),
            Event::CaseFinished { verdict, flaky, failures, notes, .. } => {
                self.end = Some(CaseEnd {
                    verdict: verdict.clone(),
                    flaky: *flaky,
                    failures: failures.clone(),
                    notes: notes.clone(),
                });
            }
            Event::RunStarted(_)
            | Event::Preparing { .. }
            | Event::TeardownFailed { .. }
            | Event::RunFinished { .. } => {}
        }
    }

    /// The last attempt: the one that counts.
    pub fn last(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// The attempt that explains most: the first that did not pass, else the last.
    pub fn shown(&self) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.verdict != Verdict::Passed).or(self.last())
    }

    /// Time of all attempts, us.
    pub fn duration_us(&self) -> u64 {
        self.attempts.iter().map(|attempt| attempt.duration_us).sum()
    }

    /// Whether the attempt that counts was slow.
    pub fn slow(&self) -> bool {
        self.last().is_some_and(|attempt| attempt.slow)
    }

    /// The verdict, if there is one.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.end.as_ref().map(|end| &end.verdict)
    }

    /// It passed after an attempt that did not.
    pub fn flaky(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.flaky)
    }

    /// Other things a reader should know.
    pub fn notes(&self) -> &[String] {
        self.end.as_ref().map(|end| end.notes.as_slice()).unwrap_or_default()
    }

    /// Failures of a policy (`retries`, `xfail`), which are not in an attempt.
    pub fn policy_failures(&self) -> &[Failure] {
        self.end.as_ref().map(|end| end.failures.as_slice()).unwrap_or_default()
    }

    /// Every check that did not hold: those of the policy, then those of the attempt that explains most.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.policy_failures().iter().chain(self.shown().into_iter().flat_map(|attempt| &attempt.failures))
    }

    /// It has no verdict, or one with which a run cannot end with 0.
    pub fn is_open(&self) -> bool {
        self.verdict().is_none_or(|verdict| !verdict.is_neutral())
    }
}

/// Bytes of streams in memory. Beyond them the streams of later attempts are in their files only.
const TEXT: usize = 64 << 20;

impl Run {
    /// A run that is kept in `directory`: paths of its events are taken from there.
    pub fn in_directory(directory: &Path) -> Run {
        Run { directory: directory.to_owned(), ..Run::default() }
    }

    /// The fold of events in order.
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Run {
        let mut run = Run::default();
        events.into_iter().for_each(|event| run.apply(event));
        run
    }

    /// Takes note of what happened. Events of cases that the run does not have are passed over.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::RunStarted(info) => {
                let mut info = info.clone();
                let cases = std::mem::take(&mut info.cases);
                self.index = cases.iter().enumerate().map(|(index, case)| (case.case.clone(), index)).collect();
                self.cases = cases.into_iter().map(CaseRun::new).collect();
                self.info = info;
            }
            Event::Preparing { .. } => {}
            Event::CaseStarted { case, .. } | Event::CaseFinished { case, .. } => {
                if let Some(case) = self.index.get(case).and_then(|index| self.cases.get_mut(*index)) {
                    case.apply(event);
                }
            }
            Event::AttemptFinished { case, attempt } => {
                if let Some(case) = self.index.get(case).and_then(|index| self.cases.get_mut(*index)) {
                    let mut attempt = attempt.clone();
                    settle(&mut attempt, &self.directory, &mut self.text);
                    case.attempts.push(attempt);
                }
            }
            Event::TeardownFailed { fixture, failure } => self.teardowns.push((fixture.clone(), failure.clone())),
            Event::RunFinished { at_ms, duration_us, interrupted, exit_code } => {
                self.end = Some(RunEnd {
                    at_ms: *at_ms,
                    duration_us: *duration_us,
                    interrupted: *interrupted,
                    exit_code: *exit_code,
                });
            }
        }
    }

    /// Events that make this run: case by case, in any order of arrival.
    pub fn events(&self) -> Vec<Event> {
        let cases = self.cases.iter().map(|case| case.info.clone()).collect();
        let mut events = vec![Event::RunStarted(RunInfo { cases, ..self.info.clone() })];
        for run in &self.cases {
            let case = || run.info.case.clone();
            events.extend(run.started_ms.map(|at_ms| Event::CaseStarted { case: case(), at_ms }));
            let attempts = run.attempts.iter().cloned();
            events.extend(attempts.map(|attempt| Event::AttemptFinished { case: case(), attempt }));
            events.extend(run.end.clone().map(|end| Event::CaseFinished {
                case: case(),
                verdict: end.verdict,
                flaky: end.flaky,
                failures: end.failures,
                notes: end.notes,
            }));
        }
        let teardowns = self.teardowns.iter().cloned();
        events.extend(teardowns.map(|(fixture, failure)| Event::TeardownFailed { fixture, failure }));
        events.extend(self.end.map(|end| Event::RunFinished {
            at_ms: end.at_ms,
            duration_us: end.duration_us,
            interrupted: end.interrupted,
            exit_code: end.exit_code,
        }));
        events
    }

    /// SourceLocation of a case in `cases`, by its full id.
    pub fn position(&self, case: &str) -> Option<usize> {
        self.index.get(case).copied()
    }

    /// A case, by its full id.
    pub fn case(&self, case: &str) -> Option<&CaseRun> {
        self.cases.get(self.position(case)?)
    }

    /// How many cases have each verdict, by its word; `not run` are those without one.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for case in &self.cases {
            *counts.entry(case.verdict().map_or("not run", Verdict::word)).or_default() += 1;
        }
        counts
    }

    /// Why a case without a verdict has none.
    pub fn not_run(&self) -> &'static str {
        match &self.end {
            None => "not run: the run did not end",
            Some(end) if end.interrupted => "not run: the run was interrupted",
            Some(_) if self.cases.iter().all(|case| case.verdict().is_none_or(Verdict::is_neutral)) => {
                "not run: nobody asked for it"
            }
            Some(_) => "not run: an earlier case did not pass",
        }
    }

    /// Whether it was cut off before all its cases had a verdict.
    pub fn is_cut_off(&self) -> bool {
        self.end.is_none_or(|end| end.interrupted)
    }

    /// What the verdicts and teardowns make of the run, and what is missing of it; a signal that ended it is not in them.
    pub fn verdict_code(&self) -> ExitCode {
        let verdicts = self.cases.iter().filter_map(CaseRun::verdict).map(ExitCode::from_verdict);
        let teardowns = self.teardowns.iter().map(|_| ExitCode::CouldNotRun);
        let missing = (!self.info.missing.is_empty() && !self.info.partial).then_some(ExitCode::CouldNotRun);
        verdicts.chain(teardowns).chain(missing).max().unwrap_or(ExitCode::Passed)
    }
}

/// Joins the paths of `attempt` to `directory`, and drops its streams when `text` is over its limit.
fn settle(attempt: &mut Attempt, directory: &Path, text: &mut usize) {
    let absolute = |path: &mut Option<PathBuf>| {
        if let Some(path) = path {
            *path = directory.join(&*path);
        }
    };
    absolute(&mut attempt.cluster_report);
    absolute(&mut attempt.device_reports);
    absolute(&mut attempt.kept);
    if let Some(hang) = &mut attempt.hang {
        absolute(&mut hang.flight_record);
    }
    for stream in attempt.processes.iter_mut().flat_map(|process| [&mut process.stdout, &mut process.stderr]) {
        absolute(&mut stream.file);
        let bytes = stream.head.len() + stream.tail.len();
        if *text + bytes > TEXT {
            stream.head.clear();
            stream.tail.clear();
            stream.truncated = true;
        } else {
            *text += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let info = |name: &str| CaseInfo { case: name.into(), ..CaseInfo::default() };
        let cases = vec![info("s/a"), info("s/b"), info("s/c")];
        let attempt =
            |number, verdict| Attempt { number, verdict, duration_us: u64::from(number), ..Attempt::default() };
        let finished = |case: &str, attempt| Event::AttemptFinished { case: case.into(), attempt };
        Run::from_events(&[
            Event::RunStarted(RunInfo { run: "r".into(), cases, ..RunInfo::default() }),
            Event::CaseStarted { case: "s/b".into(), at_ms: 5 },
            Event::CaseStarted { case: "s/nobody".into(), at_ms: 5 },
            finished("s/b", attempt(1, Verdict::Failed)),
            finished("s/b", attempt(2, Verdict::Passed)),
            Event::CaseFinished {
                case: "s/b".into(),
                verdict: Verdict::Passed,
                flaky: true,
                failures: Vec::new(),
                notes: Vec::new(),
            },
            Event::CaseStarted { case: "s/a".into(), at_ms: 6 },
        ])
    }

    #[test]
    fn attempts_and_verdicts_come_to_their_cases() {
        let run = run();
        let b = run.case("s/b").unwrap();
        assert_eq!((b.started_ms, b.attempts.len(), b.duration_us()), (Some(5), 2, 3));
        assert!(b.end.as_ref().is_some_and(|end| end.flaky) && !b.is_open());
        assert!(run.case("s/a").unwrap().is_open() && run.case("s/nobody").is_none());
        assert_eq!(run.counts(), BTreeMap::from([("passed", 1), ("not run", 2)]));
        assert_eq!((run.info.run.as_str(), run.not_run()), ("r", "not run: the run did not end"));
    }

    #[test]
    fn the_worst_verdict_is_the_code() {
        let mut run = run();
        assert_eq!(run.verdict_code(), ExitCode::Passed);
        for (verdict, code) in [
            (Verdict::Xfailed { reason: String::new() }, ExitCode::Passed),
            (Verdict::Timeout, ExitCode::Failed),
            (Verdict::Broken, ExitCode::CouldNotRun),
        ] {
            run.apply(&Event::CaseFinished {
                case: "s/a".into(),
                verdict,
                flaky: false,
                failures: Vec::new(),
                notes: Vec::new(),
            });
            assert_eq!(run.verdict_code(), code);
        }
    }

    #[test]
    fn a_teardown_that_failed_is_an_error_of_the_run() {
        let mut run = run();
        run.apply(&Event::TeardownFailed { fixture: "s/f".into(), failure: Failure::default() });
        assert_eq!(run.verdict_code(), ExitCode::CouldNotRun);
    }
}
