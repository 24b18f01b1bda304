//! The directory of runs, `.ftest/runs` by default: one directory per run, named by its id.

use super::log::{LOCK, LOG};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::log::{self, LogError};
use super::run::Run;
use crate::execute::run::scratch;
use crate::record::event::RunInfo;

/// Where runs are kept, below the working directory.
const DEFAULT: &str = ".ftest/runs";

/// The directory with the runs.
#[derive(Clone, Debug)]
pub struct Runs {
    directory: PathBuf,
    own: bool,
}

/// A run that was asked for and is not there.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No run is kept.
    #[error("no run is kept in {}; `ftest run` keeps one, `--runs-dir` sets where", .0.display())]
    None(PathBuf),
    /// None has this id.
    #[error("no run in {} is called {name}; `ftest runs` lists them", .directory.display())]
    Unknown {
        /// Where it was looked for.
        directory: PathBuf,
        /// What was asked for.
        name: String,
    },
    /// More than one has an id with this in it.
    #[error("{name} may be {}", .candidates.join(" or "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Ids that hold it.
        candidates: Vec<String>,
    },
}

impl Runs {
    /// The directory that the user named, by an option or `FTEST_RUNS_DIR`, else `.ftest/runs`.
    pub fn new(chosen: Option<&Path>) -> Runs {
        match chosen {
            Some(directory) => Runs { directory: directory.to_owned(), own: false },
            None => Runs { directory: PathBuf::from(DEFAULT), own: true },
        }
    }

    /// The directory itself.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directories of the kept runs, oldest first. None where there is no such directory.
    pub fn list(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut runs: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| path.join(LOG).is_file()).collect();
        runs.sort();
        runs
    }

    /// The directory of the run that `name` means: an id, a part of one, or a directory. Without a name, the last run
    /// that is over.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn find(&self, name: Option<&str>) -> Result<PathBuf, FindError> {
        let mut runs = self.list();
        let Some(name) = name else {
            let over = runs.iter().rposition(|run| !is_running(run)).map(|position| runs.swap_remove(position));
            return over.or_else(|| runs.pop()).ok_or_else(|| FindError::None(self.directory.clone()));
        };
        let direct = PathBuf::from(name);
        if direct.join(LOG).is_file() {
            return Ok(direct);
        }
        runs.retain(|path| id(path).contains(name));
        match runs.len() {
            0 => Err(FindError::Unknown { directory: self.directory.clone(), name: name.to_owned() }),
            1 => Ok(runs.remove(0)),
            _ => match runs.iter().position(|path| id(path) == name) {
                Some(exact) => Ok(runs.remove(exact)),
                None => Err(FindError::Ambiguous {
                    name: name.to_owned(),
                    candidates: runs.iter().map(|path| id(path)).collect(),
                }),
            },
        }
    }

    /// Makes the directory of the run `run`, and removes the oldest ones beyond `keep`, this one counted, and beyond `room`
    /// bytes, but not the one before it. A run that still writes is never removed.
    ///
    /// # Errors
    /// The directory cannot be made or written to.
    pub fn open(&self, run: &str, keep: usize, room: u64) -> io::Result<Store> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
        };
        std::fs::create_dir_all(&self.directory).map_err(at(&self.directory))?;
        if let Some(parent) = self.directory.parent().filter(|_| self.own) {
            // Runs do not belong in a repository; an existing file was put there on purpose.
            if let Ok(mut ignore) = File::create_new(parent.join(".gitignore")) {
                let _ = ignore.write_all(b"*\n");
            }
        }
        let directory = self.directory.join(run);
        std::fs::create_dir(&directory).map_err(at(&directory))?;
        let lock = File::create(directory.join(LOCK)).map_err(at(&directory))?;
        // A file system without locks: the run is kept all the same, and is the youngest for as long as it matters.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        let log = OpenOptions::new().append(true).create(true).open(directory.join(LOG)).map_err(at(&directory))?;
        self.prune(keep, room);
        Ok(Store { directory, log: Some(log), _lock: lock })
    }

    fn prune(&self, keep: usize, room: u64) {
        let mut used = 0;
        for (age, run) in self.list().iter().rev().enumerate() {
            // The youngest is this one, which has room of its own.
            used += if age == 0 { 0 } else { size(run) };
            if (age >= keep.max(1) || age > 1 && used > room) && !is_running(run) {
                scratch::remove(run);
            }
        }
    }
}

/// Bytes of the files below `directory`.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

