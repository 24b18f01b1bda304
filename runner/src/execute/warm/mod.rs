//! Warm starts: Python processes of cases are forked from one that has imported PyTorch, and are otherwise as if they had been
//! started. What would differ is started cold, with the reason. docs/adr/runner.md has the design.

mod notes;
mod request;
mod server;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use protocol::env::{self, BadValue};
use tokio::sync::OnceCell;

pub(super) use notes::{cold, file, read};
pub(super) use request::Request;
pub(super) use server::Server;

use super::launch::builder::EnvironmentBuilder;
use super::process_tree::cookie::Cookie;
use super::python::Python;
use crate::case::{Case, Launch};
use crate::host::install::Install;
use crate::host::variable;

/// Whether a case is started warm that says nothing about it.
const DEFAULT: bool = false;

/// The user's word on all cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wish {
    /// Each case as its suite says.
    #[default]
    AsTheSuite,
    /// Each that does not refuse.
    Warm,
    /// None.
    Cold,
}

impl Wish {
    /// From `FTEST_WARM`.
    ///
    /// # Errors
    /// [`BadValue`].
    pub(super) fn of_user() -> Result<Wish, BadValue> {
        let Some(value) = variable::get(env::WARM.name) else { return Ok(Wish::AsTheSuite) };
        let value = value.to_str().ok_or_else(|| env::WARM.bad(&value.to_string_lossy()))?;
        Ok(if env::WARM.switch(value)? { Wish::Warm } else { Wish::Cold })
    }

    fn of(self, case: &Case) -> bool {
        match (self, case.warm) {
            (Wish::Cold, _) => false,
            (Wish::Warm, word) => word.unwrap_or(true),
            (Wish::AsTheSuite, word) => word.unwrap_or(DEFAULT),
        }
    }
}

/// Checks the user's word, so that a bad one is reported before anything starts.
///
/// # Errors
/// [`BadValue`].
pub fn check_environment() -> Result<(), BadValue> {
    Wish::of_user().map(drop)
}

type Made = Arc<OnceCell<Result<Arc<Server>, String>>>;

/// The warm processes of a run: one for each Python.
#[derive(Debug, Default)]
pub(super) struct Servers {
    wish: Wish,
    made: Mutex<HashMap<PathBuf, Made>>,
    number: AtomicU64,
}

impl Servers {
    /// None yet.
    pub(super) fn new(wish: Wish) -> Servers {
        Servers { wish, ..Servers::default() }
    }

    /// The Python from whose warm process those of `case` can be forked: scripts, and torchrun, in one that has PyTorch, under the shim.
    /// None where that is not wanted, or for a case that does not ask for it by itself.
    ///
    /// # Errors
    /// Why a case that asks for it cannot have it.
    pub(super) fn wanted<'a>(&self, case: &Case, python: Option<&'a Python>) -> Result<Option<&'a Python>, String> {
        if !self.wish.of(case) {
            return Ok(None);
        }
        let python = python.filter(|python| python.torch_libraries.is_some());
        match python.filter(|_| Servers::may_serve(case)) {
            None if case.warm == Some(true) => {
                Err("only Python scripts and torchrun are, on a cluster, in an environment that has PyTorch".to_owned())
            }
            python => Ok(python),
        }
    }

    /// Whether a warm process will be asked for when `case` runs, if its Python has PyTorch.
    pub(super) fn will_want(&self, case: &Case) -> bool {
        self.wish.of(case) && Servers::may_serve(case)
    }

    fn may_serve(case: &Case) -> bool {
        let script = match &case.launch {
            Launch::Torchrun { .. } => true,
            Launch::Argv { argv, .. } => {
                argv.first().is_some_and(|word| is_python(word)) && argv[1..].iter().any(|word| word.ends_with(".py"))
            }
        };
        script && case.cluster.is_some()
    }

    /// The warm process of `python`, made when it is missing.
    ///
    /// # Errors
    /// Why there is none, in a sentence. It is not tried again in this run.
    pub(super) async fn of(
        &self,
        python: &Python,
        install: &Install,
        run: (&Cookie, &Path),
    ) -> Result<Arc<Server>, String> {
        let made = Arc::clone(self.made.lock().entry(python.program.clone()).or_default());
        let make = async || {
            let name = format!("warm-{}", self.number.fetch_add(1, Ordering::Relaxed));
            let (cookie, directory) = (run.0.part(&name), run.1.join(name));
            let mut environment = EnvironmentBuilder::isolated(install, None, &[], Some(python))
                .gpus(None)
                .map_err(|error| error.to_string())?
                .finish();
            environment.set(env::COOKIE.name, cookie.to_string()).set("TMPDIR", directory.join("tmp"));
            Server::start(python, environment, directory).await.map(Arc::new)
        };
        made.get_or_init(make).await.clone()
    }

    /// Ends them, when no case runs any more.
    pub(super) fn end(&self) {
        self.made.lock().clear();
    }
}

/// Whether a command's first word names the interpreter. Which one, the warm process compares.
fn is_python(word: &str) -> bool {
    let name = Path::new(word).file_name().unwrap_or_default();
    name == "python" || name == "python3"
}
