//! What all cases of a run share: the installation, the mark, the directory, the guard, Python environments.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use tokio::sync::{Mutex, OnceCell};

use super::cancel::Cancel;
use super::descriptors::Descriptors;
use super::guard::{self, Guard};
use super::limit::Limits;
use super::scratch::{self, RunDirectory};
use crate::case::Case;
use crate::case::python::PythonNeed;
use crate::execute::collect::shared_memory::Lives;
use crate::execute::launch::debug::DebugRank;
use crate::execute::launch::environment::Environment;
use crate::execute::machines::Machines;
use crate::execute::process_tree::cookie::Cookie;
use crate::execute::process_tree::inherit;
use crate::execute::process_tree::sweep::{self, Sweep};
use crate::execute::python::{self, Python, Pythons, Said, Started, Used};
use crate::execute::warm::{self, Preference, Servers};
use crate::host::deadline;
use crate::host::install::Install;
use crate::host::machine;
use crate::host::secrets::Secrets;
use crate::host::surroundings;
use crate::observation::Observation;

/// What the run says while cases wait for a Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// Something begins, as `Event::Preparing` says it.
    Step(String),
    /// How far that is, several times a second.
    Amount(String),
    /// This case waits: its time does not count yet.
    Waits(String),
    /// This case no longer waits.
    Goes(String),
}

/// Takes announcements, on any thread.
pub type Announce = Arc<dyn Fn(Announcement) + Send + Sync>;

/// A Python that is being provided.
#[derive(Debug, Default)]
struct Provided {
    python: OnceCell<Result<Python, PythonUnavailable>>,
    /// The case that says in full why there is none.
    told: OnceLock<String>,
}

/// Why there is no Python for a need.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PythonUnavailable {
    /// The user stopped the run before it was ready.
    #[error("interrupted while the Python environment was being made")]
    Interrupted,
    /// It could not be found or made.
    #[error("{0}")]
    Failed(String),
}

/// A run.
pub struct RunContext {
    /// Where ftest's own parts are installed.
    pub install: Install,
    /// Raised when the user wants to stop.
    pub cancel: Cancel,
    /// Time limits for the whole run and for suites.
    pub limits: Limits,
    /// Tells which cases may have left objects in `/dev/shm`.
    pub(in crate::execute) lives: Lives,
    /// If set, output of cases is shown as it comes, with these secrets removed.
    pub no_capture: Option<Secrets>,
    /// A rank that the user wants to debug.
    pub debug_rank: Option<DebugRank>,
    /// The machines that have joined the run, if it has any besides this one.
    pub machines: Option<Machines>,
    /// Room for the descriptors of cases.
    pub(in crate::execute) descriptors: Descriptors,
    cookie: Cookie,
    directory: RunDirectory,
    guard: Option<Guard>,
    announce: Announce,
    cases: AtomicU64,
    fixtures: AtomicU64,
    pythons: Mutex<HashMap<PythonNeed, Arc<Provided>>>,
    /// What those have.
    inventories: Pythons,
    warm: Servers,
}

impl RunContext {
    /// Makes the run's directory and starts its guard. From now on, orphans are reparented to this process, and neither
    /// it nor its children leave core files.
    ///
    /// # Errors
    /// One sentence: what is missing or could not be made.
    pub fn start(install: Install, cancel: Cancel, announce: Announce) -> Result<RunContext, String> {
        if let Some(why) = surroundings::no_proc() {
            return Err(why);
        }
        let program = install.ftest().map_err(|error| error.to_string())?;
        let preference = Preference::of_environment().map_err(|error| error.to_string())?;
        inherit::raise_limits();
        let cookie = Cookie::run();
        scratch::remove_stale();
        let directory = RunDirectory::make().map_err(|error| error.to_string())?;
        let guard = Guard::start(&program, &cookie, directory.path())
            .map_err(|error| format!("cannot start the guard {}: {}", program.display(), machine::explained(&error)))?;
        sweep::become_subreaper();
        // Otherwise an aborted rank would write gigabytes into the working directory.
        let none = Rlimit { current: Some(0), maximum: rustix::process::getrlimit(Resource::Core).maximum };
        let _ = rustix::process::setrlimit(Resource::Core, none);
        Ok(RunContext {
            install,
            cancel,
            limits: Limits::default(),
            lives: Lives::default(),
            no_capture: None,
            debug_rank: None,
            machines: None,
            descriptors: Descriptors::left(),
            cookie,
            directory,
            guard: Some(guard),
            announce,
            cases: AtomicU64::new(0),
            fixtures: AtomicU64::new(0),
            pythons: Mutex::default(),
            inventories: Pythons::default(),
            warm: Servers::new(preference),
        })
    }

