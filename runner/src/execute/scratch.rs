//! The directory of a run and of each of its cases: short enough for sockets, removed when nobody needs it.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::cookie::random_word;

/// A longer temporary directory leaves no room for the socket names below it.
const LONGEST: usize = 64;

/// Makes the directory of a run, for the user alone, below TMPDIR or, where that is too long, `/tmp`.
///
/// # Errors
/// When it cannot be made.
pub fn run_directory() -> io::Result<PathBuf> {
    let chosen = std::path::absolute(std::env::temp_dir())?;
    let parent = if chosen.as_os_str().len() <= LONGEST { chosen } else { PathBuf::from("/tmp") };
    loop {
        let directory = parent.join(format!("ft-{}", &random_word()[..8]));
        match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("cannot make {}: {error}", directory.display())));
            }
        }
    }
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
