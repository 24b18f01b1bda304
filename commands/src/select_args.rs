//! The arguments that select cases.

use clap::{Args, ValueEnum};
use runner::filter;
use runner::filter::shard::Shard;
use runner::verdict::exit_code::ExitCode;

/// Which cases are selected.
#[derive(Args, Clone, Debug)]
pub struct SelectArgs {
    /// Names of suites, suite files, or directories of them
    #[arg(value_name = "SUITE")]
    pub suites: Vec<String>,
    /// Only cases that this accepts: part of an id, or `tag(smoke) & world(>=4) & not case(/killed/)`; given several times, those that any accepts
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
    /// Multiply every deadline of the suites, for a slow machine
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

/// The effect of `--no-tests` on an empty selection. `parts` would select something.
pub(super) fn nothing(arguments: &SelectArgs, parts: &[String]) -> Result<(), ExitCode> {
    let filters: Vec<String> = arguments.filters.iter().map(|filter| format!("`{filter}`")).collect();
    let accepted = if filters.is_empty() { String::new() } else { format!(" that {} accepts", filters.join(" or ")) };
    let parts: Vec<String> = parts.iter().map(|part| format!("`{part}`")).collect();
    let hint = match parts.join(" and ") {
        parts if parts.is_empty() => format!("`ftest run --list {}` shows them", arguments.suites.join(" ")),
        parts => format!("did you mean {parts}? Without `~` a name is the whole id, with its matrix"),
    };
    let message = format!("there is no case{accepted}; {hint}");
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
