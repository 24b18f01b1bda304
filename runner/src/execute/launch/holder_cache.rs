//! The directory of soname holders for one shim and one wheel, and of `nvidia-smi`: made once, kept in the user's cache.

use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh64::Xxh64;

use crate::execute::launch::environment::{CACHE_ADVICE, cache_directory};
use crate::execute::launch::holders;
use crate::host::machine;

/// Where programs are that stand in for NVIDIA's, below a directory of holders.
pub const PROGRAMS: &str = "bin";

/// The holders for `shim` and, where there is one, a wheel's `torch/lib`; `smi` is there as `bin/nvidia-smi`.
///
/// # Errors
/// One sentence: what could not be read or written.
pub fn directory(shim: &Path, torch_libraries: Option<&Path>, smi: Option<&Path>) -> Result<PathBuf, String> {
    directory_in(&cache_directory()?, shim, torch_libraries, smi)
}

fn directory_in(
    cache: &Path,
    shim: &Path,
    torch_libraries: Option<&Path>,
    smi: Option<&Path>,
) -> Result<PathBuf, String> {
    let mut key = Xxh64::new(0);
    // A holder needs the shim by its path: another build at the same place keeps its holders unless this program,
    // which writes them, changed. So the stamp of both counts.
    let parts = [Some(shim), torch_libraries, smi].map(|path| path.map(Path::to_owned));
    for path in parts.into_iter().chain([std::env::current_exe().ok()]) {
        path.hash(&mut key);
        let stamp =
            path.and_then(|path| path.metadata().ok()).map(|meta| (meta.mtime(), meta.mtime_nsec(), meta.ino()));
        stamp.hash(&mut key);
    }
    let directory = cache.join("holders").join(format!("{:016x}", key.finish()));
    let complete = directory.join(".complete");
    if complete.exists() {
        return Ok(directory);
    }
    holders::write(&directory, shim, torch_libraries)
        .and_then(|()| smi.map_or(Ok(()), |smi| link(&directory.join(PROGRAMS), smi)))
        .and_then(|()| std::fs::write(&complete, "").map_err(|error| holders::at(&complete, error)))
        .map_err(|error| format!("cannot write soname holders: {}; {CACHE_ADVICE}", machine::explained(&error)))?;
    Ok(directory)
}

/// `directory/nvidia-smi` for `program`, in one step: several processes may do it at once.
fn link(directory: &Path, program: &Path) -> std::io::Result<()> {
    let named = |error| holders::at(directory, error);
    std::fs::create_dir_all(directory).map_err(named)?;
    let fresh = tempfile::tempdir_in(directory).map_err(named)?;
    let link = fresh.path().join("nvidia-smi");
    std::os::unix::fs::symlink(program, &link).map_err(named)?;
    std::fs::rename(&link, directory.join("nvidia-smi")).map_err(named)
}
