//! Fixtures of a case: programs of the suite set them up before the case and tear them down after it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::case::python::PythonNeed;
use crate::host::deadline;
use crate::source::SourceLocation;

/// A fixture, as one case sees it.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// Name in the suite.
    pub name: String,
    /// Name of the suite.
    pub suite: String,
    /// Where the suite defines it.
    pub place: SourceLocation,
    /// How long it lives.
    pub scope: Scope,
    /// What makes it.
    pub setup: Step,
    /// The teardown step; the fixture's processes are ended with or without one.
    pub teardown: Option<Step>,
    /// The variables that the setup writes.
    pub outputs: Vec<String>,
    /// Variables of both steps.
    pub env: BTreeMap<String, String>,
    /// Variables removed from the inherited environment.
    pub env_unset: Vec<String>,
    /// The deadlines of each step.
    pub timeout: StepTimeout,
    /// The managed Python environment of both steps.
    pub python: Option<PythonNeed>,
    /// Fixtures that are set up before this one; it may refer to their outputs.
    pub uses: Vec<String>,
    /// Working directory of its steps.
    pub dir: PathBuf,
}

impl Fixture {
    /// `suite/name`, unique in a run.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.suite, self.name)
    }
}

/// How long a fixture lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The fixture lives for one attempt of one case.
    #[default]
    Case,
    /// From the first case that uses it until the last one ends.
    Suite,
}

/// A setup or teardown program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// Deadlines of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTimeout {
    /// After this it is ended.
    pub kill: Duration,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
}

impl Default for StepTimeout {
    fn default() -> Self {
        StepTimeout { kill: deadline::FIXTURE_STEP, grace: deadline::GRACE }
    }
}
