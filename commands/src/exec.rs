//! `ftest exec`: runs one command on a simulated cluster. Starts the coordinator, runs the command in the foreground,
//! shuts the coordinator down in order, and leaves no process. `ftest bench` runs one command for each rank in the same
//! way.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use protocol::clock;
use protocol::env::{self, BadValue};
use protocol::fault::{self, Fault};
use protocol::finding;
use protocol::plan::ClusterPlan;
use protocol::profile;
use protocol::sanitizer::Sanitizers;
use runner::case::Transport;
use runner::check::exit::describe;
use runner::execute::collect::{reports, time};
use runner::execute::launch::builder::EnvironmentBuilder;
use runner::execute::launch::environment::{Endpoint, Environment, SCRATCH};
use runner::execute::launch::placement::node_cookie;
use runner::execute::launch::program;
use runner::execute::launch::ranks;
use runner::execute::launch::settings::{self, DeviceArguments};
use runner::execute::launch::variables;
use runner::execute::process_tree::inherit::UmaskOf;
use runner::execute::process_tree::show::Streams;
use runner::execute::process_tree::sweep::Process;
use runner::execute::process_tree::{Event, ProcessPlan, ProcessTree, Texts};
use runner::execute::python;
use runner::execute::run::clock::{Instant, sleep_until};
use runner::execute::watch::deaths::DeathNotices;
use runner::execute::{Cancel, RunContext, coordinator};
use runner::host::deadline;
use runner::host::install::Install;
use runner::observation::{Exit, Role};
use runner::suite;
use rustix::process::Signal;
use timing::work::Gpu;
use tokio::signal::unix::{SignalKind, signal};

use crate::alone::{Alone, AloneArgs};
use crate::preflight::dry::Dry;
use crate::preflight::options::PreflightArgs;
use crate::seen::{ReportPlace, Seen};

pub(super) const PROGRAM: &str = "ftest exec";

