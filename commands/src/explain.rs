//! `ftest explain`: a case with all defaults and expressions resolved.

use std::io::Write;

use clap::Args;
use runner::case::Case;
use runner::host::install::Install;
use runner::host::output;
use runner::suite;
use runner::verdict::exit_code::ExitCode;

use crate::suites;

/// Arguments of `ftest explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// `SUITE/CASE`, with its matrix values or without, or a SUITE for all its cases; a suite is a name or a file
    #[arg(value_name = "CASE", required = true)]
    pub cases: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &ExplainArgs) -> ExitCode {
    let install = Install::find();
    let mut texts = Vec::new();
    for word in &arguments.cases {
        let (suite, id) = split(word, &install);
        let loaded = match suites::load(&[suite.to_owned()], &install) {
            Ok(loaded) => loaded,
            Err(code) => return code,
        };
        let before = texts.len();
        for suite in &loaded {
            // It was read a moment ago, so a mistake now means that it has just changed.
            match suite::explain(&suite.file) {
                Ok(cases) => {
                    let wanted = cases.into_iter().filter(|(case, _)| id.is_none_or(|id| means(id, case)));
                    texts.extend(wanted.map(|(_, text)| text));
                }
                Err(error) => {
                    eprintln!("ftest: {error}");
                    return ExitCode::Usage;
                }
            }
        }
        if texts.len() == before {
            eprintln!("ftest: there is no case `{word}`; `ftest run --list {suite}` shows them");
            return ExitCode::NothingSelected;
        }
    }
    // A closed pipe (`| head`) is the reader's choice.
    let _ = output::stdout().write_all(texts.join("\n").as_bytes());
    ExitCode::Passed
}

/// Whether `id` is the id of the case, or of all expansions of its matrix.
pub(super) fn means(id: &str, case: &Case) -> bool {
    case.id == id || case.id.split('[').next() == Some(id)
}

/// Splits a word into a suite and, if it names one, a case. The longest prefix that is a suite counts.
pub(super) fn split<'w>(word: &'w str, install: &Install) -> (&'w str, Option<&'w str>) {
    let ends = word.char_indices().filter(|(_, letter)| *letter == '/').map(|(at, _)| at);
    let is_suite = |suite: &str| suites::is_known(suite, install);
    if is_suite(word) {
        return (word, None);
    }
    let found = ends.rev().find(|at| is_suite(&word[..*at]));
    found.map_or((word, None), |at| (&word[..at], Some(&word[at + 1..])))
}
