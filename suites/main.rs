//! `cargo test --test suites`: lists and runs the cases of the suites that need no Python. A bridge; `ftest` is the engine.

mod engine;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use protocol::schedule::Schedule;
use runner::case::Case;
use runner::case::requirement;
use runner::check::FailureKind;
use runner::execute::run::context::Announcement;
use runner::execute::{Cancel, RunContext};
use runner::host::install::Install;
use runner::host::secrets::Secrets;
use runner::record::keep::Room;
use runner::record::{self, ArtifactStore, Runs, Store};
use runner::schedule::Settings;
use runner::schedule::attempts;
use runner::schedule::resources::SharedPool;
use runner::schedule::run_resources::RunResources;
use runner::suite::{self, SuiteError};
use runner::verdict::Verdict;

use self::engine::Engine;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Paths in messages and in snapshots are those of the checkout.
    if let Err(error) = std::env::set_current_dir(env!("CARGO_MANIFEST_DIR")) {
        eprintln!("{}: {error}", env!("CARGO_MANIFEST_DIR"));
        return ExitCode::from(2);
    }
    let mut cases = Vec::new();
    for file in suite::find::named(&[PathBuf::from("suites")]).into_values() {
        match suite::load(&file) {
            Ok(suite) => cases.extend(suite.cases),
            Err(SuiteError::Mistakes(mistakes)) => {
                eprint!("{mistakes}");
                return ExitCode::from(2);
            }
            Err(error @ SuiteError::Read { .. }) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        }
    }
    let shared =
        Shared { cases: cases.iter().filter(|case| case.python.is_none()).cloned().collect(), ..Shared::default() };
    let shared = Arc::new(shared);
    let mut trials: Vec<Trial> = cases.into_iter().map(|case| trial(case, Arc::clone(&shared))).collect();
    trials.push(chaos(Arc::clone(&shared)));
    let conclusion = libtest_mimic::run(&arguments, trials);
    match shared.end() {
        Ok(()) => conclusion.exit_code(),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn trial(case: Arc<Case>, shared: Arc<Shared>) -> Trial {
    Trial::ignorable_test(case.full_id(), move || {
        if case.python.is_some() {
            return Ok(Completion::ignored_with(format!("it needs Python; `./ftest {}` runs it", case.suite)));
        }
        if let Some(reason) = requirement::unmet(&case) {
            return Ok(Completion::ignored_with(reason));
        }
        shared.with(|live| live.engine.run(Arc::clone(&case)))?.wait()
    })
}

/// `--chaos`: seeds of delays that show a missing wait fail the case, one of them does so again, and with the wait none does.
fn chaos(shared: Arc<Shared>) -> Trial {
    Trial::test("chaos", move || {
        let suite = suite::load(Path::new("suites/smoke.yaml"))?;
        let case =
            |id: &str| suite.cases.iter().find(|case| case.id == id).map(|case| Case::clone(case)).expect("a case");
        let resources = shared.resources()?;
        let conclude = |case: &Case, chaos: Option<u32>| -> Result<_, Failed> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (settings, shared) = (Settings { chaos, ..Settings::default() }, attempts::Shared::default());
            let conclusion =
                runtime.block_on(attempts::run(case, (&resources, &SharedPool::exhausted()), settings, &shared));
            // Most are meant to fail.
            conclusion.attempts.iter().for_each(|attempt| resources.execution.discard(&attempt.observation));
            Ok(conclusion)
        };
        let schedule = Some(Schedule { seed: 0, jitter: Duration::from_millis(20) });
        let unwaited = Case { schedule, ..case("copies-in-time") };
        let found = conclude(&unwaited, Some(3))?;
        let failure = found.failures.first().filter(|failure| failure.kind == FailureKind::Chaos);
        let failure = failure.ok_or_else(|| format!("no seed shows it: {:?}", found.failures))?;
        let words = ["end otherwise", "ends otherwise"];
        if found.verdict != Verdict::Failed || !words.iter().any(|words| failure.got.contains(words)) {
            return Err(format!("{:?}: {failure:?}", found.verdict).into());
        }
        let (_, given) = failure.next.rsplit_once("--schedule ").ok_or("no command repeats it")?;
        let again = Case { schedule: Some(given.parse()?), ..unwaited.clone() };
        if conclude(&again, None)?.verdict != Verdict::Failed {
            return Err(format!("--schedule {given} does not show it again").into());
        }
        let waited = Case { expect: unwaited.expect.clone(), ..case("late-copies[mode=waited]") };
        match conclude(&waited, Some(3))? {
            right if right.verdict == Verdict::Passed => Ok(()),
            wrong => Err(format!("{:?}", wrong.failures).into()),
        }
    })
}

