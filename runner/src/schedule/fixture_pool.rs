//! The fixtures of a run: set up when the first case needs them, torn down after the last, regardless of results.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::case::Case;
use crate::case::fixture::{Fixture, Scope, Step, StepTimeout};
use crate::case::outputs::{self, Outputs};
use crate::case::python::PythonNeed;
use crate::check::{Failure, FailureKind, exit};
use crate::execute::collect::journal::Journal;
use crate::execute::collect::reports;
use crate::execute::launch::builder::{EnvironmentBuilder, EnvironmentError};
use crate::execute::launch::environment::{Environment, OUTPUT, changed};
use crate::execute::process_tree::capture;
use crate::execute::process_tree::cookie::Cookie;
use crate::execute::process_tree::step::{self, StepEnd};
use crate::execute::python::Python;
use crate::execute::run::context::PythonUnavailable;
use crate::execute::run::limit::Limit;
use crate::observation::{Execution, Exit, FixtureError};
use crate::record::event::Stream;
use crate::schedule::run_resources::RunResources;
use crate::source::SourceLocation;

/// Lines of a step's output shown.
const LINES: usize = 10;

/// All fixtures of a run.
#[derive(Debug, Default)]
pub struct Fixtures {
    /// Those with suite scope, by full name, in the order in which cases asked for them.
    shared: RefCell<Vec<(String, Rc<Slot>)>>,
    /// Cases that will use each fixture, and those that use it now, by full name.
    users: RefCell<HashMap<String, Users>>,
    failed: RefCell<Vec<(String, Failure)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Users {
    to_come: usize,
    running: usize,
}

/// A fixture of suite scope.
#[derive(Debug, Default)]
struct Slot {
    made: OnceCell<Result<Made, Refused>>,
    /// The case that says in full why it could not be set up.
    told: std::cell::OnceCell<String>,
}

/// A fixture that is set up.
#[derive(Debug)]
struct Made {
    fixture: Arc<Fixture>,
    outputs: BTreeMap<String, String>,
    directory: PathBuf,
    cookie: Cookie,
    environment: Environment,
    /// The teardown, with its late values filled in.
    teardown: Option<Step>,
}

/// Why a case cannot have its fixtures.
#[derive(Clone, Debug)]
enum Refused {
    Interrupted,
    /// The time limit of the run or of the suite expired; which one.
    Past(String),
    Failed(FixtureError),
}

/// The fixtures of one attempt.
#[derive(Debug, Default)]
pub struct Entered {
    /// What they gave.
    pub outputs: Outputs,
    /// Those for this attempt alone, in setup order.
    own: Vec<Made>,
}

impl Fixtures {
    /// The fixtures that `cases` use, each case once.
    pub fn new(cases: &[Arc<Case>]) -> Fixtures {
        let fixtures = Fixtures::default();
        let mut users: HashMap<String, Users> = HashMap::new();
        for fixture in cases.iter().flat_map(|case| &case.uses).filter(|fixture| fixture.scope == Scope::Suite) {
            users.entry(fixture.full_name()).or_default().to_come += 1;
        }
        fixtures.users.replace(users);
        fixtures
    }

    /// Records that `case` begins: until [`Fixtures::done`], nothing that it uses is torn down.
    pub fn begin(&self, case: &Case) {
        for fixture in case.uses.iter().filter(|fixture| fixture.scope == Scope::Suite) {
            let mut users = self.users.borrow_mut();
            let users = users.entry(fixture.full_name()).or_default();
            users.to_come = users.to_come.saturating_sub(1);
            users.running += 1;
        }
    }

    /// Sets up the fixtures that `case` uses.
    ///
    /// # Errors
    /// Why the case cannot run; everything set up for it alone has been removed.
    pub async fn enter(&self, case: &Case, resources: &RunResources) -> Result<Entered, Execution> {
        let mut entered = Entered::default();
        let limit = resources.execution.limits.for_case(case);
        for fixture in &case.uses {
            let made = match fixture.scope {
                Scope::Suite => self.share(fixture, resources, &entered.outputs, (case, limit.as_ref())).await,
                Scope::Case => make(fixture, resources, &entered.outputs, (case, limit.as_ref())).await.map(|made| {
                    let outputs = made.outputs.clone();
                    entered.own.push(made);
                    outputs
                }),
            };
            match made {
                Ok(outputs) => drop(entered.outputs.insert(fixture.name.clone(), outputs)),
                Err(refused) => {
                    self.leave(entered, resources, false).await;
                    return Err(match refused {
                        Refused::Interrupted => Execution::Interrupted,
                        Refused::Past(whose) => Execution::OutOfTime(whose),
                        Refused::Failed(error) => Execution::NoFixture(error),
                    });
                }
            }
        }
        Ok(entered)
    }

