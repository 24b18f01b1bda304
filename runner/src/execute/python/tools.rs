//! The programs that make environments: uv, which lets environments share package files, or else pip.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::progress::Said;
use super::step::{command, run, step};
use super::uv;

/// The tools that make environments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tools {
    /// uv, and the interpreter for which it makes environments, if the machine has one.
    Uv { uv: PathBuf, python: Option<PathBuf>, settings: Vec<(String, String)> },
    /// The venv and pip of an interpreter.
    Pip { python: PathBuf },
}

/// Versions of Python that PyTorch has wheels for, the most common first.
const KNOWN: [&str; 5] = ["3.12", "3.11", "3.13", "3.14", "3.10"];

/// The interpreters of this version that pyenv has.
fn of_pyenv(version: &str) -> Vec<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")));
    let entries = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok()).into_iter().flatten().flatten();
    let start = format!("{version}.");
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .map(|entry| entry.path().join("bin").join(format!("python{version}")))
        .collect();
    found.sort();
    found
}

/// The program of this name on `PATH`.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH");
    crate::execute::launch::program::find(program.as_ref(), path.as_deref(), Path::new("/")).ok()
}

impl Tools {
    /// Those that the machine has.
    ///
    /// # Errors
    /// [`Error::NoInterpreter`].
    pub(super) fn find() -> Result<Tools, Error> {
        match (on_path("uv"), on_path("python3").or_else(|| on_path("python"))) {
            (Some(uv), python) => Ok(Tools::Uv { uv, python, settings: Vec::new() }),
            (None, Some(python)) => Ok(Tools::Pip { python }),
            (None, None) => Err(Error::NoInterpreter),
        }
    }

    /// The interpreter for which they make environments; `None` if uv provides one.
    pub(super) fn python(&self) -> Option<&Path> {
        match self {
            Tools::Pip { python } => Some(python),
            Tools::Uv { python, .. } => python.as_deref(),
        }
    }

    /// The same for another interpreter than one of `version`: of these versions, or any; one that the machine has, or else that
    /// uv fetches. `fetched` is where uv may be.
    pub(super) fn other(&self, version: &str, versions: &[String], fetched: &Path) -> Option<Tools> {
        let wanted = KNOWN.iter().copied().filter(|known| *known != version);
        let wanted: Vec<&str> =
            wanted.filter(|known| versions.is_empty() || versions.iter().any(|one| one == known)).collect();
        let (uv, settings) = match self {
            Tools::Uv { uv, settings, .. } => (Some(uv.clone()), settings.clone()),
            Tools::Pip { python } => {
                let uv = Some(fetched.join("bin/uv")).filter(|uv| uv.is_file());
                (uv, uv::settings_of_pip(python))
            }
        };
        let with = |python: PathBuf| match &uv {
            Some(uv) => Tools::Uv { uv: uv.clone(), python: Some(python), settings: settings.clone() },
            None => Tools::Pip { python },
        };
        let here = wanted.iter().find_map(|known| {
            let places = on_path(&format!("python{known}")).into_iter().chain(of_pyenv(known));
            // A shim on PATH may stand for an interpreter that is not selected.
            places.into_iter().find(|python| self::version(python).is_ok_and(|version| version == *known))
        });
        let fetch = || {
            let (uv, known) = (uv.as_ref()?, wanted.first()?);
            run(uv, &["python", "install", "--quiet", known]).ok()?;
            run(uv, &["python", "find", "--managed-python", known]).ok().map(|path| PathBuf::from(path.trim()))
        };
        here.or_else(fetch).map(with)
    }

    /// Asks the package index for something small, once, and not for long.
    ///
    /// # Errors
    /// [`Error::Step`] with its answer.
    pub(super) fn ask_index(&self) -> Result<(), Error> {
        const WHAT: &str = "pip";
        let nowhere = "/nonexistent";
        let command = match self {
            Tools::Pip { python } => {
                let options = ["--quiet", "--disable-pip-version-check", "--no-input", "--retries=0", "--timeout=10"];
                let question = ["-m", "pip", "install", "--dry-run", "--no-deps", "--target", nowhere];
                command(python, &[&question[..], &options, &[WHAT]].concat())
            }
            Tools::Uv { uv, settings, .. } => {
                let question = ["pip", "install", "--quiet", "--dry-run", "--no-deps", "--target", nowhere, WHAT];
                let mut command = command(uv, &question);
                command.env("UV_HTTP_TIMEOUT", "10").env("UV_NO_CACHE", "1").envs(settings.iter().cloned());
                command
            }
        };
        step("asking the package index", command, &|_| {}).map(drop)
    }

    /// uv in place of pip, if it is in `directory` or can be fetched into it.
    pub(super) fn with_uv(self, directory: &Path, announce: &dyn Fn(Said<'_>)) -> Tools {
        let Tools::Pip { python } = &self else { return self };
        let uv = directory.join("bin/uv");
        if !uv.is_file() {
            announce(Said::Step("fetching uv, which lets environments share files (25 MB, once)"));
            if let Err(error) = uv::fetch(python, directory) {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim().to_owned();
                announce(Said::Step(&format!("without uv, pip makes an environment that shares nothing: {why}")));
                return self;
            }
        }
        Tools::Uv { uv, python: Some(python.clone()), settings: uv::settings_of_pip(python) }
    }
}

/// The version of an interpreter, `3.11`.
///
/// # Errors
/// [`Error::Step`].
pub(super) fn version(python: &Path) -> Result<String, Error> {
    let answer = run(python, &["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])?;
    Ok(answer.trim().to_owned())
}
