//! `ftest exec`: one command on a pretended cluster. Starts the coordinator, runs the command in the foreground, ends
//! the coordinator in order, leaves no process. `ftest bench` runs one command for each rank in the same way.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::check::exit::describe;
use crate::execute::clock::{Instant, sleep_until};
use clap::Args;
use protocol::env;
use protocol::plan::ClusterPlan;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;

use crate::case::Transport;
use crate::execute::deaths::Teller;
use crate::execute::launch::environment::{Endpoint, Environment};
use crate::execute::launch::settings;
use crate::execute::launch::settings::DeviceArguments;
use crate::execute::launch::{holder_cache, program};
use crate::execute::process_tree::cookie::Cookie;
use crate::execute::process_tree::inherit::UmaskOf;
use crate::execute::process_tree::process::{Event, Running, exit_of};
use crate::execute::process_tree::sweep::{Process, Sweep};
use crate::execute::python;
use crate::execute::{self, Cancel, RunContext, coordinator, ranks, reports};
use crate::host::install::Install;
use crate::host::machine;
use crate::observation::Exit;

/// How long the coordinator may take to write its report.
const REPORT: Duration = Duration::from_secs(10);
/// How long processes that outlive the command may take to go.
const LEAVE: Duration = Duration::from_millis(500);

/// Arguments of `ftest exec`.
#[derive(Args, Clone, Debug)]
pub struct ExecArgs {
    /// The cluster to play; without one, a single node with the devices of --profile and --device-count
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Where the cluster report is written
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// How ranks reach the coordinator
    #[arg(long, value_enum, default_value_t = TransportName::Unix)]
    pub transport: TransportName,
    /// The devices
    #[command(flatten)]
    pub devices: DeviceArguments,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// `unix` or `tcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TransportName {
    /// A socket in the run's directory.
    Unix,
    /// A port on loopback.
    Tcp,
}

/// Why a command could not be run, and the exit code that says so.
#[derive(Debug)]
pub(super) struct Trouble {
    code: i32,
    message: String,
}

impl Trouble {
    /// The user's mistake.
    pub(super) fn usage(message: impl ToString) -> Trouble {
        Trouble { code: 2, message: message.to_string() }
    }

    /// Something that the run needs is missing or failed.
    pub(super) fn infra(message: impl ToString) -> Trouble {
        Trouble { code: 3, message: message.to_string() }
    }
}

/// Runs the command; gives its exit code, 128 + n for a signal, or 2 and 3 for our own troubles after saying them.
pub fn run(arguments: &ExecArgs) -> i32 {
    tell(
        "ftest exec",
        plan(arguments.cluster.as_deref(), &arguments.devices).and_then(|plan| {
            play(&Play {
                plan: &plan,
                transport: arguments.transport,
                report: arguments.report.as_deref(),
                command: &arguments.command,
                ranks: None,
            })
        }),
    )
}

/// How long the other ranks may go on after one failed.
const SURVIVORS: Duration = Duration::from_secs(10);

/// What is run on which cluster.
pub(super) struct Play<'a> {
    pub(super) plan: &'a ClusterPlan,
    pub(super) transport: TransportName,
    pub(super) report: Option<&'a Path>,
    pub(super) command: &'a [OsString],
    /// Runs the command once for each of so many ranks, each on its seat. Only rank 0 is heard on stdout.
    pub(super) ranks: Option<u32>,
}

/// The cluster of `file`, else one node with `devices`.
pub(super) fn plan(file: Option<&Path>, devices: &DeviceArguments) -> Result<ClusterPlan, Trouble> {
    settings::check_environment().map_err(Trouble::usage)?;
    match file {
        Some(file) => settings::read_cluster(file).map_err(Trouble::usage),
        None => devices.single_node().map_err(Trouble::usage),
    }
}

/// Runs it to its end; gives the command's exit code.
pub(super) fn play(play: &Play<'_>) -> Result<i32, Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Trouble::infra)?;
    runtime.block_on(execute(play))
}

/// The exit code of `result`, after saying what went wrong.
pub(super) fn tell(program: &str, result: Result<i32, Trouble>) -> i32 {
    match result {
        Ok(code) => code,
        Err(Trouble { code, message }) => {
            eprintln!("{program}: {message}");
            code
        }
    }
}

/// A command on its way.
struct Execution {
    context: RunContext,
    cookie: Cookie,
    coordinator: Running,
    received: tokio::sync::mpsc::UnboundedReceiver<Event>,
}

