//! What the run announces: the only link between execution and reports.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::case::Case;
use crate::check::{Failure, Verdict};
use crate::observation::Observation;

/// One thing that happened in a run.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Before the first case.
    RunStarted {
        /// The selected cases, in suite order.
        cases: Vec<Arc<Case>>,
        /// Wall clock, for display only.
        at: SystemTime,
    },
    /// A managed environment or another thing all cases wait for is being made.
    Preparing(String),
    /// A case left the queue. Cases start in any order.
    CaseStarted {
        /// Index in `RunStarted::cases`.
        index: usize,
    },
    /// A case ended. Cases end in any order.
    CaseFinished {
        /// Index in `RunStarted::cases`.
        index: usize,
        /// What came of it.
        conclusion: Arc<Conclusion>,
    },
    /// A fixture could not be torn down: an error of the run, not of a case.
    TeardownFailed {
        /// `suite/fixture`.
        fixture: String,
        /// What went wrong.
        failure: Failure,
    },
    /// After the last case.
    RunFinished {
        /// Wall time of the run.
        duration: Duration,
        /// Ctrl-C or SIGTERM ended it.
        interrupted: bool,
    },
}

/// What came of one case: its attempts, and what a policy (`retries`, `xfail`) makes of them.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// What counts: the last attempt's verdict unless a policy says otherwise.
    pub verdict: Verdict,
    /// It passed after an attempt that did not.
    pub flaky: bool,
    /// What the attempts do not tell: a policy that made the verdict.
    pub failures: Vec<Failure>,
    /// What a reader should know besides, in words.
    pub notes: Vec<String>,
    /// At least one, in order.
    pub attempts: Vec<Outcome>,
}

impl Conclusion {
    /// The conclusion from one attempt that no policy touches.
    pub fn of(outcome: Outcome) -> Conclusion {
        Conclusion {
            verdict: outcome.verdict.clone(),
            flaky: false,
            failures: Vec::new(),
            notes: Vec::new(),
            attempts: vec![outcome],
        }
    }

    /// The attempt that explains most, and its number from 1: the first that did not pass, else the last.
    pub fn shown(&self) -> (usize, &Outcome) {
        let failed = self.attempts.iter().position(|attempt| attempt.verdict != Verdict::Passed);
        let index = failed.unwrap_or(self.attempts.len().saturating_sub(1));
        (index + 1, &self.attempts[index])
    }

    /// Time of all attempts.
    pub fn duration(&self) -> Duration {
        self.attempts.iter().map(|attempt| attempt.observation.duration).sum()
    }

    /// Whether the attempt that counts was slow.
    pub fn slow(&self) -> bool {
        self.attempts.last().is_some_and(|attempt| attempt.slow)
    }
}

/// What came of one attempt of a case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// Every check that did not hold, in the order of the file.
    pub failures: Vec<Failure>,
    /// What was seen.
    pub observation: Observation,
    /// It took longer than `timeout.slow`.
    pub slow: bool,
    /// The scratch directory was left in place.
    pub kept: bool,
}
