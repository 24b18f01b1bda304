//! The Python for a command that a person typed.

use std::path::Path;

use super::error::Error;
use super::interpreter::Python;
use super::progress::Said;
use super::{chosen, managed};

/// Programs that run other programs, which may be Python.
const RUNNERS: &[&str] = &["sh", "bash", "dash", "zsh", "env", "make", "nice", "time", "timeout", "xargs"];

/// Programs that come with the default environment.
const ENVIRONMENT_ONLY: &[&str] = &["torchrun", "torchfrtrace", "pip", "pip3"];

/// The Python for a command that a person typed: the chosen one, else the managed one. The managed one takes a gigabyte,
/// so it is made only if the command can need it: Python itself, a script, a program that runs others, or one that only
/// the environment has.
///
/// # Errors
/// [`Error`]: what failed and what to do.
pub fn for_command(command: &std::ffi::OsStr, announce: &dyn Fn(Said<'_>)) -> Result<Option<Python>, Error> {
    if let Some(chosen) = chosen()? {
        return Python::describe(&chosen.program, chosen.variable).map(Some);
    }
    if let Some(python) = managed::present(&[])? {
        return Ok(Some(python));
    }
    if !may_be_python(command) {
        return Ok(None);
    }
    let because = format!("{} is, or may start, Python, which has PyTorch here", command.display());
    managed::provide(&[], "", &|said| match said {
        Said::Step(step) => {
            announce(Said::Step(&step.replacen(managed::MAKING, &format!("{because}: {}", managed::MAKING), 1)));
        }
        amount @ Said::Amount(_) => announce(amount),
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