    async fn share(
        &self,
        fixture: &Arc<Fixture>,
        resources: &RunResources,
        outputs: &Outputs,
        (case, limit): (&Case, Option<&Limit>),
    ) -> Result<BTreeMap<String, String>, Refused> {
        let name = fixture.full_name();
        let found = self.shared.borrow().iter().find(|(known, _)| *known == name).map(|(_, slot)| Rc::clone(slot));
        let slot = found.unwrap_or_else(|| {
            let slot = Rc::new(Slot::default());
            self.shared.borrow_mut().push((name, Rc::clone(&slot)));
            slot
        });
        let made = slot.made.get_or_init(|| make(fixture, resources, outputs, (case, limit))).await;
        made.as_ref().map(|made| made.outputs.clone()).map_err(|refused| {
            let mut refused = refused.clone();
            if let Refused::Failed(error) = &mut refused {
                let case = case.full_id();
                let told = slot.told.get_or_init(|| case.clone());
                if let Some((first, _)) = error.got.split_once('\n').filter(|_| *told != case) {
                    error.got = format!("{first}\n{told} says this in full");
                }
            }
            refused
        })
    }

    /// Tears down what was set up for one attempt alone, last first. With `keep`, the directories stay.
    pub async fn leave(&self, entered: Entered, resources: &RunResources, keep: bool) {
        for made in entered.own.iter().rev() {
            self.take_down(made, resources, keep).await;
        }
    }

    /// Records that `case` is done, and tears down what no other case of the run uses.
    pub async fn done(&self, case: &Case, resources: &RunResources, keep: bool) {
        for fixture in case.uses.iter().rev().filter(|fixture| fixture.scope == Scope::Suite) {
            let name = fixture.full_name();
            let last = self.users.borrow_mut().get_mut(&name).is_some_and(|users| {
                users.running = users.running.saturating_sub(1);
                users.to_come == 0 && users.running == 0
            });
            if last {
                self.end(&name, resources, keep).await;
            }
        }
    }

    /// Tears down all that are still set up.
    pub async fn finish(&self, resources: &RunResources, keep: bool) {
        loop {
            let last = self.shared.borrow().last().map(|(name, _)| name.clone());
            let Some(name) = last else { return };
            self.end(&name, resources, keep).await;
        }
    }

    async fn end(&self, name: &str, resources: &RunResources, keep: bool) {
        let position = self.shared.borrow().iter().position(|(known, _)| known == name);
        let Some(position) = position else { return };
        let (_, slot) = self.shared.borrow_mut().remove(position);
        if let Some(Ok(made)) = slot.made.get() {
            self.take_down(made, resources, keep).await;
        }
    }

    /// Fixtures whose teardown failed since the last call, by full name.
    pub fn failures(&self) -> Vec<(String, Failure)> {
        self.failed.take()
    }

