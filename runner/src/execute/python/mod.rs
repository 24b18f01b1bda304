//! The Python that a program runs in: the one the user named, the active environment, or a managed one.

use std::path::{Path, PathBuf};

use crate::case::python::{DEFAULT_REQUIREMENTS, PythonNeed, SYSTEM};
use crate::host::deadline;
use crate::host::variable;

mod bytecode;
mod error;
mod hints;
mod making;
pub mod managed;
mod progress;
mod requirement;
mod tools;

pub use crate::execute::python::error::Error;
pub use crate::execute::python::progress::Steps;

/// An interpreter and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// The interpreter.
    pub program: PathBuf,
    /// The directory that comes first in PATH.
    pub bin: PathBuf,
    /// `torch/lib` of its torch, where it has one.
    pub torch_libraries: Option<PathBuf>,
}

impl Python {
    /// Describes the interpreter `program`.
    ///
    /// # Errors
    /// [`Error`] when it does not run.
    pub fn describe(program: &Path) -> Result<Python, Error> {
        // find_spec does not import torch, which would fail without the shim.
        const QUESTION: &str = "import importlib.util as u; s = u.find_spec('torch'); \
                                print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')";
        let answer = tools::run(program, &["-c", QUESTION])
            .map_err(|source| Error::NoPython { program: program.to_owned(), source: Box::new(source) })?;
        let place = answer.lines().last().unwrap_or_default().trim();
        let torch_libraries = Some(Path::new(place).join("lib")).filter(|path| !place.is_empty() && path.is_dir());
        let bin = program.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Python { program: program.to_owned(), bin, torch_libraries })
    }

    /// The version of `module`, empty where its package has none; none when it cannot be found. It is not imported.
    pub async fn version_of(&self, module: &str) -> Option<String> {
        const QUESTION: &str = "import importlib.util as u, sys\n\
            name = sys.argv[1]\n\
            if not u.find_spec(name): sys.exit(1)\n\
            try:\n    \
                import importlib.metadata as m\n    \
                print(m.version(m.packages_distributions().get(name.split('.')[0], [name])[0]))\n\
            except Exception: pass\n";
        let mut command = std::process::Command::new(&self.program);
        crate::execute::launch::environment::scrubbed(&mut command).args(["-c", QUESTION, module]);
        command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        let answer = tokio::time::timeout(deadline::PYTHON_ANSWER, command.output()).await.ok()?.ok()?;
        let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        answer.status.success().then_some(text)
    }
}

/// The Python that a shell would find.
///
/// # Errors
/// [`Error::NoSystem`].
fn on_path() -> Result<PathBuf, Error> {
    tools::on_path("python3").or_else(|| tools::on_path("python")).ok_or(Error::NoSystem)
}

/// The interpreter that the user chose: `FTEST_PYTHON`, else the active virtual or conda environment.
///
/// # Errors
/// [`Error::Chosen`] when what is named is not there, [`Error::NoSystem`].
pub fn chosen() -> Result<Option<PathBuf>, Error> {
    chosen_from(|name| variable::get(name).map(PathBuf::from))
}

fn chosen_from(get: impl Fn(&str) -> Option<PathBuf>) -> Result<Option<PathBuf>, Error> {
    let named = [
        (protocol::env::PYTHON.name, get(protocol::env::PYTHON.name)),
        ("VIRTUAL_ENV", get("VIRTUAL_ENV").map(|root| root.join("bin/python"))),
        ("CONDA_PREFIX", get("CONDA_PREFIX").map(|root| root.join("bin/python"))),
    ];
    for (variable, program) in named {
        let Some(program) = program else { continue };
        if variable == protocol::env::PYTHON.name && program.as_os_str() == SYSTEM {
            return on_path().map(Some);
        }
        // A bare name is looked up as a shell does.
        let bare = program.components().count() == 1;
        let program = program.to_str().filter(|_| bare).and_then(tools::on_path).unwrap_or(program);
        let program = std::path::absolute(&program).unwrap_or(program);
        return if program.is_file() { Ok(Some(program)) } else { Err(Error::Chosen { variable, program }) };
    }
    Ok(None)
}

