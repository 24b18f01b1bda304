//! One process of a case: started with its streams captured, its end announced once.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::PipeReader;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc::UnboundedSender;

use super::capture::{Capture, Lines};
use super::inherit::UmaskOf;
use super::kernel::Spawn;
use crate::execute::clock::Instant;
use crate::execute::launch::environment::Environment;
use crate::execute::launch::program;
use crate::execute::show::{Shown, Streams};
use crate::host::machine;
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
    /// What the kernel sends it when this process is gone, without anybody's help.
    pub at_our_death: Option<Signal>,
    /// Where its streams go besides the files.
    pub streams: Streams,
    /// What is looked for in them.
    pub texts: Texts,
}

/// Texts to look for in all of a process's output.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// In its standard output.
    pub stdout: BTreeSet<String>,
    /// In its standard error.
    pub stderr: BTreeSet<String>,
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
    handle: Arc<AsyncFd<OwnedFd>>,
    stdout: Capture,
    stderr: Capture,
    _lifeline: Option<OwnedFd>,
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
        let failed =
            |error: std::io::Error| format!("{role}: cannot start {}: {}", file.display(), machine::explained(&error));
        let (input, lifeline) = if matches!(self.streams, Streams::Asked | Streams::Ours) {
            (std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?, None)
        } else if self.lifeline {
            let (read, write) = std::io::pipe().map_err(failed)?;
            (OwnedFd::from(read), Some(OwnedFd::from(write)))
        } else {
            (OwnedFd::from(File::open("/dev/null").map_err(failed)?), None)
        };
        let ((stdout, to_stdout), (stderr, to_stderr)) =
            (std::io::pipe().map_err(failed)?, std::io::pipe().map_err(failed)?);
        // A debugger writes to the terminal itself, and Ctrl-C must reach it.
        let ours = if self.streams == Streams::Ours {
            let (out, err) = (std::io::stdout(), std::io::stderr());
            let copy = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().map_err(failed);
            Some((copy(out.as_fd())?, copy(err.as_fd())?))
        } else {
            None
        };
        let (out, err) = match &ours {
            Some((out, err)) => (out.as_fd(), err.as_fd()),
            None => (to_stdout.as_fd(), to_stderr.as_fd()),
        };
        let spawn = Spawn {
            file: &file,
            arguments: [name].into_iter().chain(arguments).map(OsString::as_os_str).collect(),
            environment: self.environment.whole(),
            directory: &self.directory,
            streams: [input.as_fd(), out, err],
            umask: if role == Role::Coordinator { UmaskOf::User } else { UmaskOf::Case },
            session: self.streams != Streams::Ours,
            at_our_death: self.at_our_death.map(Signal::as_raw),
        };
        let receiver = |pipe: PipeReader| Receiver::from_owned_fd(pipe.into()).map_err(failed);
        let (stdout, stderr) = (receiver(stdout)?, receiver(stderr)?);
        let pid = spawn.start().map_err(failed)?;
        let end = End::of(pid).map_err(failed)?;
        let shown = |error| match self.streams {
            Streams::Shown(name) => Some(Shown::watched(name, error)),
            Streams::Asked => Some(Shown::raw(error)),
            Streams::Captured | Streams::Ours => None,
        };
        let lines = watched.then(|| lines_of(role, events));
        let stem = role.file_stem();
        let running = Running {
            role,
            pid,
            exit: None,
            handle: Arc::clone(&end.handle),
            _lifeline: lifeline,
            stdout: Capture::start(
                stdout,
                scratch.join(format!("{stem}.stdout")),
                &self.texts.stdout,
                lines,
                shown(false),
            ),
            stderr: Capture::start(
                stderr,
                scratch.join(format!("{stem}.stderr")),
                &self.texts.stderr,
                None,
                shown(true),
            ),
        };
        let events = events.clone();
        tokio::spawn(async move {
            let exit = end.come().await;
            // Held until now, so that the ends of two streams and of the process wake this one once and not thrice.
            drop((to_stdout, to_stderr));
            let _ = events.send(Event::Ended(role, exit));
        });
        Ok(running)
    }
}

impl Running {
    /// Sends a signal to this very process. Needs no new descriptor, as a sweep does.
    pub fn signal(&self, signal: Signal) {
        // One that has ended has no use for it.
        let _ = rustix::process::pidfd_send_signal(self.handle.get_ref(), signal);
    }

    /// Waits until everything that it wrote to stdout is among the events, at the latest until `deadline`.
    pub async fn said(&mut self, deadline: Instant) {
        self.stdout.ended(deadline).await;
    }

    /// Lets go of the streams, at the latest at `deadline`, and tells what was seen. The flag is false when somebody
    /// still held a stream open.
    pub async fn observe(self, deadline: Instant) -> (ProcessObservation, bool) {
        let (stdout, stdout_ended) = self.stdout.finish(deadline).await;
        let (stderr, stderr_ended) = self.stderr.finish(deadline).await;
        let exit = self.exit.unwrap_or(Exit::Unkillable);
        (ProcessObservation { role: self.role, exit, stdout, stderr }, stdout_ended && stderr_ended)
    }
}

/// The end of a child, seen through a handle that stays with it.
struct End {
    pid: Pid,
    handle: Arc<AsyncFd<OwnedFd>>,
}

impl End {
    /// # Errors
    /// No descriptor is left. Then the child is gone, too.
    fn of(pid: i32) -> std::io::Result<End> {
        let pid = Pid::from_raw(pid).ok_or_else(|| std::io::Error::other("no process"))?;
        let open = || -> std::io::Result<AsyncFd<OwnedFd>> {
            let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK)?;
            #[expect(
                deprecated,
                reason = "sound for an OwnedFd, which stays open while registered; the other is unsafe"
            )]
            AsyncFd::with_interest(pidfd, Interest::READABLE)
        };
        match open() {
            Ok(handle) => Ok(End { pid, handle: Arc::new(handle) }),
            Err(error) => {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                Err(error)
            }
        }
    }

    /// Waits for it and takes its status.
    async fn come(self) -> Exit {
        let Ok(_ready) = self.handle.readable().await else { return Exit::Unknown };
        match rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Exit::Code(code),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => Exit::Unknown,
            },
            _ => Exit::Unknown,
        }
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

/// Puts lines among `events`.
fn lines_of(role: Role, events: &UnboundedSender<Event>) -> Lines {
    let events = events.clone();
    Box::new(move |line| {
        // Nobody listens any more when the case is over.
        let _ = events.send(Event::Line(role, line));
    })
}
