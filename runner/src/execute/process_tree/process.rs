//! One process of a case: started with its streams captured; its end is announced once.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc::UnboundedSender;

use super::capture::{Capture, Lines};
use super::inherit::UmaskOf;
use super::kernel::Spawn;
use super::show::{Shown, Streams};
use crate::execute::launch::environment::Environment;
use crate::execute::launch::program::{self, ProgramError};
use crate::execute::network::port::Namespace;
use crate::execute::run::clock::Instant;
use crate::execute::warm::{self, Request, Server};
use crate::host::machine;
use crate::observation::{Exit, ProcessObservation, Role};

/// A process to start.
#[derive(Clone, Debug)]
pub struct ProcessPlan {
    /// What it is.
    pub role: Role,
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Changes relative to our own environment.
    pub environment: Environment,
    /// Where it runs, and where a relative program is looked for.
    pub directory: PathBuf,
    /// Whether its stdin is a pipe that closes when we end; otherwise it has no input.
    pub lifeline: bool,
    /// The signal that the kernel sends it when this process is gone.
    pub at_our_death: Option<Signal>,
    /// Where its streams go.
    pub streams: Streams,
    /// Whose umask it gets.
    pub umask: UmaskOf,
    /// The network that it is in; if absent, ours.
    pub network: Option<Namespace>,
    /// The texts to look for in its streams.
    pub texts: Texts,
}

/// Texts to look for in all of a process's output.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// Texts to look for in its standard output.
    pub stdout: BTreeSet<String>,
    /// Texts to look for in its standard error.
    pub stderr: BTreeSet<String>,
}

/// What happened to a process.
#[derive(Debug)]
pub enum Event {
    /// It ended.
    Ended(Role, Exit),
    /// A line of its stdout, without the newline.
    Line(Role, Vec<u8>),
    /// A signal that the `kill` with this index of the case asks for was sent on another machine: what was done, in words.
    Hit(usize, String),
    /// Another machine is lost, with the node that ran there: a sentence.
    Lost(String),
}

