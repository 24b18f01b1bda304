//! The directories of a run and of each of its cases: short enough for socket paths, removed when no longer needed.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::execute::process_tree::cookie::random_word;
use crate::host::{machine, plain_path, variable};

/// Maximum length of the temporary directory: a longer one leaves no room for the socket names below it.
const LONGEST: usize = 64;
/// The name prefix of run directories; [`WORD`] hexadecimal digits follow.
const PREFIX: &str = "ft-";
/// Digits in the name of a run directory.
const WORD: usize = 8;
/// A file in a run's directory that the run keeps locked. A free lock means that the run is gone, even one in another
/// container.
const OWNER: &str = "owner";
/// The same file before it gets its name.
const UNNAMED: &str = ".owner";

/// The directory of a live run.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Held to keep its lock.
    _owner: File,
}

impl RunDirectory {
    /// Makes the directory of a run, accessible only to the user, below TMPDIR. It is reached through a link if that is too
    /// long, or separates paths.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make() -> io::Result<RunDirectory> {
        RunDirectory::make_in(&parent()?)
    }

    fn make_in(parent: &Path) -> io::Result<RunDirectory> {
        loop {
            let path = parent.join(format!("{PREFIX}{}", &random_word()[..WORD]));
            let failed = |error: io::Error| {
                let explained = machine::explained(&error);
                let advice = "set TMPDIR to a directory that can be written";
                io::Error::new(error.kind(), format!("cannot make {}: {explained}; {advice}", path.display()))
            };
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => match own(&path) {
                    Ok(owner) => return Ok(RunDirectory { path, _owner: owner }),
                    // Another run that was just cleaning up mistook it for one whose maker had died at this point.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && parent.is_dir() => {}
                    Err(error) => return Err(failed(error)),
                },
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, unless something is kept in it.
    pub fn leave(&self) {
        let _ = std::fs::remove_file(self.path.join(OWNER));
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Locks the file before it gets its name, so that it is never visible unlocked.
fn own(directory: &Path) -> io::Result<File> {
    let unnamed = directory.join(UNNAMED);
    let mut owner = File::create(&unnamed)?;
    let _ = writeln!(owner, "{}", std::process::id());
    let lock = flock(&owner, FlockOperation::NonBlockingLockExclusive);
    // Then a cleanup holds it and is about to remove it. On a file system without locks, it is never considered stale.
    if lock == Err(rustix::io::Errno::WOULDBLOCK) {
        return Err(io::ErrorKind::NotFound.into());
    }
    std::fs::rename(unnamed, directory.join(OWNER))?;
    Ok(owner)
}

/// Removes the directories of this user's runs that were killed together with their guard.
pub fn remove_stale() {
    if let Ok(parent) = parent() {
        remove_stale_in(&parent);
    }
}

fn remove_stale_in(parent: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let mine = entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user);
        if !mine || !is_name(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let directory = entry.path();
        let locked = |name: &str| {
            let file = File::open(directory.join(name)).ok()?;
            flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
        };
        match File::open(directory.join(OWNER)) {
            Ok(_) => drop(locked(OWNER).inspect(|_| remove(&directory))),
            // Without an owner, it holds what a case left on purpose, or its maker is between its first two steps or died
            // there. So only an empty one is removed; a live maker notices and makes another.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                drop(locked(UNNAMED).inspect(|_| drop(std::fs::remove_file(directory.join(UNNAMED)))));
                let _ = std::fs::remove_dir(&directory);
            }
            Err(_) => {}
        }
    }
}

/// Whether this is a valid name for a run directory.
fn is_name(name: &str) -> bool {
    let word = name.strip_prefix(PREFIX);
    word.is_some_and(|word| word.len() == WORD && word.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Where run directories are.
fn parent() -> io::Result<PathBuf> {
    let chosen = std::path::absolute(variable::get("TMPDIR").unwrap_or_else(|| "/tmp".into()))?;
    plain_path::short(&chosen, LONGEST).map_err(io::Error::other)
}

/// Removes a directory with everything in it, even if a program removed its own write permission.
pub fn remove(directory: &Path) {
    if std::fs::remove_dir_all(directory).is_err() {
        open_up(directory);
        let _ = std::fs::remove_dir_all(directory);
    }
}

fn open_up(directory: &Path) {
    let _ = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_runs_that_are_gone_are_stale() {
        let living = RunDirectory::make().unwrap();
        let gone = RunDirectory::make().unwrap();
        let kept = RunDirectory::make().unwrap();
        std::fs::write(kept.path().join("case"), "").unwrap();
        let (gone_path, kept_path) = (gone.path().to_owned(), kept.path().to_owned());
        drop(gone);
        kept.leave();
        drop(kept);
        remove_stale();
        assert!(living.path().exists() && kept_path.exists() && !gone_path.exists());
        living.leave();
        assert!(!living.path().exists());
        remove(&kept_path);
    }

    #[test]
    fn a_death_between_the_directory_and_its_owner_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, file: Option<&str>| {
            let directory = parent.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            if let Some(file) = file {
                std::fs::write(directory.join(file), "").unwrap();
            }
            directory
        };
        // Killed before the file, before its lock, before its name, and after the name was removed again.
        let dead = [make("ft-00000000", None), make("ft-00000001", Some(UNNAMED)), make("ft-00000002", None)];
        let kept = make("ft-00000003", Some("case"));
        let foreign = [make("ft-mine", None), make("ft-000000000", None), make("ft", None)];
        let held = File::create(make("ft-00000004", None).join(UNNAMED)).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        remove_stale_in(parent.path());
        assert!(dead.iter().all(|directory| !directory.exists()), "{dead:?}");
        assert!(kept.join("case").exists() && foreign.iter().all(|directory| directory.exists()));
        assert!(parent.path().join("ft-00000004").join(UNNAMED).exists(), "its maker lives");
    }

    #[test]
    fn a_directory_that_is_just_being_made_survives_a_cleanup() {
        let parent = tempfile::tempdir().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        remove_stale_in(parent.path());
                    }
                });
            }
            let lost = (0..3000).find(|_| {
                let run = RunDirectory::make_in(parent.path()).unwrap();
                let lost = !run.path().join(OWNER).exists();
                run.leave();
                lost
            });
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(lost, None, "a living run lost its directory");
        });
        remove_stale_in(parent.path());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
