//! One process of a case: started with its streams captured, its end announced once.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::process::{ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;

use super::capture::Capture;
use super::clock::Instant;
use super::kernel;
use crate::launch::environment::Environment;
use crate::launch::program;
use crate::observation::{Exit, ProcessObservation, Role};

/// A process to start.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What it is.
    pub role: Role,
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// What differs from our own environment.
    pub environment: Environment,
    /// Where it runs; a relative program stands there too.
    pub directory: PathBuf,
    /// Its stdin is a pipe that closes when we end; else it has no input.
    pub lifeline: bool,
}

/// What a process tells while it runs.
#[derive(Debug)]
pub enum Event {
    /// It ended.
    Ended(Role, Exit),
    /// A line of its stdout, without the end.
    Line(Role, Vec<u8>),
}

/// A started process.
#[derive(Debug)]
pub struct Running {
    /// What it is.
    pub role: Role,
    /// Its id; valid until [`Event::Ended`] came.
    pub pid: i32,
    /// How it ended, once it did.
    pub exit: Option<Exit>,
    stdout: Capture,
    stderr: Capture,
    _lifeline: Option<ChildStdin>,
}

impl Planned {
    /// Starts it in a session of its own, with no input and its streams captured below `scratch`.
    /// Its end goes to `events`, and its lines too when `watched`.
    ///
    /// # Errors
    /// One sentence when it cannot be started; nothing runs then.
    pub fn start(&self, scratch: &Path, events: &UnboundedSender<Event>, watched: bool) -> Result<Running, String> {
        let role = self.role;
        let [name, arguments @ ..] = self.argv.as_slice() else { return Err(format!("{role}: no program")) };
        let path = self.environment.get("PATH");
        let file = program::find(name, path.as_deref(), &self.directory).map_err(|error| format!("{role}: {error}"))?;
        let mut command = Command::new(&file);
        command.args(arguments).current_dir(&self.directory);
        kernel::new_session(&mut command);
        let stdin = if self.lifeline { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in self.environment.changes() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let failed = |error: std::io::Error| format!("{role}: cannot start {}: {error}", file.display());
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id().unwrap_or_default() as i32;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(format!("{role}: no streams"));
        };
        let lines = watched.then(|| lines_of(role, events));
        let stem = file_stem(role);
        let running = Running {
            role,
            pid,
            exit: None,
            _lifeline: child.stdin.take(),
            stdout: Capture::start(stdout, scratch.join(format!("{stem}.stdout")), lines),
            stderr: Capture::start(stderr, scratch.join(format!("{stem}.stderr")), None),
        };
        let events = events.clone();
        tokio::spawn(async move {
            let exit = child.wait().await.map_or(Exit::Unknown, exit_of);
            let _ = events.send(Event::Ended(role, exit));
        });
        Ok(running)
    }
}

impl Running {
    /// Lets go of the streams, at the latest at `deadline`, and tells what was seen. The flag is false when somebody
    /// still held a stream open.
    pub async fn observe(self, deadline: Instant) -> (ProcessObservation, bool) {
        let (stdout, stdout_ended) = self.stdout.finish(deadline).await;
        let (stderr, stderr_ended) = self.stderr.finish(deadline).await;
        let exit = self.exit.unwrap_or(Exit::Unkillable);
        (ProcessObservation { role: self.role, exit, stdout, stderr }, stdout_ended && stderr_ended)
    }
}

/// Name of the files that hold a process's streams.
pub fn file_stem(role: Role) -> String {
    match role {
        Role::Rank(rank) => format!("rank-{rank}"),
        Role::Launcher(node) => format!("launcher-{node}"),
        Role::Coordinator => "coordinator".to_owned(),
    }
}

/// How a process ended, from its wait status.
pub fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

/// A sender of bare lines in front of `events`.
fn lines_of(role: Role, events: &UnboundedSender<Event>) -> UnboundedSender<Vec<u8>> {
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let events = events.clone();
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            if events.send(Event::Line(role, line)).is_err() {
                break;
            }
        }
    });
    sender
}