    /// The same run with a time limit of `limit` from now on.
    pub fn limited(mut self, limit: Option<Duration>) -> RunContext {
        self.limits = Limits::of_run(limit);
        self
    }

    /// The command that cleans up after this run if its guard is gone as well.
    pub fn successor(&self) -> Vec<OsString> {
        let program = self.install.ftest().ok();
        program
            .map(|program| guard::argv(&program, guard::SUCCESSOR, &self.cookie, self.directory.path()))
            .unwrap_or_default()
    }

    /// The directory of a new case and its mark.
    ///
    /// # Errors
    /// One sentence if it cannot be made.
    pub fn open_case(&self) -> Result<(PathBuf, Cookie), String> {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        let directory = self.directory.path().join(number.to_string());
        std::fs::create_dir(&directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        Ok((directory, self.cookie.part(number)))
    }

    /// The directory of a new fixture and its mark.
    ///
    /// # Errors
    /// One sentence if it cannot be made.
    pub fn open_fixture(&self) -> Result<(PathBuf, Cookie), String> {
        let name = format!("fixture-{}", self.fixtures.fetch_add(1, Ordering::Relaxed));
        let directory = self.directory.path().join(&name);
        std::fs::create_dir(&directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        Ok((directory, self.cookie.part(name)))
    }

    /// Removes a directory of the run.
    pub fn remove(&self, directory: &Path) {
        if directory.starts_with(self.directory.path()) {
            scratch::remove(directory);
        }
    }

    /// Removes the files that a case kept in its scratch directory.
    pub fn discard(&self, observation: &Observation) {
        self.remove(&observation.scratch);
    }

    /// The Python for `need` of `case`, made once per run no matter how many cases ask.
    ///
    /// # Errors
    /// [`PythonUnavailable`]: in full for one case; the others are referred to it.
    pub async fn python(&self, need: &PythonNeed, case: &Case) -> Result<Python, PythonUnavailable> {
        let provided = Arc::clone(self.pythons.lock().await.entry(need.clone()).or_default());
        let case = case.full_id();
        let waits = !provided.python.initialized();
        if waits {
            (self.announce)(Announcement::Waits(case.clone()));
        }
        let result = self.provided(need, &provided).await;
        if waits {
            (self.announce)(Announcement::Goes(case.clone()));
        }
        let error = match result {
            Err(PythonUnavailable::Failed(error)) => error,
            other => return other,
        };
        let told = provided.told.get_or_init(|| case.clone());
        Err(PythonUnavailable::Failed(match error.split_once('\n') {
            Some((first, _)) if *told != case => format!("{first}\n  {told} says this in full"),
            _ => error,
        }))
    }

    async fn provided(&self, need: &PythonNeed, provided: &Provided) -> Result<Python, PythonUnavailable> {
        let make = async || {
            let (need, announce) = (need.clone(), Arc::clone(&self.announce));
            let tools = self.cookie.part("python");
            let mark = tools.to_string();
            let announce = move |said: Said<'_>| {
                announce(match said.owned() {
                    (true, step) => Announcement::Step(step),
                    (false, amount) => Announcement::Amount(amount),
                });
            };
            let mut made = tokio::task::spawn_blocking(move || python::provide(&need, &mark, &announce));
            let result = tokio::select! {
                result = &mut made => result,
                () = self.cancel.raised(1) => {
                    // Once its tools are killed, the thread ends and removes what it had begun.
                    while !made.is_finished() {
                        Sweep::new(tools.clone()).clear(deadline::KILLED).await;
                        let _ = tokio::time::timeout(deadline::PYTHON_TOOLS, &mut made).await;
                    }
                    return Err(PythonUnavailable::Interrupted);
                }
            };
            match result {
                Ok(result) => result.map_err(|error| PythonUnavailable::Failed(error.to_string())),
                Err(error) => Err(PythonUnavailable::Failed(format!("making the Python environment failed: {error}"))),
            }
        };
        provided.python.get_or_init(make).await.clone()
    }

    /// What `python`, started with these changes to the environment in `directory`, has of what `need` declares; with `torch`,
    /// the launch itself needs PyTorch. Each interpreter is asked once per run.
    pub async fn python_used(
        &self,
        (python, need): (&Python, &PythonNeed),
        (environment, directory): (&Environment, &Path),
        torch: bool,
    ) -> Used {
        let started = Started::new(&python.program, environment, directory);
        self.inventories.used(python, started, need, torch).await
    }

    /// The warm process from which those of `case` are forked; `None` if that is not requested or not possible. The error is the
    /// reason why a case that requests it starts cold.
    pub(in crate::execute) async fn warm(
        &self,
        case: &Case,
        python: Option<&Python>,
    ) -> Option<Result<Arc<warm::Server>, String>> {
        let python = match self.warm.wanted(case, python) {
            Ok(python) => python?,
            Err(why) => return Some(Err(why)),
        };
        let made = self.warm.server_for(case, python, &self.install, (&self.cookie, self.directory.path()));
        tokio::select! {
            made = made => Some(made),
            () = self.cancel.raised(1) => None,
        }
    }

    /// Announces the cases that this run will start.
    pub fn expect(&self, cases: &[Arc<Case>], repeated: bool) {
        self.warm.expect(cases, repeated);
    }

    /// Whether the warm process of `case` is still to be made by [`RunContext::warm_up`].
    pub fn is_warming(&self, case: &Case) -> bool {
        self.warm.is_warming(case)
    }

    /// Makes the warm processes that the cases of [`RunContext::expect`] will ask for, one after the other, if their Python
    /// exists already. Cases that need none run meanwhile. May be dropped.
    pub async fn warm_up(&self) {
        while let Some(case) = self.warm.next_to_warm() {
            self.warm_for(&case).await;
            self.warm.set_warmed(&case);
        }
    }

    async fn warm_for(&self, case: &Case) {
        let Some(need) = case.python_need().filter(|_| !self.cancel.is_raised()) else { return };
        let asked = need.clone();
        let present = tokio::task::spawn_blocking(move || python::is_present(&asked)).await;
        if self.cancel.is_raised() || !present.unwrap_or(false) {
            return;
        }
        let provided = Arc::clone(self.pythons.lock().await.entry(need.clone()).or_default());
        if let Ok(python) = self.provided(&need, &provided).await {
            // If there is none, the cases report why.
            let _ = self.warm(case, Some(&python)).await;
        }
    }

    /// Ends orphans that lost mark, group and parent, so that no case can be blamed for them; returns their descriptions.
    /// Only when no case runs any more, and only if this run has the process to itself.
    pub async fn end_strays(&self) -> Vec<String> {
        self.warm.end();
        let guard: Vec<i32> = self.guard.iter().map(Guard::pid).collect();
        sweep::end_strays(&guard, deadline::KILLED).await
    }

    /// The mark that every process of the run carries.
    pub fn cookie(&self) -> &Cookie {
        &self.cookie
    }

    /// The run's directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for RunContext {
    /// Orderly end: the guard exits, ended orphans are reaped, and the directory is removed unless a case is kept in it.
    /// After a panic, the guard ends what is left, as after a violent end, because a thread waiting for it would block
    /// ftest.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.warm.end();
        self.directory.leave();
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}
