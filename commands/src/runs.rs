//! `ftest runs`: lists the kept runs and their results.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use runner::host::calendar::timestamp;
use runner::host::output;
use runner::record::log::LogError;
use runner::record::{Run, store};
use runner::report::{counts, seconds};
use runner::verdict::exit_code::ExitCode;

use crate::reports::RunsArgs;

/// Arguments of `ftest runs`.
#[derive(Args, Clone, Debug)]
pub struct ListRunsArgs {
    /// Where they are
    #[command(flatten)]
    pub runs: RunsArgs,
}

/// Lists the kept runs, latest first.
pub fn list(arguments: &ListRunsArgs) -> ExitCode {
    let runs = arguments.runs.runs();
    let kept = runs.list();
    if kept.is_empty() {
        eprintln!("ftest: no run is kept in {}", runs.directory().display());
        return ExitCode::Passed;
    }
    let mut out = output::stdout();
    let mut code = ExitCode::Passed;
    for directory in kept.iter().rev() {
        match store::read(directory) {
            Ok(run) => {
                // A closed pipe (`| head`) is the reader's choice.
                if writeln!(out, "{}", line(&run, store::is_running(directory))).is_err() {
                    break;
                }
            }
            // It has not written its first line yet.
            Err(LogError::Empty { .. }) if store::is_running(directory) => {}
            Err(error) => {
                eprintln!("ftest: {error}");
                code = ExitCode::CouldNotRun;
            }
        }
    }
    code
}

/// `20261121T103000.250-1a2b  2026-11-21 10:30:00    12.3 s  48 passed, 2 failed`.
fn line(run: &Run, running: bool) -> String {
    let at = timestamp(UNIX_EPOCH + Duration::from_millis(run.info.at_ms)).replace('T', " ");
    let time = match &run.end {
        Some(end) => format!("{:.1} s", seconds(end.duration_us)),
        None if running => "running".to_owned(),
        None => "killed".to_owned(),
    };
    let interrupted = if run.end.is_some_and(|end| end.interrupted) { ", interrupted" } else { "" };
    let shard = run.info.shard.as_ref().map(|shard| format!(", shard {shard}")).unwrap_or_default();
    format!("{}  {at}  {time:>10}  {}{interrupted}{shard}", run.info.run, counts(run))
}