    async fn take_down(&self, made: &Made, resources: &RunResources, keep: bool) {
        let mut failed = None;
        if let Some(teardown) = &made.teardown {
            let step = step::Step {
                argv: &teardown.argv,
                environment: &made.environment,
                directory: &made.fixture.dir,
                streams: made.directory.join("teardown"),
                cookie: &made.cookie,
                timeout: made.fixture.timeout,
                // The first Ctrl-C may be why it runs; the second ends it.
                cancel: (&resources.execution.cancel, 2),
            };
            failed = problem(&made.fixture, "teardown", &step.run().await, &made.directory);
        }
        step::clear(&made.cookie).await;
        if let Some(got) = failed {
            let kept = settle(&made.fixture, resources, &made.directory);
            let failure = Failure {
                place: made.teardown.as_ref().map(|step| step.place.clone()),
                kind: FailureKind::Teardown,
                expected: format!("the teardown of `{}` ends with code 0", made.fixture.name),
                got: got.replace(&made.directory.display().to_string(), &kept),
                next: format!("kept: {kept}"),
            };
            self.failed.borrow_mut().push((made.fixture.full_name(), failure));
        } else if !keep {
            resources.execution.remove(&made.directory);
        }
    }
}

async fn make(
    fixture: &Arc<Fixture>,
    resources: &RunResources,
    outputs: &Outputs,
    (case, limit): (&Case, Option<&Limit>),
) -> Result<Made, Refused> {
    if resources.execution.cancel.is_raised() {
        return Err(Refused::Interrupted);
    }
    let refused = |place: &SourceLocation, expected: &str, got: String, directory: Option<&Path>| {
        let kept = directory.map(|from| (from.display().to_string(), settle(fixture, resources, from)));
        Refused::Failed(FixtureError {
            place: place.clone(),
            expected: format!("the setup of `{}` {expected}", fixture.name),
            got: kept.as_ref().map_or(got.clone(), |(from, to)| got.replace(from, to)),
            next: kept.map(|(_, to)| format!("kept: {to}")).unwrap_or_default(),
        })
    };
    let infra = |error: String| refused(&fixture.place, "can be run", error, None);
    let python = match &fixture.python {
        Some(need) => match resources.execution.python(need, case).await {
            Ok(python) => Some((need, python)),
            Err(PythonUnavailable::Interrupted) => return Err(Refused::Interrupted),
            Err(error) => return Err(infra(error.to_string())),
        },
        None => None,
    };
    if let Some((need, python)) = &python {
        let started = changed(&fixture.env, &fixture.env_unset, None);
        let used = resources.execution.python_used((python, need), (&started, &fixture.dir), false).await;
        if let Some(error) = used.error {
            let expected = format!("the setup of `{}` runs in {}", fixture.name, error.expected);
            let (place, got, next) = (fixture.place.clone(), error.got, error.next);
            return Err(Refused::Failed(FixtureError { place, expected, got, next }));
        }
    }
    let (directory, cookie) = resources.execution.open_fixture().map_err(infra)?;
    let scratch = directory.join("files");
    let own = scratch.display().to_string();
    let fill = |step: &Step| {
        let mut step = step.clone();
        step.argv.iter_mut().for_each(|word| outputs::fill(word, outputs, Some(&own)));
        step
    };
    let python = python.as_ref().map(|(need, python)| (*need, python));
    let mut environment =
        environment(fixture, resources, python, (&directory, &cookie)).map_err(|error| infra(error.to_string()))?;
    for (name, value) in &fixture.env {
        let mut value = value.clone();
        outputs::fill(&mut value, outputs, Some(&own));
        resources.secrets.learn([(name.clone(), value.clone())]);
        environment.set(name, value);
    }
    let setup = fill(&fixture.setup);
    let kill = limit.map_or(fixture.timeout.kill, |limit| fixture.timeout.kill.min(limit.left()));
    let run = step::Step {
        argv: &setup.argv,
        environment: &environment,
        directory: &fixture.dir,
        streams: directory.join("setup"),
        cookie: &cookie,
        timeout: StepTimeout { kill, ..fixture.timeout },
        cancel: (&resources.execution.cancel, 1),
    };
    let end = run.run().await;
    // Regardless of the result, because its output may be shown.
    let written = std::fs::read_to_string(directory.join("output")).unwrap_or_default();
    let variables = written.lines().filter_map(|line| line.split_once('='));
    resources.secrets.learn(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let given = match problem(fixture, "setup", &end, &directory) {
        _ if end == StepEnd::Cancelled => Err(None),
        Some(got) => Err(Some(("ends with code 0", got))),
        None => {
            read_outputs(&directory.join("output"), &fixture.outputs).map_err(|got| Some(("writes its outputs", got)))
        }
    };
    let given = match given {
        Ok(given) => given,
        Err(wrong) => {
            step::clear(&cookie).await;
            if let Some(limit) = limit.filter(|limit| end == StepEnd::TimedOut && limit.has_passed()) {
                resources.execution.remove(&directory);
                return Err(Refused::Past(limit.whose.clone()));
            }
            let Some((expected, got)) = wrong else {
                resources.execution.remove(&directory);
                return Err(Refused::Interrupted);
            };
            return Err(refused(&setup.place, expected, got, Some(&directory)));
        }
    };
    for (name, value) in &given {
        environment.set(name, value);
    }
    let teardown = fixture.teardown.as_ref().map(fill);
    Ok(Made { fixture: Arc::clone(fixture), outputs: given, directory, cookie, environment, teardown })
}

/// The environment of both steps, without the suite's variables.
fn environment(
    fixture: &Fixture,
    resources: &RunResources,
    python: Option<(&PythonNeed, &Python)>,
    (directory, cookie): (&Path, &Cookie),
) -> Result<Environment, EnvironmentError> {
    let install = &resources.execution.install;
    let interpreter = python.map(|(_, python)| python);
    let builder = EnvironmentBuilder::isolated(install, None, &fixture.env_unset, interpreter);
    let builder = builder.directories(directory, "files")?;
    // A fixture runs on this machine, not on the simulated one. But the PyTorch of a managed environment finds its libraries
    // only under the shim: it gets what `fgpu` gives. So does every PyTorch that is declared, to be the same everywhere.
    let declared = python.filter(|(need, python)| **need != PythonNeed::System && python.torch_libraries.is_some());
    let mut environment = match declared {
        Some(_) => builder.gpus(None)?.machine(&reports::machine(directory)).finish(),
        None => builder.finish(),
    };
    match declared {
        Some(_) => environment.journal(&reports::journal(directory)),
        None => environment.remove("LD_PRELOAD"),
    };
    environment.set(OUTPUT, directory.join("output"));
    environment.set(protocol::env::COOKIE.name, cookie.to_string());
    Ok(environment)
}

/// Where the directory of a failed fixture is kept.
fn settle(fixture: &Fixture, resources: &RunResources, directory: &Path) -> String {
    resources.settle(directory, &format!("{}.fixture", fixture.full_name())).display().to_string()
}

/// What is wrong with how a step ended, and its last output.
fn problem(fixture: &Fixture, step: &str, end: &StepEnd, directory: &Path) -> Option<String> {
    let mut text = match end {
        StepEnd::Exit(Exit::Code(0)) => return unclean(directory),
        StepEnd::Exit(end) => exit::describe(end),
        StepEnd::TimedOut => format!("it was ended after {} s", fixture.timeout.kill.as_secs_f64()),
        StepEnd::Cancelled => "it was interrupted".to_owned(),
        StepEnd::NotStarted(error) => return Some(error.clone()),
    };
    for stream in ["stderr", "stdout"] {
        let captured = capture::from_file(&directory.join(format!("{step}.{stream}")));
        let shown = Stream::from(&captured);
        let lines = shown.last(LINES);
        if !lines.is_empty() {
            text.push_str(&format!("\nits {stream} ({}) ends with", captured.path.display()));
            lines.iter().for_each(|line| text.push_str(&format!("\n| {line}")));
            break;
        }
    }
    Some(text)
}

/// What a step with simulated GPUs used that ftest does not execute, or did wrong with them, whatever its exit code.
fn unclean(directory: &Path) -> Option<String> {
    let Journal { gaps, findings, .. } = Journal::read(&reports::journal(directory));
    let gap = gaps.first().map(|gap| format!("a gap: {}.{}: {}", gap.library, gap.name, gap.detail));
    gap.or_else(|| findings.first().map(|finding| format!("a finding: {}", finding.sentence)))
}

/// Reads `NAME=VALUE` lines: each name must be declared, and each declared name must be there.
fn read_outputs(file: &Path, declared: &[String]) -> Result<BTreeMap<String, String>, String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("$FTEST_OUTPUT ({}) cannot be read: {error}", file.display())),
    };
    let mut outputs = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("line {} of $FTEST_OUTPUT is not NAME=VALUE: {line}", index + 1));
        };
        if !declared.iter().any(|known| known == name) {
            return Err(format!("it wrote {name}, which is not among its `outputs`"));
        }
        outputs.insert(name.to_owned(), value.to_owned());
    }
    match declared.iter().find(|name| !outputs.contains_key(*name)) {
        Some(missing) => Err(format!("it did not write {missing}=VALUE to $FTEST_OUTPUT")),
        None => Ok(outputs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_lines_with_declared_names() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            read_outputs(file.path(), &["A".to_owned(), "B".to_owned()])
        };
        let both = read("A=1=2\n\nB= x \n").unwrap();
        assert_eq!((both["A"].as_str(), both["B"].as_str()), ("1=2", " x "));
        assert_eq!(read("A=1\n").unwrap_err(), "it did not write B=VALUE to $FTEST_OUTPUT");
        assert_eq!(read("A=1\nB=2\nC=3\n").unwrap_err(), "it wrote C, which is not among its `outputs`");
        assert_eq!(read("A=1\nB\n").unwrap_err(), "line 2 of $FTEST_OUTPUT is not NAME=VALUE: B");
        assert_eq!(read_outputs(Path::new("/no/such"), &[]), Ok(BTreeMap::new()));
    }
}
