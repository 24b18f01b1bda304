//! Why there is no Python, or no environment.

use std::io;
use std::path::PathBuf;

use super::cause::Cause;
use crate::host::cache_directory::CACHE_ADVICE;

/// Why there is no Python.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user named one that does not exist.
    #[error("{variable}={program}: no Python interpreter there", program = .program.display())]
    Chosen {
        /// The variable that names it.
        variable: &'static str,
        /// The interpreter it names.
        program: PathBuf,
    },
    /// The user named something that is not an interpreter.
    #[error("{program} does not work as a Python interpreter (FTEST_PYTHON, VIRTUAL_ENV, CONDA_PREFIX and PATH select it): {source}", program = .program.display())]
    NoPython {
        /// What was named.
        program: PathBuf,
        /// The result of running it.
        source: Box<Error>,
    },
    /// The machine has none.
    #[error(
        "no python3 on PATH: install one, name an interpreter with FTEST_PYTHON, or give the case a managed environment with `python:`"
    )]
    NoSystem,
    /// The machine has neither of the tools.
    #[error("no python3 and no uv on PATH: install one, or name an interpreter with FTEST_PYTHON")]
    NoInterpreter,
    /// A tool failed.
    #[error("{step} failed: {detail}")]
    Step {
        /// What it was supposed to do.
        step: String,
        /// The end of its output.
        detail: String,
        /// The whole of it, as far as it may say why.
        output: String,
    },
    /// The environment could not be made.
    #[error("cannot make the Python environment for {requirements}: {source}\n  {advice}")]
    Make {
        /// What it was supposed to contain.
        requirements: String,
        /// What failed.
        source: Box<Error>,
        /// Why, as far as the installer says.
        cause: Cause,
        /// What to do next.
        advice: String,
    },
    /// The cache cannot be used.
    #[error("{place}: {source}; {CACHE_ADVICE}", place = .place.display())]
    Cache {
        /// The file or directory.
        place: PathBuf,
        /// The file system error.
        source: io::Error,
    },
    /// There is no directory for the cache.
    #[error("{0}")]
    NoCache(String),
    /// No such environment.
    #[error("no managed environment {key}; `ftest env list` lists them")]
    Unknown {
        /// The requested key.
        key: String,
    },
}