/// A started process.
#[derive(Debug)]
pub struct Running {
    /// What it is.
    pub role: Role,
    /// Its id on its machine; valid until [`Event::Ended`] arrives.
    pub pid: i32,
    /// How it ended, once it has.
    pub exit: Option<Exit>,
    /// `None` if it runs on another machine.
    handle: Option<Arc<AsyncFd<OwnedFd>>>,
    captures: Option<[Capture; 2]>,
    _lifeline: Option<OwnedFd>,
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The command is empty.
    #[error("no program")]
    NoProgram,
    /// There is no such program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The system refuses.
    #[error("cannot start {}: {}", .program.display(), machine::explained(.source))]
    Refused {
        /// The program's file.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file for a stream cannot be created.
    #[error("cannot make {}: {source}", .file.display())]
    Stream {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl StartError {
    /// The exit code that a shell returns for it.
    pub fn exit_code(&self) -> i32 {
        match self {
            StartError::Program(error) => error.exit_code(),
            StartError::NoProgram => 127,
            StartError::Refused { .. } | StartError::Stream { .. } => 126,
        }
    }
}

/// The three streams of a process, and our ends of them.
struct Channels {
    input: OwnedFd,
    output: OwnedFd,
    error: OwnedFd,
    lifeline: Option<OwnedFd>,
    captured: Option<[Receiver; 2]>,
}

impl Channels {
    fn open(plan: &ProcessPlan, failed: impl Fn(io::Error) -> StartError) -> Result<Channels, StartError> {
        let (input, lifeline) = if matches!(plan.streams, Streams::Interactive | Streams::Inherited { .. }) {
            (io::stdin().as_fd().try_clone_to_owned().map_err(&failed)?, None)
        } else if plan.lifeline {
            let (read, write) = io::pipe().map_err(&failed)?;
            (OwnedFd::from(read), Some(OwnedFd::from(write)))
        } else {
            (OwnedFd::from(File::open("/dev/null").map_err(&failed)?), None)
        };
        let (output, error, captured) = match &plan.streams {
            Streams::Inherited { stdout } => {
                let copy = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().map_err(&failed);
                let output = if *stdout {
                    copy(io::stdout().as_fd())?
                } else {
                    OwnedFd::from(File::options().write(true).open("/dev/null").map_err(&failed)?)
                };
                (output, copy(io::stderr().as_fd())?, None)
            }
            Streams::Files(stem) => {
                let make = |end: &str| {
                    let mut file = OsString::from(stem);
                    file.push(end);
                    let file = PathBuf::from(file);
                    File::create(&file).map(OwnedFd::from).map_err(|source| StartError::Stream { file, source })
                };
                (make(".stdout")?, make(".stderr")?, None)
            }
            Streams::Captured | Streams::Shown(..) | Streams::Interactive => {
                let (from_output, output) = io::pipe().map_err(&failed)?;
                let (from_error, error) = io::pipe().map_err(&failed)?;
                let receiver = |pipe: PipeReader| Receiver::from_owned_fd(pipe.into()).map_err(&failed);
                (output.into(), error.into(), Some([receiver(from_output)?, receiver(from_error)?]))
            }
        };
        Ok(Channels { input, output, error, lifeline, captured })
    }

    /// stdin, stdout, stderr.
    fn streams(&self) -> [BorrowedFd<'_>; 3] {
        [self.input.as_fd(), self.output.as_fd(), self.error.as_fd()]
    }
}

impl ProcessPlan {
    /// Whether it leads its own session, and so its own group; otherwise it shares our group and our terminal.
    pub fn leads_session(&self) -> bool {
        !matches!(self.streams, Streams::Inherited { .. })
    }

    /// Starts it. Its end goes to `events`, and if `watched` its lines do too; captured streams go to files below
    /// `scratch`.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub(super) fn start(
        &self,
        scratch: &Path,
        events: &UnboundedSender<Event>,
        watched: bool,
    ) -> Result<Running, StartError> {
        let file = self.file()?;
        let failed = |source: io::Error| StartError::Refused { program: file.clone(), source };
        let channels = Channels::open(self, failed)?;
        let end = End::open(self.spawn(&file, &channels).map_err(failed)?).map_err(failed)?;
        Ok(self.watch(end, channels, (scratch, events, watched)))
    }

    /// As [`ProcessPlan::start`], but its standard output and standard error are returned, and no file is written.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub(super) fn start_open(&self, events: &UnboundedSender<Event>) -> Result<(Running, [Receiver; 2]), StartError> {
        let file = self.file()?;
        let failed = |source: io::Error| StartError::Refused { program: file.clone(), source };
        let mut channels = Channels::open(self, failed)?;
        let pipes = channels.captured.take().ok_or_else(|| failed(io::Error::other("its streams are not captured")))?;
        let end = End::open(self.spawn(&file, &channels).map_err(failed)?).map_err(failed)?;
        Ok((self.run(end, channels, None, events), pipes))
    }

    /// As [`ProcessPlan::start`], but as a fork of `server`. If that is not possible, it is started cold, which is recorded
    /// in `notes`.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub(super) async fn start_warm(
        &self,
        (scratch, events, watched): (&Path, &UnboundedSender<Event>, bool),
        server: &Server,
        notes: &Path,
    ) -> Result<Running, StartError> {
        let file = self.file()?;
        let failed = |source: io::Error| StartError::Refused { program: file.clone(), source };
        let channels = Channels::open(self, failed)?;
        let request = Request {
            file: &file,
            arguments: &self.argv,
            environment: self.environment.whole(),
            directory: &self.directory,
            streams: channels.streams(),
            session: self.leads_session(),
            at_our_death: self.at_our_death.map_or(0, Signal::as_raw),
            notes,
        };
        let forked = match server.ask(&request).await {
            Ok(asked) => {
                let end = End::open(asked.pid).map_err(failed)?;
                asked.go().await.map(|()| end).map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        let end = match forked {
            Ok(end) => end,
            Err(why) => {
                warm::cold(notes, self.role, &why);
                End::open(self.spawn(&file, &channels).map_err(failed)?).map_err(failed)?
            }
        };
        Ok(self.watch(end, channels, (scratch, events, watched)))
    }

    /// The program's file.
    pub(super) fn file(&self) -> Result<PathBuf, StartError> {
        let name = self.argv.first().ok_or(StartError::NoProgram)?;
        Ok(program::find(name, self.environment.get("PATH").as_deref(), &self.directory)?)
    }

    fn spawn(&self, file: &Path, channels: &Channels) -> io::Result<i32> {
        let spawn = Spawn {
            file,
            arguments: self.argv.iter().map(OsString::as_os_str).collect(),
            environment: self.environment.whole(),
            directory: &self.directory,
            streams: channels.streams(),
            umask: self.umask,
            network: self.network.as_ref().map(AsFd::as_fd),
            foreground: !self.leads_session(),
            at_our_death: self.at_our_death.map(Signal::as_raw),
        };
        spawn.start()
    }

    /// Watches the started process and captures its streams.
    fn watch(&self, end: End, mut channels: Channels, to: (&Path, &UnboundedSender<Event>, bool)) -> Running {
        let captures = channels.captured.take().map(|streams| self.capture(streams, to));
        self.run(end, channels, captures, to.1)
    }

    /// Captures its standard output and standard error: they go to files below the directory, and if `watched` the lines to the
    /// events.
    pub(in crate::execute) fn capture<S: AsyncRead + Send + Unpin + 'static>(
        &self,
        [stdout, stderr]: [S; 2],
        (scratch, events, watched): (&Path, &UnboundedSender<Event>, bool),
    ) -> [Capture; 2] {
        let shown = |error| match &self.streams {
            Streams::Shown(name, secrets) => Some(Shown::watched(*name, error, secrets.clone())),
            Streams::Interactive => Some(Shown::raw(error)),
            _ => None,
        };
        let stem = self.role.file_stem();
        let lines = watched.then(|| lines_of(self.role, events));
        let (out, err) = (scratch.join(format!("{stem}.stdout")), scratch.join(format!("{stem}.stderr")));
        [
            Capture::start(stdout, out, &self.texts.stdout, lines, shown(false)),
            Capture::start(stderr, err, &self.texts.stderr, None, shown(true)),
        ]
    }

    /// Watches the started process.
    fn run(
        &self,
        end: End,
        channels: Channels,
        captures: Option<[Capture; 2]>,
        events: &UnboundedSender<Event>,
    ) -> Running {
        let (role, pid) = (self.role, end.pid.as_raw_nonzero().get());
        let handle = Some(Arc::clone(&end.handle));
        let (output, error) = (channels.output, channels.error);
        let events = events.clone();
        tokio::spawn(async move {
            let exit = end.wait().await;
            // Held until now, so that the ends of two streams and of the process wake this task once, not three times.
            drop((output, error));
            let _ = events.send(Event::Ended(role, exit));
        });
        Running { role, pid, exit: None, handle, captures, _lifeline: channels.lifeline }
    }
}

impl Running {
    /// A process on another machine, which has the id `pid` there.
    pub(super) fn elsewhere(role: Role, pid: i32, captures: [Capture; 2]) -> Running {
        Running { role, pid, exit: None, handle: None, captures: Some(captures), _lifeline: None }
    }

