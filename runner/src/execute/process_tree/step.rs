//! One fixture step: a program with a deadline. Its output goes to files, so that a process it leaves running on purpose
//! (a server) can go on writing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::cookie::Cookie;
use super::inherit::UmaskOf;
use super::show::Streams;
use super::sweep::Sweep;
use super::{Event, ProcessPlan, ProcessTree, Texts};
use crate::case::fixture::StepTimeout;
use crate::execute::launch::environment::Environment;
use crate::execute::run::cancel::Cancel;
use crate::execute::run::clock::{Instant, sleep_until};
use crate::host::deadline;
use crate::observation::{Exit, Role};

/// A program to run to its end.
#[derive(Debug)]
pub struct Step<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// Changes relative to our own environment.
    pub environment: &'a Environment,
    /// Where it runs.
    pub directory: &'a Path,
    /// The files of its streams, without `.stdout` and `.stderr`.
    pub streams: PathBuf,
    /// The mark of the fixture's processes.
    pub cookie: &'a Cookie,
    /// Its deadlines.
    pub timeout: StepTimeout,
    /// The user's stop request, and how often it must have come to end this step.
    pub cancel: (&'a Cancel, u32),
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepEnd {
    /// By itself.
    Exit(Exit),
    /// By its deadline.
    TimedOut,
    /// By the user.
    Cancelled,
    /// Why it could not be started.
    NotStarted(String),
}

impl Step<'_> {
    /// Runs it. Processes that it started and left still run only if it ended by itself.
    pub async fn run(&self) -> StepEnd {
        let plan = ProcessPlan {
            role: Role::Launcher(0),
            argv: self.argv.iter().map(OsString::from).collect(),
            environment: self.environment.clone(),
            directory: self.directory.to_owned(),
            lifeline: false,
            at_our_death: Some(Signal::KILL),
            streams: Streams::Files(self.streams.clone()),
            umask: UmaskOf::Case,
            network: None,
            texts: Texts::default(),
        };
        let mut tree = ProcessTree::new(self.cookie.clone());
        if let Err(error) = tree.start(&plan, self.directory, false) {
            return StepEnd::NotStarted(error.to_string());
        }
        let (cancel, times) = self.cancel;
        let end = tokio::select! {
            event = tree.next() => match event {
                Event::Ended(_, exit) => return StepEnd::Exit(exit),
                _ => return StepEnd::Exit(Exit::Unknown),
            },
            () = sleep_until(Instant::now() + self.timeout.kill) => StepEnd::TimedOut,
            () = cancel.raised(times) => StepEnd::Cancelled,
        };
        tree.escalate(self.timeout.grace, cancel).await;
        end
    }
}

/// Ends every process of a fixture.
pub async fn clear(cookie: &Cookie) {
    Sweep::new(cookie.clone()).clear(deadline::KILLED).await;
}