/// Arguments of `ftest exec`.
#[derive(Args, Clone, Debug)]
pub struct ExecArgs {
    /// The cluster to simulate; without one, a single node with the devices of --profile and --device-count
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
    /// Events that change the health of GPUs, as under `gpu` in a suite: '{ node0/3: { at: { after: 5s }, xid: 79 } }'
    #[arg(long, value_name = "YAML")]
    pub gpu: Option<String>,
    /// What tells the time: this machine, or the time model of the simulated GPUs
    #[arg(long, value_name = "CLOCK", value_parser = clap::builder::PossibleValuesParser::new(clock::WORDS))]
    pub clock: Option<String>,
    /// With --clock modeled, where each process that ends normally leaves its operations, for `ftest what-if`: a directory without others
    #[arg(long, value_name = "DIR", requires = "clock")]
    pub operations: Option<PathBuf>,
    /// Let gaps (`libcublas.*`) or findings (`rank_lost`) of this kind pass; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub allow: Vec<String>,
    /// What else is checked while it runs, as under `sanitize` in a suite; or none [default: races,replicas]
    #[arg(long, value_name = "LIST")]
    pub sanitize: Option<String>,
    /// Planning without running
    #[command(flatten)]
    pub preflight: PreflightArgs,
    /// One rank of a job
    #[command(flatten)]
    pub alone: AloneArgs,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
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

/// Why a command could not be run, and the exit code for it.
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

/// Runs the command; returns its exit code, 128 + n for a signal, or 2 or 3 for ftest's own errors, which are printed.
pub fn run(arguments: &ExecArgs) -> i32 {
    exit_code(PROGRAM, run_one(arguments))
}

fn run_one(arguments: &ExecArgs) -> Result<i32, Trouble> {
    let plan = plan(arguments.cluster.as_deref(), &arguments.devices)?;
    let events = arguments.gpu.as_deref().map(|text| suite::gpu_events("--gpu", text, &plan));
    let faults = events.transpose().map_err(Trouble::usage)?.unwrap_or_default();
    if let Some(words) = &arguments.sanitize {
        let named = |error| BadValue { variable: "--sanitize", ..error };
        Sanitizers::parse(words).map_err(|error| Trouble::usage(named(error)))?;
    }
    if arguments.clock.as_deref() == Some(clock::MODELED) {
        uncalibrated(&plan).into_iter().for_each(|note| eprintln!("{PROGRAM}: {note}"));
    }
    let alone = Alone::from_arguments(&arguments.alone, &plan).map_err(Trouble::usage)?;
    let file = arguments.alone.as_rank_report.as_deref();
    let file = file.map(|path| checked_report("--as-rank-report", path)).transpose()?;
    run_plan(&ExecPlan {
        program: PROGRAM,
        plan: &plan,
        transport: arguments.transport,
        clock: arguments.clock.as_deref(),
        operations: operations(arguments)?.as_deref(),
        report: arguments.report.as_deref(),
        command: &arguments.command,
        ranks: None,
        allow: &arguments.allow,
        faults: &faults,
        sanitize: arguments.sanitize.as_deref(),
        dry: None,
        alone: alone.as_ref(),
        alone_report: file.as_deref(),
    })
}

/// The directory for operations, absolute.
pub(super) fn operations(arguments: &ExecArgs) -> Result<Option<PathBuf>, Trouble> {
    let Some(directory) = &arguments.operations else { return Ok(None) };
    let refused = |why: &dyn std::fmt::Display| Trouble::usage(format!("--operations {}: {why}", directory.display()));
    if arguments.clock.as_deref() != Some(clock::MODELED) {
        return Err(refused(&"operations are kept with `--clock modeled` alone"));
    }
    std::fs::create_dir_all(directory).map_err(|error| refused(&error))?;
    let has_some = std::fs::read_dir(directory).map_err(|error| refused(&error))?.next().is_some();
    if has_some {
        return Err(refused(&"has files already; name a directory that is empty or not there"));
    }
    std::path::absolute(directory).map(Some).map_err(|error| refused(&error))
}

/// What the time model has not been compared with, of the GPUs of a cluster.
fn uncalibrated(plan: &ClusterPlan) -> Option<String> {
    let profiles = plan.gpus().into_iter().map(|(_, id)| id).collect::<BTreeSet<&str>>();
    let is_outside =
        |id: &&str| profile::builtin(id).is_some_and(|profile| !Gpu::from_profile(profile).is_calibrated());
    time::uncalibrated_models(&profiles.into_iter().filter(is_outside).collect())
}

/// A command and the cluster it runs on.
pub(super) struct ExecPlan<'a> {
    /// The prefix of its messages.
    pub(super) program: &'static str,
    pub(super) plan: &'a ClusterPlan,
    pub(super) transport: TransportName,
    /// The clock of the program; that of the environment if absent.
    pub(super) clock: Option<&'a str>,
    /// The directory for operations under the modeled clock.
    pub(super) operations: Option<&'a Path>,
    pub(super) report: Option<&'a Path>,
    pub(super) command: &'a [OsString],
    /// If set, runs the command once for each of this many ranks, each on its own GPU. Only rank 0 writes to stdout.
    pub(super) ranks: Option<u32>,
    /// Gap patterns and finding kinds that do not change the exit code.
    pub(super) allow: &'a [String],
    /// GPU faults to inject.
    pub(super) faults: &'a [Fault],
    /// The sanitizers, in place of those that the environment names.
    pub(super) sanitize: Option<&'a str>,
    /// Set if it runs without computing, for a preflight, which only looks at memory.
    pub(super) dry: Option<&'a Dry<'a>>,
    /// Set if it is one rank of a job without the others.
    pub(super) alone: Option<&'a Alone>,
    /// The file for the report on that rank's calls.
    pub(super) alone_report: Option<&'a Path>,
}

/// The cluster in `file`, or one node with `devices`.
pub(super) fn plan(file: Option<&Path>, devices: &DeviceArguments) -> Result<ClusterPlan, Trouble> {
    variables::check_environment().map_err(Trouble::usage)?;
    variables::notes(false).iter().for_each(|note| eprintln!("ftest: {note}"));
    match file {
        Some(file) => settings::read_cluster(file).map_err(Trouble::usage),
        None => devices.single_node().map_err(Trouble::usage),
    }
}