    /// Whether it runs on this machine.
    pub fn is_here(&self) -> bool {
        self.handle.is_some()
    }

    /// Sends a signal to exactly this process, if it is on this machine. Unlike a sweep, needs no new descriptor.
    pub fn signal(&self, signal: Signal) {
        if let Some(handle) = &self.handle {
            // A process that has ended does not need it.
            let _ = rustix::process::pidfd_send_signal(handle.get_ref(), signal);
        }
    }

    /// Waits until everything that it wrote to stdout is among the events, at most until `deadline`.
    pub(super) async fn drain_output(&mut self, deadline: Instant) {
        if let Some([stdout, _]) = &mut self.captures {
            stdout.ended(deadline).await;
        }
    }

    /// Closes the streams, at the latest at `deadline`, and returns the observation. The flag is false if some process
    /// still held a stream open.
    pub async fn observe(self, deadline: Instant) -> (ProcessObservation, bool) {
        let exit = self.exit.unwrap_or(Exit::Unkillable);
        let role = self.role;
        let Some([stdout, stderr]) = self.captures else {
            let (stdout, stderr) = Default::default();
            return (ProcessObservation { role, exit, stdout, stderr }, true);
        };
        let (stdout, stdout_ended) = stdout.finish(deadline).await;
        let (stderr, stderr_ended) = stderr.finish(deadline).await;
        (ProcessObservation { role, exit, stdout, stderr }, stdout_ended && stderr_ended)
    }
}

/// The end of a child, seen through a handle that stays with it.
struct End {
    pid: Pid,
    handle: Arc<AsyncFd<OwnedFd>>,
}

impl End {
    /// # Errors
    /// No descriptor is left. In that case, the child is gone, too.
    fn open(pid: i32) -> io::Result<End> {
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process"))?;
        let open = || -> io::Result<AsyncFd<OwnedFd>> {
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

    /// Waits for the child and reaps it.
    async fn wait(self) -> Exit {
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

/// Sends lines to `events`.
fn lines_of(role: Role, events: &UnboundedSender<Event>) -> Lines {
    let events = events.clone();
    Box::new(move |line| {
        // The receiver is gone once the case is over.
        let _ = events.send(Event::Line(role, line));
    })
}