async fn execute(arguments: &Play<'_>) -> Result<i32, Trouble> {
    let plan = arguments.plan;
    let report = arguments.report.map(checked_report).transpose()?;
    let install = Install::find();
    let shim = install.shim().map_err(Trouble::infra)?;
    let steps = python::Steps::new();
    let python = python::for_command(&arguments.command[0], &|step| steps.show(step)).map_err(Trouble::infra);
    steps.done();
    let python = python?;
    let libraries = python.as_ref().and_then(|python| python.torch_libraries.as_deref());
    let holders = holder_cache::directory(&shim, libraries).map_err(Trouble::infra)?;
    let mut environment = Environment::new();
    if let Some(python) = &python {
        environment.python(&python.bin);
    }
    environment.python_defaults().preload(&shim, &holders).cluster(plan);
    let file = program::find(&arguments.command[0], environment.get("PATH").as_deref(), Path::new("."))
        .map_err(|error| Trouble { code: error.exit_code(), message: error.to_string() })?;

    // The command has the terminal's signals for itself; ours must not end us before the coordinator is down.
    let mut signals = Signals::listen().map_err(Trouble::infra)?;
    let context = RunContext::start(install, Cancel::new(), Arc::new(|_| {})).map_err(Trouble::infra)?;
    let (mut execution, endpoint) = Execution::start(context, plan, arguments.transport, report.as_deref()).await?;
    environment.coordinator(&endpoint);
    environment.set(env::COOKIE.name, execution.cookie.part("node0").to_string());
    environment.machine(&reports::machine(&execution.scratch()));
    let environments = match arguments.ranks {
        None => Ok(vec![environment]),
        Some(size) => {
            environment.set("FTEST_SCRATCH", execution.scratch());
            ranks::environments(&environment, &execution.cookie, plan, size).map_err(Trouble::usage)
        }
    };
    let ended = match environments {
        Ok(environments) => {
            let teller = Teller::new(&endpoint);
            run_all(&file, &arguments.command[1..], &environments, &mut signals, &teller).await
        }
        Err(trouble) => Err(trouble),
    };
    let trouble = execution.end().await;
    Sweep::new(execution.cookie.clone()).clear(Duration::from_secs(5)).await;
    drop(execution);
    let code = ended?;
    match trouble {
        Some(message) if code == 0 => Err(Trouble::infra(message)),
        Some(message) => {
            eprintln!("ftest exec: {message}");
            Ok(code)
        }
        None => Ok(code),
    }
}

/// Runs the program once in each environment; gives the highest exit code. Signals are passed on to all of them.
async fn run_all(
    file: &Path,
    arguments: &[OsString],
    environments: &[Environment],
    signals: &mut Signals,
    teller: &Teller,
) -> Result<i32, Trouble> {
    let (mut children, mut pids) = (tokio::task::JoinSet::new(), Vec::new());
    for (index, environment) in environments.iter().enumerate() {
        let mut command = tokio::process::Command::new(file);
        command.args(arguments);
        execute::bequeath(&mut command, UmaskOf::User);
        if index > 0 {
            command.stdout(Stdio::null());
        }
        for (name, value) in environment.changes() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        execute::process_tree::kernel::dies_with_us(&mut command);
        let mut child = command.spawn().map_err(|error| Trouble {
            code: 126,
            message: format!("cannot start {}: {}", file.display(), machine::explained(&error)),
        })?;
        pids.push(child.id());
        children.spawn(async move { (index, child.wait().await) });
    }
    let mut code = 0;
    let mut failed: Option<(usize, ExitStatus, Instant)> = None;
    loop {
        let until = failed.map_or_else(Instant::now, |(.., at)| at + SURVIVORS);
        tokio::select! {
            ended = children.join_next() => match ended {
                Some(Ok((index, Ok(status)))) => {
                    if let Some(pid) = pids[index].take().filter(|_| !children.is_empty()) {
                        teller.ended(index as u32, pid, &exit_of(status));
                    }
                    if !status.success() {
                        failed.get_or_insert((index, status, Instant::now()));
                    }
                    code = code.max(code_of(status));
                }
                Some(Ok((_, Err(error)))) => return Err(Trouble::infra(format!("wait: {error}"))),
                Some(Err(error)) => return Err(Trouble::infra(format!("wait: {error}"))),
                None => return Ok(code),
            },
            number = signals.next() => pids.iter().for_each(|pid| forward(*pid, number)),
            () = sleep_until(until), if failed.is_some() => {
                let how = failed.map(|(rank, status, _)| format!("rank {rank} ended with {}", describe(&exit_of(status))));
                eprintln!("ftest: {}; the others are ended", how.unwrap_or_default());
                return Ok(code);
            }
        }
    }
}

/// The report's path, absolute, when its directory is there.
fn checked_report(report: &Path) -> Result<PathBuf, Trouble> {
    let path = std::path::absolute(report).map_err(|error| Trouble::usage(format!("--report: {error}")))?;
    match path.parent() {
        Some(parent) if parent.is_dir() && !path.is_dir() => Ok(path),
        Some(parent) if !parent.is_dir() => Err(Trouble::usage(format!(
            "--report {}: no directory {}; make it first",
            report.display(),
            parent.display()
        ))),
        _ => Err(Trouble::usage(format!("--report {}: is a directory; name a file", report.display()))),
    }
}