/// Runs it to its end; returns the command's exit code.
pub(super) fn run_plan(plan: &ExecPlan<'_>) -> Result<i32, Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Trouble::infra)?;
    runtime.block_on(execute(plan))
}

/// The exit code of `result`, after printing what went wrong.
pub(super) fn exit_code(program: &str, result: Result<i32, Trouble>) -> i32 {
    match result {
        Ok(code) => code,
        Err(Trouble { code, message }) => {
            eprintln!("{program}: {message}");
            code
        }
    }
}

/// A running command.
struct Execution {
    context: RunContext,
    scratch: PathBuf,
    tree: ProcessTree,
    cancel: Cancel,
    report: ReportPlace,
}

async fn execute(arguments: &ExecPlan<'_>) -> Result<i32, Trouble> {
    let plan = arguments.plan;
    let report = arguments.report.map(|path| checked_report("--report", path)).transpose()?;
    let install = Install::find();
    let steps = python::Steps::new();
    let python = python::for_command(&arguments.command[0], &|said| steps.show(said)).map_err(Trouble::infra);
    steps.done();
    let python = python?;
    let mut environment = EnvironmentBuilder::foreground(&install, Environment::new(), python.as_ref())
        .gpus(None)
        .map_err(Trouble::infra)?
        .cluster(plan)
        .finish();
    // Checked before anything is started.
    program::find(&arguments.command[0], environment.get("PATH").as_deref(), Path::new("."))
        .map_err(|error| Trouble { code: error.exit_code(), message: error.to_string() })?;

    // The command handles the terminal's signals itself; they must not end us before the coordinator is down.
    let mut signals = Signals::listen().map_err(Trouble::infra)?;
    let context = RunContext::start(install, Cancel::new(), Arc::new(|_| {})).map_err(Trouble::infra)?;
    let (mut execution, endpoint) = Execution::start(context, arguments, report.as_deref()).await?;
    let cookie = execution.tree.sweep().cookie.clone();
    environment.coordinator(&endpoint);
    environment.set(env::COOKIE.name, node_cookie(&cookie, 0).to_string());
    environment.machine(&reports::machine(&execution.scratch));
    environment.journal(&reports::journal(&execution.scratch));
    set_faults(&mut environment, arguments.faults);
    if let Some(clock) = arguments.clock {
        environment.set(env::CLOCK.name, clock);
    }
    if let Some(directory) = arguments.operations {
        environment.set(env::OPERATIONS.name, directory);
    }
    if let Some(words) = arguments.sanitize {
        environment.set(env::SANITIZE.name, words);
    }
    let allows_gaps = arguments.allow.iter().any(|pattern| !finding::WORDS.contains(&pattern.as_str()));
    if allows_gaps && environment.get(env::UNSUPPORTED_API.name).is_none() {
        environment.set(env::UNSUPPORTED_API.name, "warn");
    }
    let prepared = arguments.alone.map_or(Ok(()), |alone| alone.prepare(&mut environment, &execution.scratch));
    let prepared =
        prepared.and_then(|()| arguments.dry.map_or(Ok(()), |dry| dry.prepare(&mut environment, &execution.scratch)));
    let environments = match (prepared, arguments.ranks) {
        (Err(error), _) => Err(Trouble::infra(error)),
        (Ok(()), None) => Ok(vec![environment]),
        (Ok(()), Some(size)) => {
            environment.set(SCRATCH, &execution.scratch);
            ranks::environments(&environment, &cookie, plan, size).map_err(Trouble::usage)
        }
    };
    let ended = match environments {
        Ok(environments) => {
            let shows_output = arguments.dry.is_none_or(|dry| dry.shows_output);
            execution.run(arguments.command, environments, shows_output, &mut signals, &endpoint).await
        }
        Err(trouble) => Err(trouble),
    };
    let trouble = execution.end().await;
    if let Some(dry) = arguments.dry {
        let code = ended?;
        dry.collect(&execution.scratch, code);
        return trouble.map_or(Ok(code), |message| Err(Trouble::infra(message)));
    }
    let listed = arguments.alone.map_or(Ok(()), |alone| alone.report(&execution.scratch, arguments.alone_report));
    let trouble = trouble.or_else(|| listed.err());
    let mut seen = Seen::default();
    seen.add_gaps(&execution.scratch, arguments.allow);
    let trouble = trouble.or_else(|| seen.add_findings(&execution.scratch, &execution.report, arguments.allow).err());
    drop(execution);
    let code = seen.judge(arguments.program, ended?);
    match trouble {
        Some(message) if code == 0 => Err(Trouble::infra(message)),
        Some(message) => {
            eprintln!("{}: {message}", arguments.program);
            Ok(code)
        }
        None => Ok(code),
    }
}

