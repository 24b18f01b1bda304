//! One step of a fixture: a program with a deadline. Its output goes to files, so that what it leaves running on purpose
//! (a server) can go on writing.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{Child, Command};

use super::cancel::Cancel;
use super::clock::{Instant, sleep_until};
use super::process_tree::cookie::Cookie;
use super::process_tree::inherit::UmaskOf;
use super::process_tree::kernel;
use super::process_tree::process::exit_of;
use super::process_tree::sweep::Sweep;
use crate::case::fixture::StepTimeout;
use crate::execute::launch::environment::Environment;
use crate::execute::launch::program;
use crate::host::machine;
use crate::observation::Exit;

/// How long processes may take to vanish after SIGKILL.
const VANISH: Duration = Duration::from_secs(5);

/// A program to run to its end.
#[derive(Debug)]
pub struct Step<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// What differs from our own environment.
    pub environment: &'a Environment,
    /// Where it runs.
    pub directory: &'a Path,
    /// The files of its streams, without `.stdout` and `.stderr`.
    pub streams: PathBuf,
    /// The mark of the fixture's processes.
    pub cookie: &'a Cookie,
    /// Its deadlines.
    pub timeout: StepTimeout,
    /// The wish to stop, and how often it must have come to end this step.
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
    /// It could not be started: why.
    NotStarted(String),
}

impl Step<'_> {
    /// Runs it. What it started and left is still there only if it ended by itself.
    pub async fn run(&self) -> StepEnd {
        let mut child = match self.start() {
            Ok(child) => child,
            Err(error) => return StepEnd::NotStarted(error),
        };
        let (cancel, times) = self.cancel;
        let end = tokio::select! {
            status = child.wait() => return StepEnd::Exit(status.map_or(Exit::Unknown, exit_of)),
            () = sleep_until(Instant::now() + self.timeout.kill) => StepEnd::TimedOut,
            () = cancel.raised(times) => StepEnd::Cancelled,
        };
        let mut sweep = Sweep::new(self.cookie.clone());
        sweep.awaited = HashSet::from([child.id().unwrap_or_default() as i32]);
        let alive = sweep.find();
        for process in &alive {
            process.signal(Signal::TERM);
            // A stopped process would keep the signal for later.
            process.signal(Signal::CONT);
        }
        tokio::select! {
            _ = sweep.wait(alive, Instant::now() + self.timeout.grace) => {}
            () = cancel.raised(2) => {}
        }
        sweep.clear(VANISH).await;
        let _ = tokio::time::timeout(VANISH, child.wait()).await;
        end
    }

    fn start(&self) -> Result<Child, String> {
        let [name, arguments @ ..] = self.argv else { return Err("no program".to_owned()) };
        let path = self.environment.get("PATH");
        let file =
            program::find(OsStr::new(name), path.as_deref(), self.directory).map_err(|error| error.to_string())?;
        let stream = |end: &str| {
            let mut path = OsString::from(&self.streams);
            path.push(end);
            File::create(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))
        };
        let mut command = Command::new(&file);
        command.args(arguments).current_dir(self.directory);
        kernel::new_session(&mut command);
        kernel::bequeath(&mut command, UmaskOf::Case);
        command.stdin(Stdio::null()).stdout(stream(".stdout")?).stderr(stream(".stderr")?);
        for (name, value) in self.environment.changes() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.spawn().map_err(|error| format!("cannot start {}: {}", file.display(), machine::explained(&error)))
    }
}

/// Ends every process of a fixture.
pub async fn clear(cookie: &Cookie) {
    Sweep::new(cookie.clone()).clear(VANISH).await;
}
