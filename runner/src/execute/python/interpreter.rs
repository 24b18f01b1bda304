//! A Python interpreter, and what it reports about its modules.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::step;
use crate::host::deadline;

/// An interpreter and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// The interpreter.
    pub program: PathBuf,
    /// The directory that comes first in PATH.
    pub bin: PathBuf,
    /// `torch/lib` of its torch, if it has one.
    pub torch_libraries: Option<PathBuf>,
    /// What selected it: a variable's name, [`PATH`] or [`MANAGED`](crate::case::python::MANAGED).
    pub selected: &'static str,
}

/// The interpreter was found there.
pub const PATH: &str = "PATH";

impl Python {
    /// Describes the interpreter `program`, which `selected` named.
    ///
    /// # Errors
    /// [`Error`] if it does not run.
    pub fn describe(program: &Path, selected: &'static str) -> Result<Python, Error> {
        // find_spec does not import torch, which would fail without the shim.
        const QUESTION: &str = "import importlib.util as u; s = u.find_spec('torch'); \
                                print('\\0' + (s.submodule_search_locations[0] if s and s.submodule_search_locations else ''))";
        let answer = step::run(program, &["-c", QUESTION])
            .map_err(|source| Error::NoPython { program: program.to_owned(), source: Box::new(source) })?;
        // A path may have a line break.
        let place = answer.rsplit('\0').next().and_then(|last| last.strip_suffix('\n')).unwrap_or_default();
        let torch_libraries = Some(Path::new(place).join("lib")).filter(|path| !place.is_empty() && path.is_dir());
        let bin = program.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Python { program: program.to_owned(), bin, torch_libraries, selected })
    }

    /// The version of `module`, empty if its package has none; `None` if the module cannot be found. It is not
    /// imported.
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