/// Only these faults, and none from an enclosing run.
fn set_faults(environment: &mut Environment, faults: &[Fault]) {
    if faults.is_empty() {
        environment.remove(env::FAULTS.name);
    } else {
        environment.set(env::FAULTS.name, fault::to_json(faults));
    }
}

/// The path that `option` names for a report, absolute, when its directory is there.
pub(super) fn checked_report(option: &str, report: &Path) -> Result<PathBuf, Trouble> {
    let path = std::path::absolute(report).map_err(|error| Trouble::usage(format!("{option}: {error}")))?;
    match path.parent() {
        Some(parent) if parent.is_dir() && !path.is_dir() => Ok(path),
        Some(parent) if !parent.is_dir() => Err(Trouble::usage(format!(
            "{option} {}: no directory {}; make it first",
            report.display(),
            parent.display()
        ))),
        _ => Err(Trouble::usage(format!("{option} {}: is a directory; name a file", report.display()))),
    }
}

impl Execution {
    async fn start(
        context: RunContext,
        arguments: &ExecPlan<'_>,
        report: Option<&Path>,
    ) -> Result<(Execution, Endpoint), Trouble> {
        let (scratch, cookie) = context.open_case().map_err(Trouble::infra)?;
        let program = context.install.coordinator().map_err(Trouble::infra)?;
        let cancel = context.cancel.clone();
        let report = ReportPlace::new(&scratch, report);
        let mut execution = Execution { context, scratch, tree: ProcessTree::new(cookie), cancel, report };
        let mut environment = Environment::new();
        environment.machine(&reports::machine(&execution.scratch));
        set_faults(&mut environment, arguments.faults);
        let plan = coordinator::Plan {
            network: None,
            reached_at: None,
            program: &program,
            cluster: Some(arguments.plan),
            transport: match arguments.transport {
                TransportName::Unix => Transport::Unix,
                TransportName::Tcp => Transport::Tcp,
            },
            scratch: &execution.scratch,
            report: &execution.report.written,
            directory: Path::new("."),
            idle: None,
            environment,
            successor: execution.context.successor(),
        };
        let started = match plan.start(&mut execution.tree) {
            Err(error) => Err(error),
            Ok(starting) => match starting.endpoint(&mut execution.tree).await {
                Ok(endpoint) => Ok(endpoint),
                Err(why) => Err(coordinator::not_started(&mut execution.tree, &why).await),
            },
        };
        match started {
            Ok(endpoint) => Ok((execution, endpoint)),
            Err(error) => {
                let _ = execution.tree.stop_coordinator(&execution.cancel).await;
                execution.tree.kill().await;
                Err(Trouble::infra(error))
            }
        }
    }

