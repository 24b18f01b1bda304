//! `ftest check`: reads suites and runs nothing.

use crate::cli::CheckArgs;
use crate::commands::suites;
use crate::exit_code::ExitCode;
use crate::install::Install;
use crate::review;

/// Runs the command.
pub fn run(arguments: &CheckArgs) -> ExitCode {
    let loaded = match suites::load(&arguments.suites, &Install::find()) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    for file in review::unreferenced(&loaded) {
        eprintln!("warning: no case has the snapshot {}; `ftest reject --unreferenced` removes it", file.display());
    }
    for suite in loaded {
        let count = suite.cases.len();
        let cases = if count == 1 { "case" } else { "cases" };
        println!("{}: {count} {cases}, no mistake", suite.file.display());
    }
    ExitCode::Passed
}
