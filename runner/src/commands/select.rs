//! From the words of the command line to the cases that are meant: suites, filters, the shard, scaled deadlines.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::case::Case;
use crate::commands::suites;
use crate::exit_code::ExitCode;
use crate::filter::{self, Filter};
use crate::install::Install;
use crate::shard::Shard;

/// Which cases are meant.
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
    /// End with 0 and say nothing
    Pass,
    /// End with 0 and say so
    Warn,
    /// End with 4
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
/// The exit code, after stderr said why.
pub(super) fn select(arguments: &SelectArgs, install: &Install) -> Result<Vec<Arc<Case>>, ExitCode> {
    if arguments.suites.is_empty() {
        eprintln!("ftest: name at least one suite{}", suites::choices(install));
        return Err(ExitCode::Usage);
    }
    let filter = Filter::united(arguments.filters.iter().map(String::as_str)).map_err(|error| {
        eprintln!("ftest: {error}");
        ExitCode::Usage
    })?;
    let suites = suites::load(&arguments.suites, install)?;
    let all: Vec<Arc<Case>> = suites.into_iter().flat_map(|suite| suite.cases).collect();
    warn_of_axes(&filter, &all);
    let mut cases: Vec<Arc<Case>> = all.into_iter().filter(|case| filter.accepts(case)).collect();
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

/// A misspelt axis accepts nothing, and its negation everything: neither is what anybody means.
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
