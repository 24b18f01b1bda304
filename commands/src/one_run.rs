//! One run, from its first event to its last: the schedule, signals, reports.

use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use runner::case::Case;
use runner::check::snapshot::SnapshotMode;
use runner::execute::launch::debug::DebugRank;
use runner::execute::launch::variables;
use runner::execute::process_tree::cookie::random_word;
use runner::execute::run::clock::Instant;
use runner::execute::run::context::Announcement;
use runner::execute::run::job;
use runner::execute::{self, Cancel, RunContext};
use runner::host::install::Install;
use runner::host::machine;
use runner::host::output;
use runner::host::secrets::Secrets;
use runner::host::variable;
use runner::record::event::{self, CaseInfo, Event, RunInfo, Whole};
use runner::record::{self, ArtifactStore, Recorder, Run, history, keep};
use runner::report::github;
use runner::report::human::HumanReport;
use runner::schedule::run_resources::RunResources;
use runner::schedule::slurm::Slurm;
use runner::schedule::{self, Order, Settings, order};
use runner::verdict::exit_code::ExitCode;
use tokio::time::MissedTickBehavior;

use crate::cli::RunArgs;
use crate::drive;
use crate::machines::Ungathered;
use crate::reports::Reports;
use crate::signals::{SignalAction, Signals};

/// How often pending reports are refreshed.
const REFRESH: Duration = Duration::from_secs(1);

