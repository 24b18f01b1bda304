//! The effect of a case's `retries` and `xfail` on its attempts.

use std::sync::OnceLock;

use regex::bytes::Regex;

use super::Verdict;
use super::conclusion::{Conclusion, Outcome};
use crate::case::Case;
use crate::case::policy::{Retries, RetryIf, Xfail};
use crate::check::{Failure, FailureKind};
use crate::observation::{Captured, Exit, Observation, Role};

fn accepts(class: &RetryIf, case: &Case, outcome: &Outcome) -> bool {
    let failed = outcome.verdict == Verdict::Failed;
    match class {
        RetryIf::Infra => outcome.verdict == Verdict::Broken,
        RetryIf::Timeout => outcome.verdict == Verdict::Timeout,
        RetryIf::Crash => failed && crashed(case, &outcome.observation),
        RetryIf::Check => failed && !crashed(case, &outcome.observation),
        RetryIf::Stdout(regex) => wrote(&outcome.observation, |(stdout, _)| stdout, regex),
        RetryIf::Stderr(regex) => wrote(&outcome.observation, |(_, stderr)| stderr, regex),
    }
}

/// Whether an attempt with this outcome is repeated.
pub fn again(retries: &Retries, case: &Case, outcome: &Outcome) -> bool {
    let failed = matches!(outcome.verdict, Verdict::Failed | Verdict::Timeout | Verdict::Broken);
    // A gap is still a gap the next time.
    let gap = outcome.failures.iter().any(|failure| failure.kind == FailureKind::Gap);
    let wanted = retries.only_if.is_empty() || retries.only_if.iter().any(|class| accepts(class, case, outcome));
    let time = outcome.observation.execution.expired_limit().is_none();
    failed && !gap && wanted && time
}

fn crashed(case: &Case, observation: &Observation) -> bool {
    let programs = observation.finished().filter(|process| process.role != Role::Coordinator);
    programs.into_iter().any(|process| {
        matches!(process.exit, Exit::Signal(_)) && !case.expect.exit.accepts(process.role, &process.exit)
    })
}

type Streams<'a> = (&'a Captured, &'a Captured);

fn wrote(observation: &Observation, of: impl Fn(Streams<'_>) -> &Captured, regex: &Regex) -> bool {
    let programs = observation.processes.iter().filter(|process| process.role != Role::Coordinator);
    programs
        .map(|process| of((&process.stdout, &process.stderr)))
        .any(|stream| regex.is_match(&stream.head) || regex.is_match(&stream.tail))
}

/// Applies a valid `xfail` to `conclusion`.
pub fn apply(xfail: &Xfail, conclusion: &mut Conclusion) {
    match conclusion.verdict {
        Verdict::Failed | Verdict::Timeout => match other(conclusion.shown().1) {
            Some(why) => conclusion.notes.push(format!("not what `xfail` ({}) expects: {why}", xfail.place)),
            None => conclusion.verdict = Verdict::Xfailed { reason: xfail.describe() },
        },
        Verdict::Passed if xfail.strict => {
            conclusion.verdict = Verdict::Failed;
            conclusion.failures.push(Failure {
                place: Some(xfail.place.clone()),
                kind: FailureKind::Xfail,
                expected: format!("the case fails: {}", xfail.describe()),
                got: "it passed".to_owned(),
                next: "if it is fixed, remove `xfail`; if it only passes sometimes, write `strict: false`".to_owned(),
            });
        }
        Verdict::Passed => {
            conclusion.notes.push(format!("it passed; `xfail` ({}) expects: {}", xfail.place, xfail.describe()));
        }
        Verdict::Broken => {
            conclusion.notes.push(format!("`xfail` ({}) does not cover what ftest could not simulate", xfail.place))
        }
        Verdict::Skipped { .. } | Verdict::Xfailed { .. } => {}
    }
}

/// Why a failure differs from the known one, as far as can be told.
fn other(outcome: &Outcome) -> Option<String> {
    if let Some(whose) = outcome.observation.execution.expired_limit() {
        return Some(format!("the time of {whose} was up"));
    }
    // The case must have reached the point where it fails.
    if !outcome.failures.is_empty()
        && outcome
            .failures
            .iter()
            .all(|failure| matches!(failure.kind, FailureKind::Kill | FailureKind::Cut | FailureKind::Fault))
    {
        return Some("a `kill`, a cut or a fault did not happen".to_owned());
    }
    static NOT_LOADED: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = r"(?m)^(?:\[[^\]\n]*\]:? ?)*(?:ModuleNotFoundError|ImportError|SyntaxError|IndentationError): .*$";
    let regex = NOT_LOADED.get_or_init(|| Regex::new(pattern).ok()).as_ref()?;
    let streams = outcome.observation.processes.iter().map(|process| &process.stderr);
    let found = streams.flat_map(|stream| [&stream.head, &stream.tail]).find_map(|bytes| regex.find(bytes))?;
    Some(format!("the program did not load: {}", String::from_utf8_lossy(found.as_bytes()).trim()))
}