impl Execution {
    async fn start(
        context: RunContext,
        plan: &ClusterPlan,
        transport: TransportName,
        report: Option<&Path>,
    ) -> Result<(Execution, Endpoint), Trouble> {
        let (scratch, cookie) = context.open_case().map_err(Trouble::infra)?;
        let program = context.install.coordinator().map_err(Trouble::infra)?;
        let (sender, mut received) = unbounded_channel();
        let inside = coordinator::report_path(&scratch);
        let plan = coordinator::Plan {
            program: &program,
            cluster: Some(plan),
            transport: match transport {
                TransportName::Unix => Transport::Unix,
                TransportName::Tcp => Transport::Tcp,
            },
            scratch: &scratch,
            report: report.unwrap_or(&inside),
            idle: None,
            environment: Environment::new(),
            heir: context.heir(),
            cookie: &cookie,
        };
        let started = match plan.start(&sender) {
            Err(error) => Err(error),
            Ok((mut running, starting)) => match starting.endpoint(&mut running, &mut received).await {
                Ok(endpoint) => Ok((running, endpoint)),
                Err(why) => Err(coordinator::not_started(running, &why).await),
            },
        };
        match started {
            Ok((running, endpoint)) => Ok((Execution { context, cookie, coordinator: running, received }, endpoint)),
            Err(error) => {
                Sweep::new(cookie).clear(Duration::from_secs(5)).await;
                execute::scratch::remove(&scratch);
                Err(Trouble::infra(error))
            }
        }
    }

    /// The directory of this execution, which goes with it.
    fn scratch(&self) -> PathBuf {
        self.context.directory().join("0")
    }

    /// Ends what the command left, then the coordinator. Gives one sentence when that was not in order.
    async fn end(&mut self) -> Option<String> {
        let ranks = Sweep::new(self.cookie.part("node0"));
        ranks.wait(ranks.find(), Instant::now() + LEAVE).await;
        // Looked up again: a process that was just starting has its name by now.
        let names: Vec<String> = ranks.find().iter().map(|process| process.describe()).collect();
        if !names.is_empty() {
            eprintln!("ftest exec: ended what the command left running: {}", names.join(", "));
        }
        ranks.clear(Duration::from_secs(5)).await;
        let mut exit = None;
        while let Ok(event) = self.received.try_recv() {
            exit = ended(event).or(exit);
        }
        if let Some(exit) = exit {
            return Some(format!("the coordinator {} before the command{}", exit.clause(), self.complaint()));
        }
        let mut sweep = Sweep::new(self.cookie.part("coordinator"));
        sweep.awaited = HashSet::from([self.coordinator.pid]);
        let found = sweep.find();
        for process in &found {
            process.signal(Signal::TERM);
        }
        if found.is_empty() {
            // Where no descriptor is left to look with.
            self.coordinator.signal(Signal::TERM);
        }
        let deadline = Instant::now() + REPORT;
        loop {
            match execute::clock::timeout_at(deadline, self.received.recv()).await {
                Ok(Some(event)) => match ended(event) {
                    Some(Exit::Code(0)) => return None,
                    Some(exit) => return Some(format!("the coordinator {}{}", exit.clause(), self.complaint())),
                    None => {}
                },
                Ok(None) | Err(_) => {
                    sweep.clear(Duration::from_secs(5)).await;
                    return Some(format!("the coordinator did not end within {} s; no report", REPORT.as_secs()));
                }
            }
        }
    }

    /// What the coordinator wrote on stderr, after a colon.
    fn complaint(&self) -> String {
        let text = std::fs::read_to_string(self.context.directory().join("0/coordinator.stderr")).unwrap_or_default();
        if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        execute::scratch::remove(&self.scratch());
    }
}

fn ended(event: Event) -> Option<Exit> {
    match event {
        Event::Ended(_, exit) => Some(exit),
        Event::Line(..) => None,
    }
}

/// The signals that a person or a service sends to end a command.
struct Signals {
    streams: Vec<(i32, tokio::signal::unix::Signal)>,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        let streams = kinds.into_iter().map(|kind| Ok((kind.as_raw_value(), signal(kind)?)));
        Ok(Signals { streams: streams.collect::<std::io::Result<_>>()? })
    }

    async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Passes a signal on to the command, which the terminal's own signals reach without us.
fn forward(child: Option<u32>, number: i32) {
    let from_terminal = matches!(number, libc::SIGINT | libc::SIGQUIT) && in_foreground();
    let pid = child.and_then(|pid| rustix::process::Pid::from_raw(pid as i32));
    if let (Some(pid), Some(signal), false) = (pid, Signal::from_named_raw(number), from_terminal) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Whether a terminal has us, and so the command, in its foreground.
fn in_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    let group = rustix::termios::tcgetpgrp(terminal).map(|group| group.as_raw_nonzero().get());
    group.is_ok_and(|group| Process::own().is_some_and(|own| own.group == group))
}

/// The exit code of a shell for a status.
fn code_of(status: ExitStatus) -> i32 {
    match exit_of(status) {
        Exit::Code(code) => code,
        Exit::Signal(number) => 128 + number,
        _ => 1,
    }
}
