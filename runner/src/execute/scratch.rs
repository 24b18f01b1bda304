//! The directory of a run and of each of its cases: short enough for sockets, removed when nobody needs it.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::cookie::random_word;

/// A longer temporary directory leaves no room for the socket names below it.
const LONGEST: usize = 64;
/// What the names of run directories begin with.
const PREFIX: &str = "ft-";
/// A file in a run's directory that the run holds locked: a lock that can be had tells that its run is gone, also from
/// another container.
const OWNER: &str = "owner";

/// The directory of a run that lives.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Held for its lock.
    _owner: File,
}

impl RunDirectory {
    /// Makes the directory of a run, for the user alone, below TMPDIR or, where that is too long, `/tmp`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make() -> io::Result<RunDirectory> {
        let parent = parent()?;
        loop {
            let path = parent.join(format!("{PREFIX}{}", &random_word()[..8]));
            let failed =
                |error: io::Error| io::Error::new(error.kind(), format!("cannot make {}: {error}", path.display()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let owner = own(&path).map_err(failed)?;
                    return Ok(RunDirectory { path, _owner: owner });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, unless something was left in it: that is then nobody's to clean up.
    pub fn leave(&self) {
        let _ = std::fs::remove_file(self.path.join(OWNER));
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Locked before it has its name: nobody finds it without its lock.
fn own(directory: &Path) -> io::Result<File> {
    let unnamed = directory.join(format!(".{OWNER}"));
    let mut owner = File::create(&unnamed)?;
    let _ = writeln!(owner, "{}", std::process::id());
    // Without locks nobody can take it for stale either.
    let _ = flock(&owner, FlockOperation::NonBlockingLockExclusive);
    std::fs::rename(unnamed, directory.join(OWNER))?;
    Ok(owner)
}

/// Removes the directories of this user's runs that ended without doing so: killed together with their guard.
pub fn remove_stale() {
    let Ok(parent) = parent() else { return };
    let user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let mine = entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user);
        let Some(owner) = mine.then(|| File::open(entry.path().join(OWNER)).ok()).flatten() else { continue };
        if flock(&owner, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&entry.path());
        }
    }
}

/// Where run directories are.
fn parent() -> io::Result<PathBuf> {
    let chosen = std::path::absolute(std::env::temp_dir())?;
    Ok(if chosen.as_os_str().len() <= LONGEST { chosen } else { PathBuf::from("/tmp") })
}

/// Removes a directory with everything in it, also where a program took away its own write permission.
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
}
