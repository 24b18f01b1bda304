//! The Python that a program runs in: the one the user named, the active environment, or a managed one.

use std::path::PathBuf;

use crate::case::python::{MANAGED, PythonNeed, SYSTEM, default_requirements_of};
use crate::host::variable;

mod bytecode;
mod cause;
mod command;
mod downloads;
mod error;
mod hints;
mod interpreter;
mod inventory;
mod left_out;
mod making;
pub mod managed;
mod marker;
mod met;
mod progress;
mod requirement;
mod step;
mod tools;
mod unmet;
mod uv;

pub use crate::execute::python::cause::Cause;
pub use crate::execute::python::command::for_command;
pub use crate::execute::python::error::Error;
pub use crate::execute::python::interpreter::{PATH, Python};
pub use crate::execute::python::inventory::Started;
pub use crate::execute::python::met::{Pythons, Used};
pub use crate::execute::python::progress::{SELDOM, Said, Steps};

/// The Python that a shell would find.
///
/// # Errors
/// [`Error::NoSystem`].
fn on_path() -> Result<PathBuf, Error> {
    tools::on_path("python3").or_else(|| tools::on_path("python")).ok_or(Error::NoSystem)
}

/// An interpreter that the user chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The interpreter.
    pub program: PathBuf,
    /// The variable that names it.
    pub variable: &'static str,
}

impl Chosen {
    /// How to get managed environments instead.
    pub fn otherwise(&self) -> String {
        let managed = format!("{}={MANAGED}", protocol::env::PYTHON.name);
        match self.variable {
            name if name == protocol::env::PYTHON.name => {
                format!("unset {name} or set {managed}, and ftest makes an environment")
            }
            name => {
                let leave = if name == CONDA { "`conda deactivate`" } else { "`deactivate`" };
                format!("{leave} or set {managed}, and ftest makes an environment")
            }
        }
    }
}

const CONDA: &str = "CONDA_PREFIX";

/// The interpreter that the user chose: `FTEST_PYTHON`, else the active virtual or conda environment; `None` also if
/// `FTEST_PYTHON` asks for managed environments.
///
/// # Errors
/// [`Error::Chosen`] if the named interpreter does not exist, [`Error::NoSystem`].
pub fn chosen() -> Result<Option<Chosen>, Error> {
    chosen_from(|name| variable::get(name).map(PathBuf::from))
}

fn chosen_from(get: impl Fn(&str) -> Option<PathBuf>) -> Result<Option<Chosen>, Error> {
    let named = [
        (protocol::env::PYTHON.name, get(protocol::env::PYTHON.name)),
        ("VIRTUAL_ENV", get("VIRTUAL_ENV").map(|root| root.join("bin/python"))),
        (CONDA, get(CONDA).map(|root| root.join("bin/python"))),
    ];
    for (variable, program) in named {
        let Some(program) = program else { continue };
        if variable == protocol::env::PYTHON.name {
            match program.to_str() {
                Some(MANAGED) => return Ok(None),
                Some(SYSTEM) => return on_path().map(|program| Some(Chosen { program, variable })),
                _ => {}
            }
        }
        // A bare name is looked up as a shell does.
        let bare = program.components().count() == 1;
        let program = program.to_str().filter(|_| bare).and_then(tools::on_path).unwrap_or(program);
        let program = std::path::absolute(&program).unwrap_or(program);
        let exists = program.is_file();
        return if exists { Ok(Some(Chosen { program, variable })) } else { Err(Error::Chosen { variable, program }) };
    }
    Ok(None)
}

/// The Python for `need`: the chosen one unchanged, else the needed one. A managed environment is made if it is missing;
/// for `mark` and `announce` see [`managed::provide`].
///
/// # Errors
/// [`Error`]: what failed and what to do.
pub fn provide(need: &PythonNeed, mark: &str, announce: &dyn Fn(Said<'_>)) -> Result<Python, Error> {
    match (chosen()?, need) {
        (Some(chosen), _) => Python::describe(&chosen.program, chosen.variable),
        (None, PythonNeed::System) => Python::describe(&on_path()?, PATH),
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

/// The default requirements for the interpreter that environments are made for.
pub fn default_requirements() -> Vec<String> {
    default_requirements_of(&managed::base_version())
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
        assert_eq!(with(None).unwrap(), Some(Chosen { program: python, variable: "VIRTUAL_ENV" }));
        assert_eq!(with(Some("managed")).unwrap(), None);
        assert!(with(Some("/nowhere/python")).unwrap_err().to_string().contains("FTEST_PYTHON=/nowhere/python"));
        assert_eq!(chosen_from(|_| None).unwrap(), None);
    }
}
