//! A case's policy for its own failures: `retries` (try again) and `xfail` (a known failure).

use std::time::{Duration, SystemTime};

use regex::bytes::Regex;

use jiff::civil::Date;

use crate::host::calendar;
use crate::host::variable;
use crate::source::SourceLocation;

/// When a case that did not pass is retried.
#[derive(Clone, Debug)]
pub struct Retries {
    /// Attempts after the first, at most.
    pub count: u32,
    /// An attempt that matches none of these is final. If empty, every failure except a gap is retried.
    pub only_if: Vec<RetryIf>,
    /// Between two attempts.
    pub delay: Duration,
    /// How a pass after a failure counts.
    pub flaky: Flaky,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// A kind of failure.
#[derive(Clone, Debug)]
pub enum RetryIf {
    /// The runner, the coordinator or a fixture failed.
    Infra,
    /// A deadline passed, or the case hung.
    Timeout,
    /// A rank or launcher was ended by an unexpected signal.
    Crash,
    /// Another check did not hold.
    Check,
    /// Some rank or launcher wrote this to stdout.
    Stdout(Regex),
    /// Some rank or launcher wrote this to stderr.
    Stderr(Regex),
}

/// How a pass after a failure counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaky {
    /// A failure in CI (if `CI` is set), otherwise a pass.
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

/// A failure that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xfail {
    /// Why the case fails.
    pub reason: String,
    /// Where the failure is tracked.
    pub issue: Option<String>,
    /// A pass counts as a failure, because the mark is outdated.
    pub strict: bool,
    /// The last day on which the mark is valid.
    pub until: Option<Date>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

impl Xfail {
    /// `reason`, with the issue.
    pub fn describe(&self) -> String {
        match &self.issue {
            Some(issue) => format!("{}, {issue}", self.reason),
            None => self.reason.clone(),
        }
    }

    /// Whether the mark is valid on the day of `now`.
    pub fn counts(&self, now: SystemTime) -> bool {
        self.until.is_none_or(|until| calendar::date(now) <= until)
    }
}
