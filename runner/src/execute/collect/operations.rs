//! The operations that the processes of a case leave behind under the modeled clock.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::operations::FILE_PREFIX;

/// The directory of the files, within the scratch directory and among the kept files of an attempt.
pub const DIRECTORY: &str = "operations";

/// Value of `FTEST_OPERATIONS` for the processes of a case.
pub fn directory(scratch: &Path) -> PathBuf {
    scratch.join(DIRECTORY)
}

/// Names, sizes and open files in the scratch directory, by name.
pub fn files(scratch: &Path) -> Vec<(String, u64, Arc<File>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory(scratch)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(file) = File::open(entry.path()) else { continue };
        // One that is not whole has another ending.
        if name.starts_with(FILE_PREFIX) && name.ends_with(".json") {
            files.push((name, file.metadata().map_or(0, |metadata| metadata.len()), Arc::new(file)));
        }
    }
    files.sort_by(|one, other| one.0.cmp(&other.0));
    files
}
