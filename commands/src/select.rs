//! Turns command-line words into the selected cases: suites, filters, the shard, scaled deadlines.

use std::collections::BTreeSet;
use std::sync::Arc;

use runner::case::Case;
use runner::filter::Filter;
use runner::host::install::Install;
use runner::record::event::Whole;
use runner::record::{Runs, shards, store};
use runner::report::words;
use runner::verdict::exit_code::ExitCode;

use crate::select_args::{self, NoTests, SelectArgs};
use crate::suites;

/// What is selected.
pub(super) struct Selection {
    /// The cases, in suite order. May be empty: for an empty shard, or if `--no-tests` allows it.
    pub cases: Vec<Arc<Case>>,
    /// What they are a shard of.
    pub whole: Option<Whole>,
}

impl From<Vec<Arc<Case>>> for Selection {
    fn from(cases: Vec<Arc<Case>>) -> Selection {
        Selection { cases, whole: None }
    }
}

/// Selects the cases.
///
/// # Errors
/// The exit code, after printing the reason to stderr.
pub(super) fn select(arguments: &SelectArgs, runs: &Runs, install: &Install) -> Result<Selection, ExitCode> {
    let open = arguments.failed.as_deref().map(|name| Open::find(runs, name)).transpose()?;
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
        open.all_exist(&suites_of(&all), &all, arguments)?;
        cases.retain(|case| open.cases.contains(&case.full_id()));
        if cases.is_empty() {
            eprintln!("ftest: none of the selected cases failed in run {} or is left to run", open.run);
            let fails = arguments.no_tests == NoTests::Fail;
            return if fails { Err(ExitCode::NothingSelected) } else { Ok(cases.into()) };
        }
    }
    if cases.is_empty() {
        return select_args::nothing(arguments, &parts_of_ids(&filter, &all)).map(|()| cases.into());
    }
    let whole = arguments.shard.map(|_| shards::whole(cases.iter().map(|case| &**case)));
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
    Ok(Selection { cases, whole })
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
    fn find(runs: &Runs, name: &str) -> Result<Open, ExitCode> {
        let name = Some(name).filter(|name| !name.is_empty());
        let directory = runs.find(name).map_err(|error| {
            eprintln!("ftest: {error}");
            ExitCode::Usage
        })?;
        let run = store::read(&directory).map_err(|error| {
            eprintln!("ftest: {error}");
            ExitCode::CouldNotRun
        })?;
        let known = |what: &str| eprintln!("ftest: run {} {what}", run.info.run);
        if let Some(shard) = &run.info.shard {
            known(&format!("is only shard {shard}: what failed in the others is not in it"));
        }
        let unfinished = run.cases.iter().filter(|case| case.end.is_none()).count();
        if run.is_cut_off() && unfinished > 0 {
            known(&format!("did not end: {} without a result run, too", words::counted(unfinished, "case")));
        }
        let open = run.cases.iter().filter(|case| case.is_open());
        Ok(Open {
            cases: open.map(|case| case.info.case.clone()).collect(),
            files: suites::files_of(&run),
            run: run.info.run,
        })
    }

    /// Checks that each of its cases is still in its suite, if that is one of `suites`. With a filter, what is gone was
    /// perhaps not meant.
    fn all_exist(&self, suites: &BTreeSet<&str>, all: &[Arc<Case>], arguments: &SelectArgs) -> Result<(), ExitCode> {
        let named = |case: &str| case.split_once('/').is_some_and(|(suite, _)| suites.contains(suite));
        let ids: BTreeSet<String> = all.iter().map(|case| case.full_id()).collect();
        let gone = self.cases.iter().filter(|case| !ids.contains(*case));
        let gone: Vec<&str> =
            gone.map(String::as_str).filter(|case| arguments.suites.is_empty() || named(case)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let (are, gone) = (if gone.len() == 1 { "is" } else { "are" }, gone.join(", "));
        let lead = if arguments.filters.is_empty() { "" } else { "warning: " };
        eprintln!("ftest: {lead}{gone} did not pass in run {} and {are} no longer in the suites", self.run);
        if lead.is_empty() {
            eprintln!("ftest: nothing was run; -E 'all()' runs the others");
            return Err(ExitCode::Usage);
        }
        Ok(())
    }
}

/// The names of the suites that these cases are of.
fn suites_of(cases: &[Arc<Case>]) -> BTreeSet<&str> {
    cases.iter().map(|case| case.suite.as_str()).collect()
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
