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
        outcome: Arc<Outcome>,
    },
    /// After the last case.
    RunFinished {
        /// Wall time of the run.
        duration: Duration,
        /// Ctrl-C or SIGTERM ended it.
        interrupted: bool,
    },
}

/// What came of one case.
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
