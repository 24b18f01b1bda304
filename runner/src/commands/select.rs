//! Turns command-line words into the selected cases: suites, filters, the shard, scaled deadlines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::case::Case;
use crate::commands::select_args::{self, NoTests, SelectArgs};
use crate::commands::suites;
use crate::filter::Filter;
use crate::host::install::Install;
use crate::record::{Runs, store};
use crate::verdict::exit_code::ExitCode;

/// The selected cases, in suite order. May be empty: for an empty shard, or if `--no-tests` allows it.
///
/// # Errors
/// The exit code, after printing the reason to stderr.
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
    let mut cases: Vec<Arc<Case>> = all.iter().filter(|case| filter.accepts(case)).cloned().collect();
    if let Some(open) = &open {
        cases.retain(|case| open.cases.contains(&case.full_id()));
        if cases.is_empty() {
            eprintln!("ftest: none of the selected cases failed in run {} or is left to run", open.run);
            return if arguments.no_tests == NoTests::Fail { Err(ExitCode::NothingSelected) } else { Ok(cases) };
        }
    }
    if cases.is_empty() {
        return select_args::nothing(arguments, &parts_of_ids(&filter, &all)).map(|()| cases);
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

/// The unfinished cases of a run.
struct Open {
    run: String,
    cases: BTreeSet<String>,
    /// The suites of all its cases, relative to this directory.
    files: Vec<String>,
}

impl Open {
    /// Reads them from the run that `name` selects, or from the last run.
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

/// What to write instead if the names in the filter are parts of ids, such as those of cases with a matrix.
fn parts_of_ids(filter: &Filter, cases: &[Arc<Case>]) -> Vec<String> {
    let (loosened, written) = filter.loosened();
    if cases.iter().any(|case| loosened.accepts(case)) { written } else { Vec::new() }
}

/// A misspelled axis accepts nothing, and its negation accepts everything; neither is ever intended.
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
