//! What a case says about its own failure: `retries` (try again) and `xfail` (a known one).

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use regex::bytes::Regex;

use crate::calendar::Date;
use crate::case::{Case, Place};
use crate::check::{Failure, Verdict};
use crate::conclusion::{Conclusion, Outcome};
use crate::observation::{Captured, Exit, Observation, Role};
use crate::variable;

/// When a case that did not pass is tried again.
#[derive(Clone, Debug)]
pub struct Retries {
    /// Attempts after the first, at most.
    pub count: u32,
    /// An attempt that matches none of these stands; without any, every failure but a gap is tried again.
    pub only_if: Vec<RetryIf>,
    /// Between two attempts.
    pub delay: Duration,
    /// What a pass after a failure is.
    pub flaky: Flaky,
    /// Where it is written.
    pub place: Place,
}

/// A kind of failure.
#[derive(Clone, Debug)]
pub enum RetryIf {
    /// The runner, the coordinator or a fixture could not play its part.
    Infra,
    /// A deadline passed, or nothing moved any more.
    Timeout,
    /// A rank or launcher was ended by a signal that nobody wanted.
    Crash,
    /// Another check did not hold.
    Check,
    /// Some rank or launcher wrote this to stdout.
    Stdout(Regex),
    /// Some rank or launcher wrote this to stderr.
    Stderr(Regex),
}

/// What a pass after a failure is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaky {
    /// A failure in CI (where `CI` is set), else a pass.
    #[default]
    ByPlace,
    /// A pass, marked.
    Pass,
    /// A failure.
    Fail,
}

impl Flaky {
    /// Whether a flaky case fails.
    pub fn fails(self) -> bool {
        match self {
            Flaky::ByPlace => variable::is_set("CI"),
            Flaky::Pass => false,
            Flaky::Fail => true,
        }
    }
}

impl RetryIf {
    fn accepts(&self, case: &Case, outcome: &Outcome) -> bool {
        let failed = outcome.verdict == Verdict::Failed;
        match self {
            RetryIf::Infra => outcome.verdict == Verdict::Broken,
            RetryIf::Timeout => outcome.verdict == Verdict::Timeout,
            RetryIf::Crash => failed && crashed(case, &outcome.observation),
            RetryIf::Check => failed && !crashed(case, &outcome.observation),
            RetryIf::Stdout(regex) => wrote(&outcome.observation, |(stdout, _)| stdout, regex),
            RetryIf::Stderr(regex) => wrote(&outcome.observation, |(_, stderr)| stderr, regex),
        }
    }
}

impl Retries {
    /// Whether an attempt that came out so is to be made again.
    pub fn again(&self, case: &Case, outcome: &Outcome) -> bool {
        let failed = matches!(outcome.verdict, Verdict::Failed | Verdict::Timeout | Verdict::Broken);
        // What we do not play is not there the next time either.
        let gap = outcome.failures.iter().any(|failure| failure.kind == "gap");
        let wanted = self.only_if.is_empty() || self.only_if.iter().any(|class| class.accepts(case, outcome));
        let time = outcome.observation.past.is_none();
        failed && !gap && wanted && time
    }
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

/// A failure that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xfail {
    /// Why the case fails.
    pub reason: String,
    /// Where that is tracked.
    pub issue: Option<String>,
    /// A pass is a failure: the mark has to go.
    pub strict: bool,
    /// The last day on which the mark counts.
    pub until: Option<Date>,
    /// Where it is written.
    pub place: Place,
}

impl Xfail {
    /// `reason`, with the issue.
    pub fn describe(&self) -> String {
        match &self.issue {
            Some(issue) => format!("{}, {issue}", self.reason),
            None => self.reason.clone(),
        }
    }

    /// Whether the mark counts on the day of `now`.
    pub fn counts(&self, now: SystemTime) -> bool {
        self.until.is_none_or(|until| Date::of(now) <= until)
    }

    /// What the mark, which counts, makes of `conclusion`.
    pub fn apply(&self, conclusion: &mut Conclusion) {
        match conclusion.verdict {
            Verdict::Failed | Verdict::Timeout => match self.other(conclusion.shown().1) {
                Some(why) => conclusion.notes.push(format!("not what `xfail` ({}) expects: {why}", self.place)),
                None => conclusion.verdict = Verdict::Xfailed(self.describe()),
            },
            Verdict::Passed if self.strict => {
                conclusion.verdict = Verdict::Failed;
                conclusion.failures.push(Failure {
                    place: Some(self.place.clone()),
                    kind: "xfail",
                    expected: format!("the case fails: {}", self.describe()),
                    got: "it passed".to_owned(),
                    next: "if it is repaired, remove `xfail`; if it passes now and then, write `strict: false`"
                        .to_owned(),
                });
            }
            Verdict::Passed => {
                conclusion.notes.push(format!("it passed; `xfail` ({}) expects: {}", self.place, self.describe()));
            }
            Verdict::Broken => {
                conclusion.notes.push(format!("`xfail` ({}) does not cover what ftest could not play", self.place))
            }
            Verdict::Skipped(_) | Verdict::Xfailed(_) => {}
        }
    }

    /// Why a failure is another than the known one, as far as that can be told.
    fn other(&self, outcome: &Outcome) -> Option<String> {
        if let Some(whose) = &outcome.observation.past {
            return Some(format!("the time of {whose} was up"));
        }
        // The case must have come to where it fails.
        if !outcome.failures.is_empty()
            && outcome.failures.iter().all(|failure| matches!(failure.kind, "kill" | "fault"))
        {
            return Some("a `kill` or a fault did not happen".to_owned());
        }
        static NOT_LOADED: OnceLock<Option<Regex>> = OnceLock::new();
        let pattern =
            r"(?m)^(?:\[[^\]\n]*\]:? ?)*(?:ModuleNotFoundError|ImportError|SyntaxError|IndentationError): .*$";
        let regex = NOT_LOADED.get_or_init(|| Regex::new(pattern).ok()).as_ref()?;
        let streams = outcome.observation.processes.iter().map(|process| &process.stderr);
        let found = streams.flat_map(|stream| [&stream.head, &stream.tail]).find_map(|bytes| regex.find(bytes))?;
        Some(format!("the program did not load: {}", String::from_utf8_lossy(found.as_bytes()).trim()))
    }
}
