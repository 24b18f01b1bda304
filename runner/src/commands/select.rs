//! From the words of the command line to the selected cases: suites, filters, the shard, scaled deadlines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::case::Case;
use crate::commands::suites;
use crate::filter::shard::Shard;
use crate::filter::{self, Filter};
use crate::host::install::Install;
use crate::record::{Runs, store};
use crate::verdict::exit_code::ExitCode;

/// Which cases are selected.
#[derive(Args, Clone, Debug)]
pub struct SelectArgs {
    /// Names of suites, suite files, or directories of them
    #[arg(value_name = "SUITE")]
    pub suites: Vec<String>,
    /// Only cases that this accepts: a part of the id, or `tag(smoke) & world(>=4) & not case(/killed/)`; of several, any
    #[arg(
        long = "filter",
        short = 'E',
        value_name = "FILTER",
        help_heading = "Selecting",
        long_help = format!("Only cases that this accepts; given several times, those that any accepts\n\n{}", filter::SYNTAX)
    )]
    pub filters: Vec<String>,
    /// Only cases that did not pass, or did not run, in the last run or in RUN: its id, a part of it, or its directory
    #[arg(
        long,
        value_name = "RUN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "Selecting"
    )]
    pub failed: Option<String>,
    /// Only this part of the selected cases: 2/5 deals out their sorted ids in turn, hash:2/5 goes by each id alone
    #[arg(long, value_name = "PART/OF", help_heading = "Selecting")]
    pub shard: Option<Shard>,
    /// What to do when no case is selected
    #[arg(long, value_enum, default_value_t = NoTests::Fail, value_name = "WHAT", help_heading = "Selecting")]
    pub no_tests: NoTests,
    /// Multiplies every deadline of the suites, for a slow machine
    #[arg(long, value_name = "FACTOR", value_parser = factor, help_heading = "Running")]
    pub timeout_scale: Option<f64>,
}

/// What to do when no case is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NoTests {
    /// Exit with 0, print nothing
    Pass,
    /// Exit with 0 and print a warning
    Warn,
    /// Exit with 4
    #[default]
    Fail,
}

/// A factor that neither ends every case at once nor overflows a clock.
fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.01..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("write a number from 0.01 to 1000".to_owned()),
    }
}

/// The selected cases, in suite order. None: an empty shard, or as `--no-tests` allows.
///
/// # Errors
/// The exit code, after the reason was printed to stderr.
pub(super) fn select(arguments: &SelectArgs, runs: &Runs, install: &Install) -> Result<Vec<Arc<Case>>, ExitCode> {
    let open = arguments.failed.as_deref().map(|name| Open::of(runs, name)).transpose()?;
    if arguments.suites.is_empty() && open.is_none() {
        eprintln!("ftest: name at least one suite{}", suites::choices(install));
        return Err(ExitCode::Usage);
    }
    let filter = Filter::united(arguments.filters.iter().map(String::as_str)).map_err(|error| {
        eprintln!("ftest: {error}");
        ExitCode::Usage
    })?;
    let suites = match &open {
        Some(open) if arguments.suites.is_empty() => suites::load(&open.files, install)?,
        _ => suites::load(&arguments.suites, install)?,
    };
    let all: Vec<Arc<Case>> = suites.into_iter().flat_map(|suite| suite.cases).collect();
    let filter = filter.settled(&|id| all.iter().any(|case| case.full_id() == id));
    warn_of_axes(&filter, &all);
    let mut cases: Vec<Arc<Case>> = all.into_iter().filter(|case| filter.accepts(case)).collect();
    if let Some(open) = &open {
        cases.retain(|case| open.cases.contains(&case.full_id()));
        if cases.is_empty() {
            eprintln!("ftest: none of the selected cases failed in run {} or is left to run", open.run);
            return if arguments.no_tests == NoTests::Fail { Err(ExitCode::NothingSelected) } else { Ok(cases) };
        }
    }
    if cases.is_empty() {
        return nothing(arguments).map(|()| cases);
    }
    if let Some(shard) = arguments.shard {
        let ids: Vec<String> = cases.iter().map(|case| case.full_id()).collect();
        let mut mine = shard.select(&ids).into_iter();
        cases.retain(|_| mine.next().unwrap_or(false));
        if cases.is_empty() {
            eprintln!("ftest: shard {shard} holds none of the {} selected cases", ids.len());
        }
    }
    if let Some(factor) = arguments.timeout_scale {
        for case in &mut cases {
            let case = Arc::make_mut(case);
            case.timeout = case.timeout.scaled(factor);
            case.suite_timeout = case.suite_timeout.map(|limit| limit.mul_f64(factor));
            if let Some((within, _)) = &mut case.expect.within {
                *within = within.mul_f64(factor);
            }
            for fixture in &mut case.uses {
                let timeout = &mut Arc::make_mut(fixture).timeout;
                timeout.kill = timeout.kill.mul_f64(factor);
                timeout.grace = timeout.grace.mul_f64(factor);
            }
        }
    }
    Ok(cases)
}

/// What a run left open.
struct Open {
    run: String,
    cases: BTreeSet<String>,
    /// The suites of all its cases, relative to this directory.
    files: Vec<String>,
}

impl Open {
    /// From the run that `name` selects, or the last one.
    fn of(runs: &Runs, name: &str) -> Result<Open, ExitCode> {
        let name = Some(name).filter(|name| !name.is_empty());
        let directory = runs.find(name).map_err(|error| {
            eprintln!("ftest: {error}");
            ExitCode::Usage
        })?;
        let run = store::read(&directory).map_err(|error| {
            eprintln!("ftest: {error}");
            ExitCode::CouldNotRun
        })?;
        let here = std::env::current_dir().is_ok_and(|here| here == run.info.directory);
        let file = |file: &Path| if here { file.to_owned() } else { run.info.directory.join(file) };
        let files: BTreeSet<PathBuf> = run.cases.iter().map(|case| file(&case.info.place.file)).collect();
        Ok(Open {
            cases: run.cases.iter().filter(|case| case.is_open()).map(|case| case.info.case.clone()).collect(),
            files: files.into_iter().map(|file| file.to_string_lossy().into_owned()).collect(),
            run: run.info.run,
        })
    }
}

fn nothing(arguments: &SelectArgs) -> Result<(), ExitCode> {
    let filters: Vec<String> = arguments.filters.iter().map(|filter| format!("`{filter}`")).collect();
    let accepted = if filters.is_empty() { String::new() } else { format!(" that {} accepts", filters.join(" or ")) };
    let message = format!("there is no case{accepted}; `ftest run --list {}` shows them", arguments.suites.join(" "));
    match arguments.no_tests {
        NoTests::Pass => Ok(()),
        NoTests::Warn => {
            eprintln!("ftest: warning: {message}");
            Ok(())
        }
        NoTests::Fail => {
            eprintln!("ftest: {message}");
            Err(ExitCode::NothingSelected)
        }
    }
}

/// A misspelt axis accepts nothing, and its negation everything: neither is ever intended.
fn warn_of_axes(filter: &Filter, cases: &[Arc<Case>]) {
    let known: BTreeSet<&str> = cases.iter().flat_map(|case| case.matrix.keys()).map(String::as_str).collect();
    for axis in filter.axes().into_iter().filter(|axis| !known.contains(axis)) {
        let hint = match protocol::suggest::nearest(axis, known.iter().copied()) {
            Some(near) => format!("did you mean `matrix.{near}`?"),
            None if known.is_empty() => "these suites have no matrix".to_owned(),
            None => format!("there are: {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
        };
        eprintln!("ftest: warning: no case has `matrix.{axis}`; {hint}");
    }
}
