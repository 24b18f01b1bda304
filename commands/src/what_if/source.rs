//! The kept operations that `ftest what-if` is asked about: a file, a directory, or a case of the last run.

use std::path::{Path, PathBuf};

use protocol::operations::{FILE_PREFIX, OperationLog};
use runner::record::store::Runs;

use super::Trouble;

/// The logs of all processes, by rank.
pub(super) fn read(named: &Path, runs: &Runs) -> Result<Vec<OperationLog>, Trouble> {
    let files = files(named, runs)?;
    let mut logs = files.iter().map(|file| log(file)).collect::<Result<Vec<_>, _>>()?;
    logs.sort_by_key(|log| log.rank);
    Ok(logs)
}

fn log(file: &Path) -> Result<OperationLog, Trouble> {
    let shown = file.display();
    let text = std::fs::read(file).map_err(|error| Trouble::infra(format!("{shown}: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| {
        Trouble::infra(format!("{shown}:{}:{}: not the operations of a process: {error}", error.line(), error.column()))
    })
}

fn files(named: &Path, runs: &Runs) -> Result<Vec<PathBuf>, Trouble> {
    if named.is_file() {
        return Ok(vec![named.to_owned()]);
    }
    let directories = match named.is_dir() {
        true => below(named),
        false => of_last_run(named, runs)?,
    };
    match directories.as_slice() {
        [] => Err(Trouble::usage(format!(
            "{}: no operations are kept there; they are of cases with `clock: modeled` whose processes end normally",
            named.display()
        ))),
        [only] => Ok(logs_in(only)),
        several => {
            let names: Vec<String> = several.iter().map(|one| one.display().to_string()).collect();
            Err(Trouble::usage(format!(
                "{}: several cases have operations; name one of {}",
                named.display(),
                names.join(", ")
            )))
        }
    }
}

/// The directories with operations at most three levels below this one, in order: a run has suites, and a suite has cases.
fn below(directory: &Path) -> Vec<PathBuf> {
    fn find(directory: &Path, levels: u32, found: &mut Vec<PathBuf>) {
        if !logs_in(directory).is_empty() {
            return found.push(directory.to_owned());
        }
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut inner: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        inner.sort();
        inner.iter().filter(|_| levels > 0).for_each(|path| find(path, levels - 1, found));
    }
    let mut found = Vec::new();
    find(directory, 3, &mut found);
    found
}

fn of_last_run(named: &Path, runs: &Runs) -> Result<Vec<PathBuf>, Trouble> {
    let last = runs.find(None).map_err(|error| {
        Trouble::usage(format!("{}: no such file or directory, and no case of the last run: {error}", named.display()))
    })?;
    let all = below(&last);
    let case = |directory: &PathBuf| directory.strip_prefix(&last).ok()?.parent().map(Path::to_owned);
    let (is, others): (Vec<PathBuf>, Vec<PathBuf>) =
        all.into_iter().partition(|directory| case(directory).is_some_and(|case| case.ends_with(named)));
    if is.is_empty() && !others.is_empty() {
        let cases: Vec<String> = others.iter().filter_map(case).map(|case| case.display().to_string()).collect();
        let near = named.to_str().and_then(|word| {
            let names = cases.iter().flat_map(|case| [case.as_str(), case.rsplit('/').next().unwrap_or(case)]);
            protocol::suggest::nearest(word, names)
        });
        let hint =
            near.map_or_else(|| format!("it has {}", cases.join(", ")), |near| format!("did you mean `{near}`?"));
        return Err(Trouble::usage(format!(
            "{}: no file or directory, and no case of the last run ({}) with operations; {hint}",
            named.display(),
            last.display()
        )));
    }
    Ok(is)
}

fn logs_in(directory: &Path) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(FILE_PREFIX) && name.ends_with(".json") && path.is_file()
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_log).collect();
    files.sort();
    files
}
