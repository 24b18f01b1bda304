//! Whether a case ran, and how that ended: one of several outcomes that exclude each other.

use super::{Hang, Role};
use crate::source::SourceLocation;

/// What became of a case.
#[derive(Clone, Debug)]
pub enum Execution {
    /// A requirement that only the executor can check is not met: this one.
    Skipped(String),
    /// The user stopped the run before the case was started.
    Interrupted,
    /// The time of this limit was up before the case was started.
    OutOfTime(String),
    /// A fixture that the case uses could not be set up: the case is broken.
    NoFixture(FixtureError),
    /// The interpreter lacks something that the case declares in `python`: the case is broken.
    NoPython(PythonError),
    /// An operation that the runner failed at before it started a rank (coordinator, environment): the case is broken.
    NotStarted(String),
    /// It was started.
    Ran(Box<Ran>),
}

/// The execution of a case that was started.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Why its processes ended.
    pub stop: Stop,
    /// An operation that the runner failed at meanwhile (spawn, coordinator, report): the case is broken.
    pub infra_error: Option<String>,
    /// The processes that ended, in order of time as far as it was seen.
    pub ends: Vec<Role>,
    /// Processes still running when the case was ended: their exits do not count.
    pub unfinished: Vec<Role>,
    /// Those that were stopped by a signal (SIGSTOP).
    pub stopped: Vec<Role>,
    /// What the case wants to happen, and what never did.
    pub missed: Missed,
}

/// Why the processes of a case ended.
#[derive(Clone, Debug, Default)]
pub enum Stop {
    /// Each ended by itself, or because ftest failed at something.
    #[default]
    Finished,
    /// The run was interrupted while the case ran.
    Interrupted,
    /// A deadline passed, or nothing moved for `timeout.idle`.
    TimedOut {
        /// The limit that expired before the case's own deadline.
        limit: Option<String>,
        /// What the processes waited for.
        waiting: Waiting,
    },
    /// A rank or launcher ended with an error that the case does not expect, and the others were ended after a while.
    CutShort(Waiting),
}

/// What processes waited for that were ended.
#[derive(Clone, Debug)]
pub enum Waiting {
    /// Why nothing progressed any more.
    Hang(Box<Hang>),
    /// Where those were and what they waited for, if none waited for another in NCCL.
    Whereabouts(Vec<String>),
}

/// Messages about what the case wants to happen and never did: the case fails.
#[derive(Clone, Debug, Default)]
pub struct Missed {
    /// Triggers of `kill` that never matched.
    pub kills: Vec<String>,
    /// The same for link cuts.
    pub cuts: Vec<String>,
    /// `faults` that never fired.
    pub faults: Vec<String>,
}

impl Default for Execution {
    fn default() -> Self {
        Execution::Ran(Box::default())
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Waiting::Whereabouts(Vec::new())
    }
}

impl Waiting {
    /// What is known of processes that were ended.
    pub fn new(hang: Option<Hang>) -> Waiting {
        hang.map_or_else(Waiting::default, |hang| Waiting::Hang(Box::new(hang)))
    }
}

impl Stop {
    /// A deadline passed, or nothing moved.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Stop::TimedOut { .. })
    }

    /// What the processes waited for, if ftest ended them after some time.
    pub fn waiting(&self) -> Option<&Waiting> {
        match self {
            Stop::Finished | Stop::Interrupted => None,
            Stop::TimedOut { waiting, .. } | Stop::CutShort(waiting) => Some(waiting),
        }
    }

    /// The same, to be completed.
    pub fn waiting_mut(&mut self) -> Option<&mut Waiting> {
        match self {
            Stop::Finished | Stop::Interrupted => None,
            Stop::TimedOut { waiting, .. } | Stop::CutShort(waiting) => Some(waiting),
        }
    }

    /// Why nothing progressed any more, if known.
    pub fn hang(&self) -> Option<&Hang> {
        match self.waiting()? {
            Waiting::Hang(hang) => Some(hang),
            Waiting::Whereabouts(_) => None,
        }
    }
}

impl Execution {
    /// The execution of a case that was started.
    pub fn ran(&self) -> Option<&Ran> {
        match self {
            Execution::Ran(ran) => Some(ran),
            _ => None,
        }
    }

    /// The same, to be completed.
    pub fn ran_mut(&mut self) -> Option<&mut Ran> {
        match self {
            Execution::Ran(ran) => Some(ran),
            _ => None,
        }
    }

    /// The operation that the runner failed at.
    pub fn infra_error(&self) -> Option<&str> {
        match self {
            Execution::NotStarted(error) => Some(error),
            Execution::Ran(ran) => ran.infra_error.as_deref(),
            _ => None,
        }
    }

    /// The limit that expired before the case's own deadline: the case was ended, or never started.
    pub fn expired_limit(&self) -> Option<&str> {
        match self {
            Execution::OutOfTime(whose) => Some(whose),
            Execution::Ran(ran) => match &ran.stop {
                Stop::TimedOut { limit, .. } => limit.as_deref(),
                _ => None,
            },
            _ => None,
        }
    }

    /// The user stopped the run before the case was over.
    pub fn is_interrupted(&self) -> bool {
        match self {
            Execution::Interrupted => true,
            Execution::Ran(ran) => matches!(ran.stop, Stop::Interrupted),
            _ => false,
        }
    }

    /// The case ran, and a deadline passed or nothing moved.
    pub fn is_timeout(&self) -> bool {
        self.ran().is_some_and(|ran| ran.stop.is_timeout())
    }

    /// The processes of the case were ended at a deadline, because nothing moved, or some time after one of them failed.
    pub fn was_ended(&self) -> bool {
        self.ran().is_some_and(|ran| ran.stop.waiting().is_some())
    }

    /// Why nothing progressed any more, if known.
    pub fn hang(&self) -> Option<&Hang> {
        self.ran()?.stop.hang()
    }

    /// Processes still running when the case was ended: their exits do not count.
    pub fn unfinished(&self) -> &[Role] {
        self.ran().map_or(&[], |ran| &ran.unfinished)
    }
}

/// Why a fixture could not be set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixtureError {
    /// Where the suite defines its setup.
    pub place: SourceLocation,
    /// What was wanted.
    pub expected: String,
    /// What happened instead, with the last output of the setup.
    pub got: String,
    /// What to do next; may be empty.
    pub next: String,
}

/// An interpreter that is not what a case declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonError {
    /// What the case declares.
    pub expected: String,
    /// What the interpreter has instead.
    pub got: String,
    /// What to do next.
    pub next: String,
}