/// The run information known before the first case.
fn run_info(arguments: &RunArgs, seed: Option<u64>, cases: &[Arc<Case>], whole: Option<Whole>) -> RunInfo {
    let now = SystemTime::now();
    RunInfo {
        version: event::VERSION,
        run: record::run_id(now),
        ftest: env!("CARGO_PKG_VERSION").to_owned(),
        at_ms: event::ms(now),
        host: machine::name(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        directory: std::env::current_dir().unwrap_or_default(),
        shard: arguments.select.shard.map(|shard| shard.to_string()),
        whole,
        seed,
        rounds: Some(arguments.pace.rounds()).filter(|rounds| rounds.repeat()).map(|rounds| rounds.to_string()),
        cases: cases.iter().map(|case| CaseInfo::from(&**case)).collect(),
        ..RunInfo::default()
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Through(ExitCode),
    /// By a signal.
    BySignal(ExitCode),
}

impl Ended {
    pub(super) fn code(self) -> ExitCode {
        match self {
            Ended::Through(code) | Ended::BySignal(code) => code,
        }
    }
}

/// One run from its first event to its last.
pub(super) async fn execute(
    arguments: &RunArgs,
    install: Install,
    cases: &[Arc<Case>],
    whole: Option<Whole>,
    debug_rank: Option<DebugRank>,
    signals: &mut Signals,
) -> Ended {
    let scheduled: Vec<Arc<Case>>;
    let cases = match arguments.pace.schedule {
        None => cases,
        Some(schedule) => {
            let with = |case: &Arc<Case>| Arc::new(Case { schedule: Some(schedule), ..(**case).clone() });
            scheduled = cases.iter().map(with).collect();
            &scheduled
        }
    };
    let cancel = Cancel::new();
    let (announcer, mut announced) = tokio::sync::mpsc::unbounded_channel();
    let announce = Arc::new(move |announcement: Announcement| {
        // The run may end while a thread still sends; then the receiver is gone.
        let _ = announcer.send(announcement);
    });
    if let Err(error) = execute::warm::check_environment() {
        eprintln!("ftest: {error}");
        return Ended::Through(ExitCode::Usage);
    }
    for note in variables::notes(true) {
        eprintln!("ftest: {note}");
    }
    if let Err(code) = arguments.machines.check(cases) {
        return Ended::Through(code);
    }
    let keep_size = match keep::size(arguments.keep_size) {
        Ok(size) => size,
        Err(error) => {
            eprintln!("ftest: {error}");
            return Ended::Through(ExitCode::Usage);
        }
    };
    execute::keep_descriptors();
    let mut context = match RunContext::start(install, cancel.clone(), announce) {
        Ok(context) => context.limited(arguments.global_timeout),
        Err(error) => {
            eprintln!("ftest: {error}");
            return Ended::Through(ExitCode::CouldNotRun);
        }
    };
    context.machines = match arguments.machines.gather(&context, arguments.global_timeout, signals).await {
        Ok(machines) => machines,
        Err(Ungathered::Failed(code)) => return Ended::Through(code),
        Err(Ungathered::BySignal(code)) => return Ended::BySignal(code),
    };
    let pace = &arguments.pace;
    let slots = arguments.executor.slots(pace);
    let seed = pace.shuffle.map(|seed| seed.unwrap_or_else(random_seed));
    let runs = arguments.runs.runs();
    let order = match seed {
        _ if arguments.drive => Order::Asked(drive::asked(cases)),
        Some(seed) => Order::Known(order::shuffled(cases.len(), seed)),
        None if slots > 1 => Order::Preferred(order::longest_first(cases, slots, &history::durations(&runs))),
        None => Order::Known((0..cases.len()).collect()),
    };
    let info = run_info(arguments, seed, cases, whole);
    let store = runs.open(&info.run, arguments.keep_runs, keep::Room::before(keep_size));
    let store = store.map_err(|error| eprintln!("ftest: this run is not kept: {error}")).ok();
    let directory = store.as_ref().map(|store| store.directory().to_owned()).unwrap_or_default();
    let secrets = Secrets::of_environment();
    cases.iter().for_each(|case| secrets.learn(case.env.clone()));
    context.no_capture = arguments.show.no_capture.then(|| secrets.clone());
    context.debug_rank = debug_rank;
    let room = keep::Room::of_run(keep_size);
    let artifacts = store.as_ref().map(|store| ArtifactStore::new(store.directory(), secrets.clone(), room));
    let slurm = match slurm(arguments, &context.install, keep_size, store.is_some().then_some(&directory)) {
        Ok(slurm) => slurm,
        Err(error) => {
            eprintln!("ftest: --executor slurm: {error}");
            return Ended::Through(ExitCode::CouldNotRun);
        }
    };
    let resources = Rc::new(RunResources { execution: context, artifacts, secrets: secrets.clone(), slurm });
    let (shared, to_github) = (arguments.show.shares_the_terminal(), arguments.reports.files.to_github());
    // Workflow commands that programs print must not be executed either. Groups do not work then.
    let silence = (shared && to_github).then(github::silence);
    // Standard output belongs to the program that drives the run.
    let out: Box<dyn Write> = if arguments.drive { Box::new(std::io::sink()) } else { Box::new(output::styled()) };
    let human = HumanReport::new(out, !shared && !arguments.drive).in_groups(to_github && !shared);
    let reports = Reports::new(
        &arguments.reports,
        Run::in_directory(&directory),
        Recorder::new(store, secrets).within(keep::Room::log(keep_size)),
        human,
    );
    let reports = if arguments.drive { reports.printing_events() } else { reports };
    let reports = Rc::new(RefCell::new(reports));
    let in_ci = variable::is_set("CI");
    let settings = Settings {
        // The output of cases that run side by side could not be told apart.
        slots: if shared { 1 } else { slots },
        fail_fast: pace.fail_fast(in_ci).filter(|_| !arguments.drive),
        rounds: pace.rounds(),
        snapshots: match (arguments.accept, in_ci) {
            (true, _) => SnapshotMode::Accept,
            (false, true) => SnapshotMode::Collect,
            (false, false) => SnapshotMode::Review,
        },
        chaos: pace.chaos,
        keep: arguments.keep,
        deny_skip: arguments.deny_skip,
        retry_limit: arguments.retry_limit,
    };
    let started = Instant::now();
    let announce: schedule::Announce = {
        let reports = Rc::clone(&reports);
        Rc::new(move |event| reports.borrow_mut().on(event))
    };
    if let Some((stop, _)) = &silence {
        print(stop);
    }
    announce(Event::RunStarted(info));
    let run = schedule::run(cases, order, Rc::clone(&resources), settings, Rc::clone(&announce));
    tokio::pin!(run);
    let mut terminated = None;
    let mut refresh = tokio::time::interval(REFRESH);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let strays = loop {
        tokio::select! {
            strays = &mut run => break strays,
            Some(announcement) = announced.recv() => {
                let step = reports.borrow_mut().announced(announcement);
                step.into_iter().for_each(|what| announce(Event::Preparing { what }));
            }
            _ = refresh.tick() => reports.borrow_mut().refresh(),
            action = signals.next() => match action {
                // A debugger on our terminal uses this signal to interrupt its program.
                SignalAction::End(ExitCode::Interrupted) if arguments.show.debugger.is_some() => {}
                SignalAction::Pause => job::pause(&resources.execution),
                SignalAction::End(code) => {
                    let first = terminated.is_none();
                    terminated.get_or_insert(code);
                    cancel.raise();
                    if first {
                        eprintln!("ftest: ending the running cases; press again to end them at once");
                    }
                }
                SignalAction::EndNow(code) => {
                    terminated.get_or_insert(code);
                    cancel.raise();
                    cancel.raise();
                }
            },
        }
    };
    let mut verdict = reports.borrow().run().verdict_code();
    if !strays.is_empty() {
        let names = strays.join(", ");
        eprintln!("ftest: ended processes that some case left behind outside its mark, group and parent: {names}");
        verdict = verdict.max(ExitCode::Failed);
    }
    if let Some((_, resume)) = &silence {
        print(resume);
    }
    announce(Event::RunFinished {
        at_ms: event::ms(SystemTime::now()),
        duration_us: event::us(started.elapsed()),
        interrupted: terminated.is_some(),
        exit_code: terminated.unwrap_or(verdict) as u8,
    });
    if let Some(machines) = &resources.execution.machines {
        machines.dismiss().await;
    }
    let unwritten = reports.borrow().code();
    match terminated {
        Some(code) => Ended::BySignal(code),
        None => Ended::Through(verdict.max(unwritten)),
    }
}

/// The Slurm launcher, if the user asks for it.
///
/// # Errors
/// A message if ftest is missing, or there is no directory for the files.
fn slurm(
    arguments: &RunArgs,
    install: &Install,
    keep_size: u64,
    directory: Option<&PathBuf>,
) -> Result<Option<Slurm>, String> {
    if arguments.executor.executor.is_none() {
        return Ok(None);
    }
    let ftest = install.ftest().map_err(|error| error.to_string())?;
    let directory = directory.ok_or("the run cannot be kept, and events and files are gathered there")?;
    let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
    let mut passed_on = vec![format!("--retry-limit={}", arguments.retry_limit)];
    for (given, option) in
        [(arguments.accept, "--accept"), (arguments.deny_skip, "--deny-skip"), (arguments.keep, "--keep")]
    {
        passed_on.extend(given.then(|| option.to_owned()));
    }
    // As much as of an attempt here: its run has a quarter of its own limit, too.
    passed_on.push(format!("--keep-size={}B", (keep_size / 8).max(1 << 20)));
    passed_on.extend(arguments.pace.schedule.map(|schedule| format!("--schedule={schedule}")));
    Ok(Some(Slurm::new(ftest, directory, arguments.executor.srun.clone(), passed_on)))
}

/// Prints without escaping. A closed stdout is not an error: the exit code still carries the result.
fn print(text: &str) {
    let _ = output::stdout().write_all(text.as_bytes());
}

/// A seed short enough to type.
fn random_seed() -> u64 {
    u64::from_str_radix(&random_word()[..8], 16).unwrap_or_default()
}
