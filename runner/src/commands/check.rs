//! `ftest check`: reads suites and runs nothing.

use crate::cli::CheckArgs;
use crate::commands::suites;
use crate::exit_code::ExitCode;
use crate::install::Install;

/// Runs the command.
pub fn run(arguments: &CheckArgs) -> ExitCode {
    let loaded = match suites::load(&arguments.suites, &Install::find()) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    for suite in loaded {
        anstream::println!("{}: {} cases, no mistake", suite.file.display(), suite.cases.len());
    }
    ExitCode::Passed
}
