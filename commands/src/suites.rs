//! Shared by `run` and `check`: turns words into suites and reports every mistake on stderr.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use runner::host::install::Install;
use runner::record::Run;
use runner::suite::{self, Suite, SuiteError, find};
use runner::verdict::exit_code::ExitCode;

use crate::pytest;

/// The directories in which suite names are looked up: those in the working directory come before the installed ones.
fn directories(install: &Install) -> Vec<PathBuf> {
    [PathBuf::from("suites")].into_iter().chain(install.suites().ok()).collect()
}

/// `; there are: a, b`.
pub(super) fn choices(install: &Install) -> String {
    let names: Vec<String> = find::named(&directories(install)).into_keys().collect();
    let here: Vec<String> = find::files(Path::new(".")).iter().map(|file| shown(file)).collect();
    match (here.is_empty(), names.is_empty()) {
        (false, _) => format!("; here are: {}", here.join(", ")),
        (true, true) => "; `ftest init` writes a first one".to_owned(),
        (true, false) => format!("; there are: {}; `ftest init` writes one of your own", names.join(", ")),
    }
}

fn shown(file: &Path) -> String {
    file.strip_prefix(".").unwrap_or(file).display().to_string()
}

/// Whether `word` names a suite, a file or a directory of them.
pub(super) fn is_known(word: &str, install: &Install) -> bool {
    find::resolve(&[word.to_owned()], &directories(install)).is_ok()
}

/// The suites of a past run, as words for this directory.
pub(super) fn files_of(run: &Run) -> Vec<String> {
    let here = std::env::current_dir().is_ok_and(|here| here == run.info.directory);
    let file = |file: &Path| if here { file.to_owned() } else { run.info.directory.join(file) };
    let files: BTreeSet<PathBuf> = run.cases.iter().map(|case| file(&case.info.place.file)).collect();
    files.into_iter().map(|file| file.to_string_lossy().into_owned()).collect()
}

/// The files that `words` name.
///
/// # Errors
/// After reporting on stderr every word that names no suite.
pub(super) fn files(words: &[String], install: &Install) -> Result<Vec<PathBuf>, ExitCode> {
    find::resolve(words, &directories(install)).map_err(|unknown| {
        for error in unknown {
            eprintln!("ftest: {error}");
        }
        ExitCode::Usage
    })
}

/// The suites that `words` name, sorted by suite name.
///
/// # Errors
/// After reporting every mistake on stderr.
pub(super) fn load(words: &[String], install: &Install) -> Result<Vec<Suite>, ExitCode> {
    let files = files(words, install)?;
    let mut suites: Vec<Suite> = Vec::new();
    let mut mistakes = 0;
    for file in &files {
        let suite = if pytest::is_python(file) {
            pytest::suite_of(file, install).map_err(|error| {
                eprintln!("ftest: {error}");
                ExitCode::Usage
            })?
        } else {
            file.clone()
        };
        match suite::load(&suite) {
            Ok(suite) => match suites.iter().find(|other| other.name == suite.name) {
                Some(other) => {
                    eprintln!(
                        "ftest: {} and {} are both the suite `{}`; rename one of them",
                        other.file.display(),
                        file.display(),
                        suite.name
                    );
                    mistakes += 1;
                }
                None => suites.push(suite),
            },
            Err(SuiteError::Mistakes(found)) => {
                mistakes += found.count();
                let text = if styled() { found.styled() } else { found.to_string() };
                // A closed stdout must not panic.
                let _ = anstream::stderr().write_all(text.as_bytes());
            }
            Err(error @ SuiteError::Read { .. }) => {
                mistakes += 1;
                eprintln!("ftest: {error}");
            }
        }
    }
    if mistakes > 0 {
        eprintln!(
            "ftest: {mistakes} {} in {} {}; nothing was run",
            plural(mistakes, "mistake"),
            files.len(),
            plural(files.len(), "file")
        );
        return Err(ExitCode::Usage);
    }
    // Neither the order of words nor the order of files on disk may change a run.
    suites.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(suites)
}

/// Whether stderr shows colors.
pub(super) fn styled() -> bool {
    std::io::stderr().is_terminal() && anstream::stderr().current_choice() != anstream::ColorChoice::Never
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
