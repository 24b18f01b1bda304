//! `ftest review`, `ftest accept`, `ftest reject`: deciding pending snapshots.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use console::{Key, Term};
use runner::filter::Filter;
use runner::host::install::Install;
use runner::host::output;
use runner::record::store;
use runner::review::{self, Pending, Refused, dialog};
use runner::verdict::exit_code::ExitCode;

use crate::reports::RunsArgs;
use crate::suites;

/// Which pending snapshots.
#[derive(Args, Clone, Debug)]
pub struct Waiting {
    /// Names of suites, suite files, or directories of them [default: those of the last run, else `suites`]
    #[arg(value_name = "SUITE")]
    suites: Vec<String>,
    /// Only snapshots of cases that this filter accepts, as for `ftest run`
    #[arg(long, short = 'E', value_name = "FILTER")]
    filter: Option<String>,
    /// Take them from this directory, a downloaded CI artifact, instead of next to the accepted ones
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Where runs are kept
    #[command(flatten)]
    runs: RunsArgs,
}

/// Arguments of `ftest reject`.
#[derive(Args, Clone, Debug)]
pub struct RejectArgs {
    /// Names of suites, suite files, or directories of them [default: those of the last run, else `suites`]
    #[arg(value_name = "SUITE")]
    suites: Vec<String>,
    /// Only snapshots of cases that this filter accepts, as for `ftest run`
    #[arg(long, short = 'E', value_name = "FILTER", conflicts_with = "unreferenced")]
    filter: Option<String>,
    /// Remove snapshot files that no case of these suites has, accepted ones as well
    #[arg(long)]
    unreferenced: bool,
    /// Where runs are kept
    #[command(flatten)]
    runs: RunsArgs,
}

/// Asks what to do with each pending snapshot. Without a terminal it only shows them.
pub fn review(arguments: &Waiting) -> ExitCode {
    let (pending, refused) = match find(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let mut out = output::styled();
    let result = if pending.is_empty() {
        Ok(dialog::Decisions::default())
    } else if io::stdin().is_terminal() && io::stdout().is_terminal() {
        let terminal = Term::stdout();
        dialog::review(&pending, || key(&terminal), &mut out)
    } else {
        let shown = pending
            .iter()
            .enumerate()
            .try_for_each(|(index, one)| dialog::show(one, index, pending.len(), false, &mut out));
        shown.map(|()| dialog::Decisions { left: pending.len(), ..dialog::Decisions::default() })
    };
    match result {
        Ok(decisions) => {
            report(decisions);
            if decisions.left > 0 || !refused.is_empty() { ExitCode::Failed } else { ExitCode::Passed }
        }
        // The reader of a pipe (`| less`) may leave when it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::Failed,
        Err(error) => could_not(&error),
    }
}

/// Accepts all of them.
pub fn accept(arguments: &Waiting) -> ExitCode {
    decide(find(arguments), "accepted", Pending::accept)
}

/// Removes all of them, or only the files that belong to no case.
pub fn reject(arguments: &RejectArgs) -> ExitCode {
    if arguments.unreferenced {
        return remove_unreferenced(&or_default(&arguments.suites, &arguments.runs));
    }
    let RejectArgs { suites, filter, runs, .. } = arguments.clone();
    let waiting = Waiting { suites, filter, from: None, runs };
    decide(find(&waiting), "rejected", Pending::reject)
}

fn decide(
    found: Result<(Vec<Pending>, Vec<Refused>), ExitCode>,
    word: &str,
    decision: impl Fn(&Pending) -> io::Result<()>,
) -> ExitCode {
    let (pending, refused) = match found {
        Ok(found) => found,
        Err(code) => return code,
    };
    if pending.is_empty() && refused.is_empty() {
        eprintln!("ftest: no snapshot is pending");
    }
    let mut out = output::stdout();
    for one in &pending {
        if let Err(error) = decision(one) {
            return could_not(&error);
        }
        // A closed pipe is the reader's choice; the decision has already been made.
        let _ = writeln!(out, "{word} {}: {}", one.name(), one.file.path.display());
    }
    if refused.is_empty() { ExitCode::Passed } else { ExitCode::Failed }
}

fn remove_unreferenced(words: &[String]) -> ExitCode {
    let suites = match suites::load(words, &Install::find()) {
        Ok(suites) => suites,
        Err(code) => return code,
    };
    let files = review::unreferenced(&suites);
    if files.is_empty() {
        eprintln!("ftest: every snapshot file belongs to a case");
    }
    for file in files {
        if let Err(error) = std::fs::remove_file(&file) {
            return could_not(&error);
        }
        println!("removed {}", file.display());
    }
    ExitCode::Passed
}

fn find(arguments: &Waiting) -> Result<(Vec<Pending>, Vec<Refused>), ExitCode> {
    let filter = arguments.filter.as_deref().map(Filter::parse).transpose().map_err(|error| {
        eprintln!("ftest: {error}");
        ExitCode::Usage
    })?;
    let mut suites = suites::load(&or_default(&arguments.suites, &arguments.runs), &Install::find())?;
    if let Some(filter) = &filter {
        for suite in &mut suites {
            suite.cases.retain(|case| filter.accepts(case));
        }
    }
    let (pending, refused) = match &arguments.from {
        Some(directory) => review::below(directory, &suites).map_err(|error| {
            eprintln!("ftest: {}: {error}", directory.display());
            ExitCode::Usage
        })?,
        None => review::beside(&suites),
    };
    for Refused { found, why } in &refused {
        eprintln!("ftest: {} is left alone: {why}", found.display());
    }
    Ok((pending, refused))
}

/// `words`; if empty, the suites of the last run, or else the directory `suites`.
fn or_default(words: &[String], runs: &RunsArgs) -> Vec<String> {
    if !words.is_empty() {
        return words.to_vec();
    }
    let last = runs.runs().find(None).ok();
    let run = last.and_then(|directory| store::read(&directory).ok()).unwrap_or_default();
    let mut files = suites::files_of(&run);
    let known = !files.is_empty();
    files.retain(|file| Path::new(file).is_file());
    if files.is_empty() {
        if known {
            eprintln!(
                "ftest: the suites of the last run, {}, are no longer there; these are the ones in `suites`",
                run.info.run
            );
        }
        return vec!["suites".to_owned()];
    }
    files
}

fn key(terminal: &Term) -> io::Result<Option<char>> {
    Ok(match terminal.read_key()? {
        Key::Char(character) => Some(character),
        Key::Escape | Key::CtrlC | Key::UnknownEscSeq(_) => Some('q'),
        _ => Some(' '),
    })
}

fn report(decisions: dialog::Decisions) {
    let dialog::Decisions { accepted, rejected, left } = decisions;
    if (accepted, rejected, left) == (0, 0, 0) {
        eprintln!("ftest: no snapshot is pending");
        return;
    }
    let hint = if left > 0 { "; `ftest accept` accepts all of them, `ftest reject` removes them" } else { "" };
    eprintln!("ftest: {accepted} accepted, {rejected} rejected, {left} left{hint}");
}

fn could_not(error: &io::Error) -> ExitCode {
    eprintln!("ftest: {error}");
    ExitCode::CouldNotRun
}
