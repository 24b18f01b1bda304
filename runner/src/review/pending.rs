//! A pending snapshot, to be accepted or rejected.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::check::snapshot_file;
use crate::check::snapshot_file::SnapshotFile;
use crate::source::SourceLocation;

/// A pending snapshot.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Where it goes.
    pub file: SnapshotFile,
    /// Where the suite defines the check.
    pub place: SourceLocation,
    /// Where it is; beside the accepted one unless it came from an artifact.
    pub found: PathBuf,
    /// Its text.
    pub text: String,
    /// The accepted text, if there is one.
    pub accepted: Option<String>,
}

/// A file that looks like a pending snapshot but cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The file.
    pub found: PathBuf,
    /// Why.
    pub why: String,
}

impl Pending {
    /// The pending snapshot in `found`, which belongs to `file`.
    ///
    /// # Errors
    /// It, or the accepted one, cannot be read.
    pub(super) fn read(file: SnapshotFile, place: SourceLocation, found: PathBuf) -> io::Result<Pending> {
        let text = snapshot_file::read(&found)?;
        let accepted = match snapshot_file::read(&file.path) {
            Ok(accepted) => Some(accepted),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Pending { file, place, found, text, accepted })
    }

    /// `ddp/train[world=4] report`.
    pub fn name(&self) -> &str {
        &self.file.expression
    }

    /// Whether it is the same as the accepted one.
    pub(super) fn is_accepted(&self) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| accepted.trim_end() == self.text.trim_end())
    }

    /// Makes it the accepted one. An artifact is not changed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn accept(&self) -> io::Result<()> {
        self.file.accept(&self.text)
    }

    /// Removes it. The accepted one stays.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn reject(&self) -> io::Result<()> {
        fs::remove_file(&self.found)
    }
}
