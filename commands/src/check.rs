//! `ftest check`: reads suites and runs nothing.

use std::io::Write;

use runner::host::install::Install;
use runner::review;
use runner::verdict::exit_code::ExitCode;

use crate::cli::CheckArgs;
use crate::suites;

/// Runs the command.
pub fn run(arguments: &CheckArgs) -> ExitCode {
    let loaded = match suites::load(&arguments.suites, &Install::find()) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let mut warnings = 0;
    for suite in loaded.iter().filter(|suite| suite.warnings.count() > 0) {
        let between = if warnings > 0 { "\n" } else { "" };
        warnings += suite.warnings.count();
        let text = if suites::styled() { suite.warnings.styled() } else { suite.warnings.to_string() };
        let text = format!("{between}{text}");
        // A closed stdout must not panic.
        let _ = anstream::stderr().write_all(text.as_bytes());
    }
    for file in review::unreferenced(&loaded) {
        warnings += 1;
        eprintln!("warning: no case has the snapshot {}; `ftest reject --unreferenced` removes it", file.display());
    }
    for suite in &loaded {
        let count = suite.cases.len();
        let cases = if count == 1 { "case" } else { "cases" };
        println!("{}: {count} {cases}, no mistakes", suite.file.display());
    }
    if warnings == 0 {
        return ExitCode::Passed;
    }
    let plural = if warnings == 1 { "warning" } else { "warnings" };
    if arguments.deny_warnings {
        eprintln!("ftest: {warnings} {plural}, which `--deny-warnings` turns into errors");
        return ExitCode::Usage;
    }
    eprintln!("ftest: {warnings} {plural}");
    ExitCode::Passed
}
