//! Warm starts: Python processes of cases are forked from one that has imported PyTorch, and otherwise behave as if started
//! normally. A process that would behave differently is started cold, and the reason is recorded. docs/adr/runner.md has the
//! design.

mod notes;
mod request;
mod server;

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use protocol::env::{self, BadValue};
use tokio::sync::OnceCell;

pub(super) use notes::{cold, file, read, without};
pub(super) use request::Request;
pub(super) use server::Server;

use super::launch::builder::EnvironmentBuilder;
use super::process_tree::cookie::Cookie;
use super::python::Python;
use crate::case::python::PythonNeed;
use crate::case::requirement;
use crate::case::{Case, Launch, Warm};
use crate::host::install::Install;
use crate::host::variable;

/// Up to this many processes of a run start no faster from a warm process, which has to be made first.
const FEW: u32 = 2;

/// What the user prefers for all cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Preference {
    /// Warm if it saves time.
    #[default]
    WhereItSaves,
    /// Every case that does not opt out.
    Warm,
    /// No case.
    Cold,
}

impl Preference {
    /// From `FTEST_WARM`.
    ///
    /// # Errors
    /// [`BadValue`].
    pub(super) fn of_environment() -> Result<Preference, BadValue> {
        let Some(value) = variable::get(env::WARM.name) else { return Ok(Preference::default()) };
        let value = value.to_str().ok_or_else(|| env::WARM.bad(&value.to_string_lossy()))?;
        Ok(if env::WARM.switch(value)? { Preference::Warm } else { Preference::Cold })
    }

    fn allows(self, case: &Case) -> bool {
        self != Preference::Cold && case.warm != Warm::Never
    }
}

/// Checks the preference, so that a bad one is reported before anything starts.
///
/// # Errors
/// [`BadValue`].
pub fn check_environment() -> Result<(), BadValue> {
    Preference::of_environment().map(drop)
}

type Made = Arc<OnceCell<Result<Arc<Server>, String>>>;

/// The interpreter, and what is imported besides PyTorch.
type Kind = (PathBuf, Vec<String>);

/// The warm processes of a run: one for each Python and each list of modules that suites name.
#[derive(Debug, Default)]
pub(super) struct Servers {
    preference: Preference,
    made: Mutex<HashMap<Kind, Made>>,
    number: AtomicU64,
    /// Pythons for which this run starts only a few processes.
    few: Mutex<HashSet<Option<PythonNeed>>>,
    /// One case for each warm process to make before a case asks for it, in order.
    warming: Mutex<Vec<Arc<Case>>>,
}

impl Servers {
    /// No server runs yet.
    pub(super) fn new(preference: Preference) -> Servers {
        Servers { preference, ..Servers::default() }
    }

    /// Counts the processes that a run of `cases` will start, those of their relations too, before the first case; `repeated` if each
    /// runs more than once.
    pub(super) fn expect(&self, cases: &[Arc<Case>], repeated: bool) {
        let mut processes: HashMap<Option<PythonNeed>, u32> = HashMap::new();
        for case in cases.iter().filter(|case| self.preference.allows(case)) {
            let count = match &case.launch {
                Launch::Torchrun { nproc_per_node, nnodes, .. } => {
                    nnodes.saturating_mul(nproc_per_node.saturating_add(1))
                }
                Launch::Argv { ranks, .. } => ranks.unwrap_or(1),
                // Slurm starts them.
                Launch::Srun(_) => 0,
            };
            let all = processes.entry(case.python_need()).or_default();
            *all = all.saturating_add(count.saturating_mul(launches(case)));
        }
        let few = processes.into_iter().filter(|(_, count)| !repeated && *count <= FEW).map(|(need, _)| need);
        *self.few.lock() = few.collect();
        let mut warming: Vec<Arc<Case>> = Vec::new();
        for case in cases.iter().filter(|case| self.will_want(case) && requirement::unmet(case).is_none()) {
            if !warming.iter().any(|other| shares_server(other, case)) {
                warming.push(Arc::clone(case));
            }
        }
        *self.warming.lock() = warming;
    }

    /// The case whose warm process is to be made next, before the case asks for it.
    pub(super) fn next_to_warm(&self) -> Option<Arc<Case>> {
        self.warming.lock().first().cloned()
    }

    /// Records that the warm process of `case` was made or cannot be made.
    pub(super) fn set_warmed(&self, case: &Case) {
        self.warming.lock().retain(|other| !shares_server(other, case));
    }

    /// Whether the warm process of `case` is still to be made before the case asks for it.
    pub(super) fn is_warming(&self, case: &Case) -> bool {
        self.warming.lock().iter().any(|other| shares_server(other, case))
    }

    /// Whether `case` gets a warm process if possible.
    fn is_wanted(&self, case: &Case) -> bool {
        let asked = self.preference == Preference::Warm || matches!(case.warm, Warm::Wanted(_));
        self.preference.allows(case) && (asked || !self.few.lock().contains(&case.python_need()))
    }