/// Runs of which the files of failed cases are kept in the build directory.
const RUNS_KEPT: usize = 5;
/// Bytes that they may have.
const RUNS_ROOM: u64 = 1 << 30;

/// The run that all cases share, made when the first one runs: listing builds and starts nothing.
#[derive(Default)]
struct Shared {
    /// All that could run: what they share is torn down after the last one.
    cases: Vec<Arc<Case>>,
    live: OnceLock<Result<Mutex<Option<Live>>, String>>,
}

/// A run that has not ended.
struct Live {
    resources: Arc<RunResources>,
    engine: Engine,
    /// Held for its lock: no other run takes it for an old one.
    _store: Store,
}

impl Live {
    fn start(cases: Vec<Arc<Case>>) -> Result<Live, String> {
        build()?;
        runner::execute::keep_descriptors();
        let runs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suites");
        let id = record::run_id(SystemTime::now());
        let store = Runs::new(Some(&runs)).open(&id, RUNS_KEPT, RUNS_ROOM).map_err(|error| error.to_string())?;
        let context = RunContext::start(Install::find(), Cancel::new(), Arc::new(announce))?;
        let artifacts = Some(ArtifactStore::new(store.directory(), Secrets::default(), Room::of_run(RUNS_ROOM)));
        let resources = Arc::new(RunResources { artifacts, ..RunResources::bare(context) });
        let engine = Engine::start(cases, Arc::clone(&resources)).map_err(|error| error.to_string())?;
        Ok(Live { resources, engine, _store: store })
    }
}

impl Shared {
    /// What is made of the run that goes on.
    fn with<T>(&self, make: impl FnOnce(&Live) -> T) -> Result<T, Failed> {
        let made = self.live.get_or_init(|| Live::start(self.cases.clone()).map(|live| Mutex::new(Some(live))));
        let slot = made.as_ref().map_err(|error| Failed::from(error.clone()))?;
        let live = slot.lock().map_err(|_| Failed::from("another case panicked"))?;
        live.as_ref().map(make).ok_or_else(|| Failed::from("the run has ended"))
    }

    fn resources(&self) -> Result<Arc<RunResources>, Failed> {
        self.with(|live| Arc::clone(&live.resources))
    }

    /// Ends the run in order: what cases shared is torn down, its directory and its guard go.
    ///
    /// # Errors
    /// A teardown failed, or the directory is still there: something of a case was left in it.
    fn end(&self) -> Result<(), String> {
        let Some(Ok(slot)) = self.live.get() else { return Ok(()) };
        let Some(live) = slot.lock().ok().and_then(|mut slot| slot.take()) else { return Ok(()) };
        live.engine.end()?;
        let directory = live.resources.execution.directory().to_owned();
        drop(live.resources);
        if directory.exists() { Err(format!("the run left {}", directory.display())) } else { Ok(()) }
    }
}

fn announce(announcement: Announcement) {
    if let Announcement::Step(step) = announcement {
        eprintln!("{step}");
    }
}

/// Builds what the cases start: cargo builds the binaries of other packages only when it is asked for them.
fn build() -> Result<(), String> {
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(()) };
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // .../target/debug/deps/suites-1234
    let profile = program.parent().and_then(Path::parent);
    let target = profile.and_then(Path::parent).ok_or("this program is not in a build directory")?;
    let mut command = Command::new(cargo);
    // With the features that `cargo test --workspace` compiles dependencies with: a selection of packages, or programs
    // without a test, would have others, and everything that is built here would be compiled a second time.
    command.args(["build", "--quiet", "--workspace", "--lib", "--bins", "--test", "suites"]);
    command.arg("--target-dir").arg(target);
    if profile.is_some_and(|profile| profile.ends_with("release")) {
        command.arg("--release");
    }
    // Cargo describes this package to its tests. A build script that asks for such variables would run again, and everything that
    // depends on it would be compiled again, this program too.
    for (name, _) in std::env::vars_os() {
        if name == "CARGO_MANIFEST_DIR" || name.to_string_lossy().starts_with("CARGO_PKG_") {
            command.env_remove(name);
        }
    }
    let status = command.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the programs of the cases do not build: cargo ended with {status}"))
    }
}