/// The Python for `need`: the chosen one unchanged, else what is needed. A managed environment is made when it is missing;
/// `mark` and `announce` as there.
///
/// # Errors
/// [`Error`]: what failed and what to do.
pub fn provide(need: &PythonNeed, mark: &str, announce: &dyn Fn(&str)) -> Result<Python, Error> {
    match (chosen()?, need) {
        (Some(program), _) => Python::describe(&program),
        (None, PythonNeed::System) => Python::describe(&on_path()?),
        (None, PythonNeed::Managed(requirements)) => managed::provide(requirements, mark, announce),
    }
}

/// Whether [`provide`] has nothing to make for `need`.
pub fn is_present(need: &PythonNeed) -> bool {
    match (chosen(), need) {
        (Ok(None), PythonNeed::Managed(requirements)) => matches!(managed::present(requirements), Ok(Some(_))),
        (chosen, _) => chosen.is_ok(),
    }
}

/// Programs that run other programs: what they start may be Python.
const RUNNERS: &[&str] = &["sh", "bash", "dash", "zsh", "env", "make", "nice", "time", "timeout", "xargs"];

/// Programs that come with what the default environment holds.
const ENVIRONMENT_ONLY: &[&str] = &["torchrun", "torchfrtrace", "pip", "pip3"];

/// The Python for a command that a person typed: the chosen one, else the managed one. That is made only when the command
/// can need it, because it takes a gigabyte: Python itself, a script, a program that runs others, or one that only the
/// environment has.
///
/// # Errors
/// [`Error`]: what failed and what to do.
pub fn for_command(command: &std::ffi::OsStr, announce: &dyn Fn(&str)) -> Result<Option<Python>, Error> {
    if let Some(program) = chosen()? {
        return Python::describe(&program).map(Some);
    }
    if let Some(python) = managed::present(&[])? {
        return Ok(Some(python));
    }
    if !may_be_python(command) {
        return Ok(None);
    }
    let because = format!("{} is, or may start, Python, which has PyTorch here", command.display());
    managed::provide(&[], "", &|step| {
        announce(&step.replacen(managed::MAKING, &format!("{because}: {}", managed::MAKING), 1))
    })
    .map(Some)
}

fn may_be_python(command: &std::ffi::OsStr) -> bool {
    let name = Path::new(command).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.starts_with("python") || RUNNERS.contains(&name.as_str()) {
        return true;
    }
    let path = std::env::var_os("PATH");
    let Ok(file) = crate::execute::launch::program::find(command, path.as_deref(), Path::new(".")) else {
        return ENVIRONMENT_ONLY.contains(&name.as_str());
    };
    let mut start = [0; 2];
    let read = std::fs::File::open(file).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start == *b"#!"
}

/// The default requirements as a list.
pub fn default_requirements() -> Vec<String> {
    DEFAULT_REQUIREMENTS.iter().map(|requirement| (*requirement).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_choice_wins_over_the_active_environment() {
        let root = tempfile::tempdir().unwrap();
        let python = root.path().join("bin/python");
        std::fs::create_dir(root.path().join("bin")).unwrap();
        std::fs::write(&python, "").unwrap();
        let active = root.path().to_owned();
        let with = |named: Option<&str>| {
            let (named, active) = (named.map(PathBuf::from), active.clone());
            chosen_from(move |name| match name {
                "FTEST_PYTHON" => named.clone(),
                "VIRTUAL_ENV" => Some(active.clone()),
                _ => None,
            })
        };
        assert_eq!(with(None).unwrap(), Some(python));
        assert!(with(Some("/nowhere/python")).unwrap_err().to_string().contains("FTEST_PYTHON=/nowhere/python"));
        assert_eq!(chosen_from(|_| None).unwrap(), None);
    }
}