    /// The Python from whose warm process those of `case` can be forked: scripts, modules, torchrun, and commands that are
    /// scripts of the environment, if it has PyTorch, under the shim. `None` if that is not wanted, or not possible for a case
    /// that does not ask for it explicitly.
    ///
    /// # Errors
    /// Why a case that asks for it cannot have it.
    pub(super) fn wanted<'a>(&self, case: &Case, python: Option<&'a Python>) -> Result<Option<&'a Python>, String> {
        if !self.is_wanted(case) {
            return Ok(None);
        }
        let python = python.filter(|python| python.torch_libraries.is_some());
        match python.filter(|python| Servers::may_serve(case, Some(*python))) {
            None if matches!(case.warm, Warm::Wanted(_)) => {
                Err("only Python scripts, modules and torchrun are, on a cluster, in an environment that has PyTorch, and not by srun"
                    .to_owned())
            }
            python => Ok(python),
        }
    }

    /// Whether a warm process will be asked for when `case` runs, if its Python has PyTorch.
    pub(super) fn will_want(&self, case: &Case) -> bool {
        self.is_wanted(case) && Servers::may_serve(case, None)
    }

    fn may_serve(case: &Case, python: Option<&Python>) -> bool {
        let fits = match &case.launch {
            Launch::Torchrun { .. } => true,
            Launch::Srun(_) => false,
            Launch::Argv { argv, .. } => argv.split_first().is_some_and(|(program, words)| {
                let runs = |word: &String| word.ends_with(".py") || word == "-m";
                (is_python(program) && words.iter().any(runs))
                    || python.is_some_and(|python| has_script(python, program))
            }),
        };
        // A fork is in the network of the warm process.
        fits && case.cluster.is_some() && case.network.is_none()
    }

    /// The warm process of `python` for `case`, made if it is missing.
    ///
    /// # Errors
    /// One sentence on why there is none. It is not tried again in this run.
    pub(super) async fn server_for(
        &self,
        case: &Case,
        python: &Python,
        install: &Install,
        run: (&Cookie, &Path),
    ) -> Result<Arc<Server>, String> {
        let modules = match &case.warm {
            Warm::Wanted(modules) => modules.clone(),
            Warm::Possible | Warm::Never => Vec::new(),
        };
        let made = Arc::clone(self.made.lock().entry((python.program.clone(), modules.clone())).or_default());
        let make = async || {
            let name = format!("warm-{}", self.number.fetch_add(1, Ordering::Relaxed));
            let (cookie, directory) = (run.0.part(&name), run.1.join(name));
            let mut environment = EnvironmentBuilder::isolated(install, None, &[], Some(python))
                .gpus(None)
                .map_err(|error| error.to_string())?
                .finish();
            environment.set(env::COOKIE.name, cookie.to_string()).set("TMPDIR", directory.join("tmp"));
            Server::start(python, &modules, environment, directory).await.map(Arc::new)
        };
        made.get_or_init(make).await.clone()
    }

    /// Ends the warm processes once no case runs any more.
    pub(super) fn end(&self) {
        self.made.lock().clear();
    }
}

/// Whether the processes of both can be forked from the same warm process.
fn shares_server(one: &Case, other: &Case) -> bool {
    one.warm == other.warm && one.python_need() == other.python_need()
}

/// How often `case` is launched: once for itself, once for each relation, and once more after each restart.
fn launches(case: &Case) -> u32 {
    let relations = case.holds_under.iter().flat_map(|held| &held.relations);
    relations.fold(1, |launches, relation| launches + 1 + u32::from(relation.restart.is_some()))
}

/// Whether a command's first word names an interpreter. The warm process checks whether it is the right one.
fn is_python(word: &str) -> bool {
    let name = Path::new(word).file_name().unwrap_or_default();
    name == "python" || name == "python3"
}

/// Whether a command's first word names a script that was installed beside the interpreter, such as `accelerate`. The warm
/// process checks in which interpreter it runs.
fn has_script(python: &Python, word: &str) -> bool {
    let file = python.bin.join(word);
    let mut first = [0; 2];
    Path::new(word).components().count() == 1
        && std::fs::File::open(file).is_ok_and(|mut file| file.read_exact(&mut first).is_ok() && first == *b"#!")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn a_case_waits_until_the_process_it_shares_was_made() {
        let text = "ftest: 1\nsuite: s\ndefaults: { cluster: { nodes: 1, gpus_per_node: 4, profile: h100 } }\ncases:\n\
            - { id: new, python: [torch==2.15.0], launch: { argv: [python, -m, a], ranks: 4 } }\n\
            - { id: native, launch: { argv: [./a] } }\n\
            - { id: old, python: [torch==2.9.1], launch: { argv: [python, -m, a], ranks: 4 } }\n\
            - { id: also-new, python: [torch==2.15.0], launch: { argv: [python, -m, b], ranks: 2 } }\n";
        let cases = suite::parse(Path::new("s.yaml"), text, Path::new("/")).unwrap().cases;
        let servers = Servers::new(Preference::WhereItSaves);
        let warming = || cases.iter().map(|case| servers.is_warming(case)).collect::<Vec<_>>();
        assert_eq!(warming(), [false; 4]);
        servers.expect(&cases, false);
        assert_eq!(warming(), [true, false, true, true]);
        let first = servers.next_to_warm().unwrap();
        assert_eq!(first.id, "new");
        servers.set_warmed(&first);
        assert_eq!(warming(), [false, false, true, false]);
        let second = servers.next_to_warm().unwrap();
        assert_eq!(second.id, "old");
        servers.set_warmed(&second);
        assert!(servers.next_to_warm().is_none());
    }

    #[test]
    fn the_launches_of_relations_count() {
        let wants = |relations: &str| {
            let text = format!(
                "ftest: 1\nsuite: s\ndefaults: {{ cluster: {{ nodes: 1, gpus_per_node: 2, profile: h100 }} }}\ncases:\n\
                - {{ id: a, python: [torch==2.15.0], launch: {{ argv: [python, -m, a], ranks: 2 }}{relations} }}\n"
            );
            let cases = suite::parse(Path::new("s.yaml"), &text, Path::new("/")).unwrap().cases;
            let servers = Servers::new(Preference::WhereItSaves);
            servers.expect(&cases, false);
            servers.will_want(&cases[0])
        };
        assert!(!wants(""));
        assert!(wants(", holds_under: [hash-seed], compared: { numbers: 'loss (?P<loss>.+)' }"));
    }
}