/// The id of the run in this directory: the directory's name.
pub fn id(directory: &Path) -> String {
    directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether a run still writes to this directory.
pub fn is_running(directory: &Path) -> bool {
    let Ok(lock) = File::open(directory.join(LOCK)) else { return false };
    // Shared: two that look at once must not take each other for the run.
    flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
}

/// The run in this directory, as far as its log goes.
///
/// # Errors
/// The log cannot be read, is empty, or a later ftest wrote it.
pub fn read(directory: &Path) -> Result<Run, LogError> {
    let mut run = Run::in_directory(directory);
    let path = directory.join(LOG);
    for event in log::events(&path)? {
        run.apply(&event?);
    }
    if run.info == RunInfo::default() { Err(LogError::Empty { path }) } else { Ok(run) }
}

/// The directory of a run that goes on.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// Until it could not be written.
    log: Option<File>,
    /// Held for its lock: files are put here also where the log was given up.
    _lock: File,
}

impl Store {
    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Appends a line, in one write. Nothing where the log was given up.
    ///
    /// # Errors
    /// It cannot be written; the log may end in a part of it.
    pub fn append(&mut self, mut line: String) -> io::Result<()> {
        line.push('\n');
        self.log.as_mut().map_or(Ok(()), |log| log.write_all(line.as_bytes()))
    }

    /// The log ends here. The directory stays this run's.
    pub fn give_up_log(&mut self) {
        self.log = None;
    }

    /// The same directory on a disk without room for its log.
    #[cfg(test)]
    pub(super) fn without_room(mut self) -> Store {
        self.log = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(directory: &Path) -> Runs {
        Runs::new(Some(directory))
    }

    #[test]
    fn the_last_runs_are_kept_and_a_running_one_always() {
        let directory = tempfile::tempdir().unwrap();
        let runs = runs(&directory.path().join("deep/runs"));
        let first = runs.open("1-a", 2, u64::MAX).unwrap();
        drop(runs.open("2-b", 2, u64::MAX).unwrap());
        drop(runs.open("3-c", 2, u64::MAX).unwrap());
        let ids = || runs.list().iter().map(|path| id(path)).collect::<Vec<_>>();
        assert!(is_running(first.directory()));
        assert_eq!(ids(), ["1-a", "2-b", "3-c"]);
        let path = first.directory().to_owned();
        drop(first);
        let another_looks = File::open(path.join(LOCK)).unwrap();
        flock(&another_looks, FlockOperation::NonBlockingLockShared).unwrap();
        assert!(!is_running(&path));
        drop(runs.open("4-d", 2, u64::MAX).unwrap());
        assert_eq!(ids(), ["3-c", "4-d"]);
        assert!(runs.open("4-d", 2, u64::MAX).is_err());
    }

    #[test]
    fn the_oldest_go_when_they_are_too_large_together() {
        let directory = tempfile::tempdir().unwrap();
        let runs = runs(directory.path());
        let add = |run: &str, room: u64| {
            let store = runs.open(run, 9, room).unwrap();
            std::fs::create_dir(store.directory().join("s")).unwrap();
            std::fs::write(store.directory().join("s/file"), [0; 100]).unwrap();
            drop(store);
            runs.list().iter().map(|path| id(path)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(add("1", 200), "1");
        assert_eq!(add("2", 200), "1 2");
        assert_eq!(add("3", 200), "1 2 3");
        assert_eq!(add("4", 200), "2 3 4");
        // The one before stays, for `--failed` and comparisons.
        assert_eq!(add("5", 50), "4 5");
    }

    #[test]
    fn a_run_is_found_by_a_part_of_its_id() {
        let directory = tempfile::tempdir().unwrap();
        let runs = runs(directory.path());
        assert!(matches!(runs.find(None), Err(FindError::None(_))));
        drop(runs.open("1-a", 9, u64::MAX).unwrap());
        drop(runs.open("1-ab", 9, u64::MAX).unwrap());
        let running = runs.open("2-c", 9, u64::MAX).unwrap();
        assert_eq!(id(&runs.find(None).unwrap()), "1-ab");
        drop(running);
        assert_eq!(id(&runs.find(None).unwrap()), "2-c");
        assert_eq!(id(&runs.find(Some("b")).unwrap()), "1-ab");
        assert_eq!(id(&runs.find(Some("1-a")).unwrap()), "1-a");
        assert_eq!(runs.find(Some("1")).unwrap_err().to_string(), "1 may be 1-a or 1-ab");
        assert!(matches!(runs.find(Some("x")), Err(FindError::Unknown { .. })));
        assert_eq!(id(&runs.find(directory.path().join("1-a").to_str()).unwrap()), "1-a");
    }
}
