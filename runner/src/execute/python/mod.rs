//! The Python that a program runs in: the one the user named, the active environment, or a managed one.

use std::path::PathBuf;

use crate::case::python::{DEFAULT_REQUIREMENTS, PythonNeed, SYSTEM};
use crate::host::variable;

mod bytecode;
mod command;
mod error;
mod hints;
mod interpreter;
mod making;
pub mod managed;
mod progress;
mod requirement;
mod step;
mod tools;
mod uv;

pub use crate::execute::python::command::for_command;
pub use crate::execute::python::error::Error;
pub use crate::execute::python::interpreter::Python;
pub use crate::execute::python::progress::Steps;

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
/// [`Error::Chosen`] if the named interpreter does not exist, [`Error::NoSystem`].
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

/// The Python for `need`: the chosen one unchanged, else the needed one. A managed environment is made if it is missing;
/// for `mark` and `announce` see [`managed::provide`].
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

/// Whether [`provide`] would have nothing to make for `need`.
pub fn is_present(need: &PythonNeed) -> bool {
    match (chosen(), need) {
        (Ok(None), PythonNeed::Managed(requirements)) => matches!(managed::present(requirements), Ok(Some(_))),
        (chosen, _) => chosen.is_ok(),
    }
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
