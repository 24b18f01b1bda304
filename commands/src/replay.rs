//! `ftest replay` and `ftest merge`: reports of past runs, from their logs.

use std::path::Path;

use clap::Args;
use runner::host::output;
use runner::host::secrets::Secrets;
use runner::record::event::Event;
use runner::record::{Recorder, Run, log, merge, store};
use runner::report::human::HumanReport;
use runner::report::{counts, words};
use runner::verdict::exit_code::ExitCode;

use crate::reports::{ReportArgs, Reports, RunsArgs};

/// Arguments of `ftest replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// A run: its id, a part of it, or its directory [default: the last one]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// The reports to write
    #[command(flatten)]
    pub reports: ReportArgs,
    /// Where runs are kept
    #[command(flatten)]
    pub runs: RunsArgs,
}

/// Arguments of `ftest merge`.
#[derive(Args, Clone, Debug)]
pub struct MergeArgs {
    /// Runs: ids, parts of them, or directories
    #[arg(value_name = "RUN", required = true)]
    pub parts: Vec<String>,
    /// Let the verdict be that of the shards that are there; every report names those that are missing
    #[arg(long)]
    pub partial: bool,
    /// How many runs there have to be; of shards, each says of how many it is one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expect: Option<u32>,
    /// The reports to write
    #[command(flatten)]
    pub reports: ReportArgs,
    /// Where runs are kept
    #[command(flatten)]
    pub runs: RunsArgs,
}

/// Shows a run again; returns its exit code.
pub fn replay(arguments: &ReplayArgs) -> ExitCode {
    if let Err(code) = arguments.reports.check() {
        return code;
    }
    let directory = match arguments.runs.runs().find(arguments.run.as_deref()) {
        Ok(directory) => directory,
        Err(error) => return fail(&error, ExitCode::Usage),
    };
    let mut reports = reports(&arguments.reports, Run::in_directory(&directory));
    let path = directory.join(log::LOG);
    let mut events = match log::events(&path) {
        Ok(events) => events.peekable(),
        Err(error) => return fail(&error, ExitCode::CouldNotRun),
    };
    if events.peek().is_none() {
        return fail(&log::LogError::Empty { path }, ExitCode::CouldNotRun);
    }
    for event in events {
        match event {
            // Nothing is pending now.
            Ok(Event::Preparing { .. }) => {}
            Ok(event) => reports.on(event),
            Err(error) => return fail(&error, ExitCode::CouldNotRun),
        }
    }
    ended(reports, &directory)
}

/// Shows several runs as one.
pub fn merge(arguments: &MergeArgs) -> ExitCode {
    if let Err(code) = arguments.reports.check() {
        return code;
    }
    let runs = arguments.runs.runs();
    let mut parts: Vec<Run> = Vec::new();
    for name in &arguments.parts {
        let directory = match runs.find(Some(name)) {
            Ok(directory) => directory,
            Err(error) => return fail(&error, ExitCode::Usage),
        };
        match store::read(&directory) {
            Ok(run) if parts.iter().any(|part| part.info.run == run.info.run) => {
                eprintln!("ftest: {name} is {}, which is already named", run.info.run);
                return ExitCode::Usage;
            }
            Ok(run) if run.end.is_none() => {
                let state = if store::is_running(&directory) { "is still running" } else { "did not end" };
                eprintln!("ftest: warning: {} {state}; its remaining cases count as not run", directory.display());
                parts.push(run);
            }
            Ok(run) => parts.push(run),
            Err(error) => return fail(&error, ExitCode::CouldNotRun),
        }
    }
    let merged = merge::merge(parts, arguments.expect.map(|expect| expect as usize), arguments.partial);
    for conflict in &merged.conflicts {
        eprintln!("ftest: warning: {conflict}");
    }
    let missing = &merged.run.info.missing;
    for what in missing {
        eprintln!("ftest: {}{what}", if arguments.partial { "warning: " } else { "" });
    }
    if !missing.is_empty() && !arguments.partial {
        eprintln!("ftest: this is not a whole run; `--partial` lets it pass without what is missing");
    }
    let mut reports = reports(&arguments.reports, Run::default());
    merged.run.events().into_iter().for_each(|event| reports.on(event));
    ended(reports, Path::new(""))
}

fn reports(arguments: &ReportArgs, run: Run) -> Reports {
    let human = HumanReport::new(Box::new(output::styled()), false).in_groups(arguments.files.to_github());
    Reports::new(arguments, run, Recorder::new(None, Secrets::default()), human)
}

/// The exit code of a past run.
fn ended(mut reports: Reports, directory: &Path) -> ExitCode {
    let verdict = reports.run().verdict_code();
    let code = match reports.run().end {
        Some(end) => ExitCode::of_number(end.exit_code).unwrap_or(verdict),
        None => {
            reports.write_files();
            let run = reports.run();
            let state = if store::is_running(directory) { "is still running" } else { "was killed" };
            println!("{} so far: {}", words::counted(run.cases.len(), "case"), counts(run));
            eprintln!("ftest: the run {state}: its log and its reports are incomplete");
            verdict.max(ExitCode::CouldNotRun)
        }
    };
    code.max(reports.code())
}

fn fail(error: &dyn std::error::Error, code: ExitCode) -> ExitCode {
    eprintln!("ftest: {error}");
    code
}
