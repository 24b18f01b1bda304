//! `ftest run --watch`: repeats the run whenever one of its files changes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use runner::case::srun::Program;
use runner::case::{Case, Launch};
use runner::execute::run::job;
use runner::host::install::Install;
use runner::verdict::exit_code::ExitCode;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::one_run::{Ended, execute};
use super::select::Selection;
use super::signals::{SignalAction, Signals};
use super::{select, suites};
use crate::cli::RunArgs;

/// An editor writes a file in several steps: the run begins when nothing has changed for this long.
const QUIET: Duration = Duration::from_millis(150);

/// Runs until a signal arrives; returns the signal's exit code.
pub(super) fn run(arguments: &RunArgs, install: &Install) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(again_and_again(arguments, install)),
        Err(error) => {
            eprintln!("ftest: cannot start: {error}");
            ExitCode::CouldNotRun
        }
    }
}

async fn again_and_again(arguments: &RunArgs, install: &Install) -> ExitCode {
    let mut signals = Signals::new();
    // The last watched files, in case a suite can no longer be read.
    let mut sources = Sources::default();
    loop {
        let words = arguments.select.suites.iter().filter(|word| suites::is_known(word, install)).cloned();
        for file in suites::files(&words.collect::<Vec<_>>(), install).unwrap_or_default() {
            sources.suite(&file);
        }
        let selected = select::select(&arguments.select, &arguments.runs.runs(), install);
        if let Ok(Selection { cases, .. }) = &selected {
            cases.iter().for_each(|case| sources.case(case));
        } else if sources.files.is_empty() {
            // Nothing that an edit could fix.
            return selected.err().unwrap_or(ExitCode::Usage);
        }
        // Before the run, so that changes during the run count.
        let (mut changes, _watcher) = match sources.watch() {
            Ok(watching) => watching,
            Err(error) => {
                eprintln!("ftest: cannot watch files: {error}");
                return ExitCode::CouldNotRun;
            }
        };
        if let Ok(Selection { cases, .. }) = selected
            && !cases.is_empty()
            && let Ended::BySignal(code) = execute(arguments, install.clone(), &cases, None, None, &mut signals).await
        {
            return code;
        }
        eprintln!("ftest: waiting for a change to {}; Ctrl-C to quit", sources.describe());
        let changed = tokio::select! {
            changed = settled(&mut changes) => changed,
            code = ended(&mut signals) => return code,
        };
        eprintln!("ftest: {} changed", changed.display());
    }
}

/// Waits until a signal asks to end.
async fn ended(signals: &mut Signals) -> ExitCode {
    loop {
        match signals.next().await {
            SignalAction::End(code) | SignalAction::EndNow(code) => return code,
            SignalAction::Pause => job::pause_alone(),
        }
    }
}

/// The first change, after no more have come for a while.
async fn settled(changes: &mut UnboundedReceiver<PathBuf>) -> PathBuf {
    let Some(first) = changes.recv().await else { return std::future::pending().await };
    while let Ok(Some(_)) = tokio::time::timeout(QUIET, changes.recv()).await {}
    first
}

/// The files a run depends on. All paths are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sources {
    /// Suites, scripts and programs.
    files: BTreeSet<PathBuf>,
    /// Files next to a script with the same extension, because it may import them.
    beside: BTreeSet<(PathBuf, OsString)>,
    /// Directories passed to a program.
    trees: BTreeSet<PathBuf>,
}

impl Sources {
    fn suite(&mut self, file: &Path) {
        self.files.extend(std::path::absolute(file));
    }

    fn case(&mut self, case: &Case) {
        self.suite(&case.place.file);
        match &case.launch {
            Launch::Torchrun { script, args, .. } => {
                self.named(&case.cwd, script);
                args.iter().for_each(|word| self.named(&case.cwd, Path::new(word)));
            }
            Launch::Argv { argv, .. } => argv.iter().for_each(|word| self.named(&case.cwd, Path::new(word))),
            Launch::Srun(srun) => match &srun.program {
                Program::Rank { argv } => argv.iter().for_each(|word| self.named(&case.cwd, Path::new(word))),
                Program::Torchrun { script, args, .. } => {
                    self.named(&case.cwd, script);
                    args.iter().for_each(|word| self.named(&case.cwd, Path::new(word)));
                }
            },
        }
        for fixture in &case.uses {
            let steps = [Some(&fixture.setup), fixture.teardown.as_ref()];
            let words = steps.into_iter().flatten().flat_map(|step| &step.argv);
            words.for_each(|word| self.named(&fixture.dir, Path::new(word)));
        }
    }