    /// Runs the command once in each environment; returns the highest exit code. Signals are forwarded to all of them.
    async fn run(
        &mut self,
        command: &[OsString],
        environments: Vec<Environment>,
        shows_output: bool,
        signals: &mut Signals,
        endpoint: &Endpoint,
    ) -> Result<i32, Trouble> {
        let deaths = DeathNotices::new(endpoint);
        for (rank, environment) in environments.into_iter().enumerate() {
            let plan = ProcessPlan {
                role: Role::Rank(rank as u32),
                argv: command.to_vec(),
                environment,
                directory: PathBuf::from("."),
                lifeline: false,
                at_our_death: Some(Signal::KILL),
                streams: Streams::Inherited { stdout: rank == 0 && shows_output },
                umask: UmaskOf::User,
                network: None,
                texts: Texts::default(),
            };
            self.tree
                .start(&plan, &self.scratch, false)
                .map_err(|error| Trouble { code: error.exit_code(), message: error.to_string() })?;
        }
        let mut code = 0;
        let mut failed: Option<(Role, Exit, Instant)> = None;
        while self.tree.is_alive() {
            let until = failed.as_ref().map_or_else(Instant::now, |(.., at)| *at + deadline::SURVIVORS);
            tokio::select! {
                event = self.tree.next() => {
                    let Event::Ended(role @ Role::Rank(rank), exit) = event else { continue };
                    let running = self.tree.processes().iter().find(|running| running.role == role);
                    if let Some(running) = running.filter(|_| self.tree.is_alive()) {
                        deaths.ended(rank, running.pid.unsigned_abs(), &exit);
                    }
                    code = code.max(code_of(&exit));
                    if exit != Exit::Code(0) {
                        failed.get_or_insert((role, exit, Instant::now()));
                    }
                }
                number = signals.next() => forward(&self.tree, number),
                () = sleep_until(until), if failed.is_some() => {
                    if let Some((role, exit, _)) = &failed {
                        eprintln!("ftest: {role} ended with {}; the others are ended", describe(exit));
                    }
                    self.tree.escalate(deadline::GRACE, &self.cancel).await;
                    break;
                }
            }
        }
        Ok(code)
    }

    /// Ends what the command left, then the coordinator. Returns one sentence if something went wrong.
    async fn end(&mut self) -> Option<String> {
        self.tree.let_leave(&self.cancel).await;
        // Looked up again, because a process that was just starting has its name by now.
        let names: Vec<String> = self.tree.sweep().find().iter().map(|process| process.describe()).collect();
        if !names.is_empty() {
            eprintln!("ftest: ended what the command left running: {}", names.join(", "));
        }
        self.tree.kill().await;
        while self.tree.try_next().is_some() {}
        let trouble = match self.tree.coordinator_exit() {
            Some(exit) => Some(format!("the coordinator {} before the command{}", exit.clause(), self.complaint())),
            None => match (self.tree.stop_coordinator(&self.cancel).await, self.tree.coordinator_exit()) {
                (Err(late), _) => Some(format!("{late}; no report")),
                (Ok(()), Some(Exit::Code(0))) => None,
                (Ok(()), Some(exit)) => Some(format!("the coordinator {}{}", exit.clause(), self.complaint())),
                (Ok(()), None) => Some("the coordinator did not end; no report".to_owned()),
            },
        };
        // Anything the coordinator left is ended, too.
        self.tree.kill_leftovers().await;
        trouble
    }

    /// What the coordinator wrote on stderr, after a colon.
    fn complaint(&self) -> String {
        let text = std::fs::read_to_string(self.scratch.join("coordinator.stderr")).unwrap_or_default();
        if text.trim().is_empty() { String::new() } else { format!(": {}", text.trim()) }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.context.remove(&self.scratch);
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
fn forward(tree: &ProcessTree, number: i32) {
    let from_terminal = matches!(number, libc::SIGINT | libc::SIGQUIT) && in_foreground();
    if let (Some(signal), false) = (Signal::from_named_raw(number), from_terminal) {
        tree.unfinished().for_each(|running| running.signal(signal));
    }
}

/// Whether a terminal has us, and so the command, in its foreground.
fn in_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    let group = rustix::termios::tcgetpgrp(terminal).map(|group| group.as_raw_nonzero().get());
    group.is_ok_and(|group| Process::own().is_some_and(|own| own.group == group))
}

/// The exit code a shell would report for it.
fn code_of(exit: &Exit) -> i32 {
    match exit {
        Exit::Code(code) => *code,
        Exit::Signal(number) => 128 + number,
        _ => 1,
    }
}
