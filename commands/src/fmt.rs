//! `ftest fmt`: formats suites in the standard layout.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use runner::host::install::Install;
use runner::host::whole_file;
use runner::suite::format::format;
use runner::verdict::exit_code::ExitCode;

use crate::suites;

/// Arguments of `ftest fmt`.
#[derive(Args, Clone, Debug)]
pub struct FmtArgs {
    /// Only list unformatted files; exit with 1 if there are any
    #[arg(long)]
    pub check: bool,
    /// Names of suites, suite or cluster files, or directories of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &FmtArgs) -> ExitCode {
    let files = match suites::files(&arguments.files, &Install::find()) {
        Ok(files) => files,
        Err(code) => return code,
    };
    let mut code = ExitCode::Passed;
    for file in files {
        match one(&file, arguments.check) {
            Ok(None) => {}
            Ok(Some(done)) => {
                println!("{}: {done}", file.display());
                if arguments.check {
                    code = code.max(ExitCode::Failed);
                }
            }
            Err(error) => {
                eprintln!("ftest fmt: {error}");
                code = code.max(ExitCode::Usage);
            }
        }
    }
    code
}

/// What was done, or would be.
fn one(file: &PathBuf, check: bool) -> Result<Option<&'static str>, String> {
    let at = |error: std::io::Error| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(at)?;
    let formatted = format(&file.display().to_string(), &text).map_err(|error| error.to_string())?;
    if formatted == text {
        return Ok(None);
    }
    if check {
        return Ok(Some("not formatted"));
    }
    replace(file, &formatted).map_err(at)?;
    Ok(Some("formatted"))
}

/// Replaces the file atomically and keeps its permissions.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    // If it is a link, its target is written.
    whole_file::replace(&file.canonicalize()?, &[text.as_bytes()])
}