    /// Adds a word of a command line if it names an existing file or directory.
    fn named(&mut self, directory: &Path, word: &Path) {
        let Ok(path) = std::path::absolute(directory.join(word)) else { return };
        // `.` and `/` would include everything that the user ever writes.
        if path.is_dir() && path.starts_with(directory) && path != directory {
            self.trees.insert(path);
        } else if path.is_file() {
            if let (Some(parent), Some(extension)) = (path.parent(), path.extension()) {
                self.beside.insert((parent.to_owned(), extension.to_owned()));
            }
            self.files.insert(path);
        }
    }

    fn contains(&self, path: &Path) -> bool {
        let beside = path.parent().zip(path.extension());
        self.files.contains(path)
            || beside.is_some_and(|(parent, end)| self.beside.contains(&(parent.to_owned(), end.to_owned())))
            || self.trees.iter().filter_map(|tree| path.strip_prefix(tree).ok()).any(is_source)
    }

    /// Begins to watch; the watcher must live as long as the changes matter.
    fn watch(&self) -> notify::Result<(UnboundedReceiver<PathBuf>, RecommendedWatcher)> {
        let (sender, changes) = unbounded_channel();
        let sources = self.clone();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if is_change(&event.kind) {
                for path in event.paths.into_iter().filter(|path| sources.contains(path)) {
                    // The run that is interested may be over.
                    let _ = sender.send(path);
                }
            }
        })?;
        // Directories rather than files, because editors replace the old file with a new one.
        let directories: BTreeSet<&Path> = self.files.iter().filter_map(|file| file.parent()).collect();
        for directory in directories.into_iter().filter(|directory| directory.is_dir()) {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
        }
        for tree in self.trees.iter().filter(|tree| tree.is_dir()) {
            watcher.watch(tree, RecursiveMode::Recursive)?;
        }
        Ok((changes, watcher))
    }

    /// "4 files and 1 directory".
    fn describe(&self) -> String {
        let count = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let files = count(self.files.len(), "file", "files");
        match self.trees.len() {
            0 => files,
            trees => format!("{files} and {}", count(trees, "directory", "directories")),
        }
    }
}

/// Excludes files that programs leave behind (`__pycache__`, `.pytest_cache`), because they would start the next run.
fn is_source(path: &Path) -> bool {
    path.iter().all(|part| !part.as_encoded_bytes().starts_with(b".") && part != "__pycache__")
}

/// Excludes reads of a file, because the run itself reads it.
fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) => true,
        EventKind::Access(access) => *access == AccessKind::Close(AccessMode::Write),
        EventKind::Any | EventKind::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runner::suite;

    #[test]
    fn sources_are_what_a_case_names() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path();
        for file in ["train.py", "data/a/b.txt", "s.yaml"] {
            std::fs::create_dir_all(directory.join(file).parent().unwrap()).unwrap();
            std::fs::write(directory.join(file), "").unwrap();
        }
        let text = "ftest: 1\nsuite: s\ncases:\n- {id: a, launch: {argv: [python, train.py, data, ., /, nothing]}}\n";
        let suite = suite::parse(&directory.join("s.yaml"), text, directory).unwrap();
        let mut sources = Sources::default();
        sources.suite(&directory.join("s.yaml"));
        suite.cases.iter().for_each(|case| sources.case(case));
        assert_eq!(sources.describe(), "2 files and 1 directory");
        for (path, expected) in [
            ("s.yaml", true),
            ("train.py", true),
            ("model.py", true),
            ("notes.txt", false),
            ("other.yaml", false),
            ("data/a/new", true),
            ("data/a/__pycache__/x.pyc", false),
            ("data/.cache/x", false),
        ] {
            assert_eq!(sources.contains(&directory.join(path)), expected, "{path}");
        }
    }
}
