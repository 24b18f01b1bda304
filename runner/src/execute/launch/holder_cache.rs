//! The directory of soname holders for one library of ours and one wheel, and of the programs that replace NVIDIA's: made once,
//! kept in the user's cache.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use xxhash_rust::xxh64::Xxh64;

use crate::execute::launch::holders;
use crate::host::cache_directory::{CACHE_ADVICE, cache_directory};
use crate::host::{machine, plain_path};

/// Subdirectory of a holder directory for programs that replace NVIDIA's.
pub const PROGRAMS: &str = "bin";
/// The assembler, which is installed where `fakegpu-smi` is.
const ASSEMBLER: &str = "fakegpu-ptxas";
/// The file that marks a complete directory.
const COMPLETE: &str = ".complete";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The holders for `shim` and, if given, a wheel's `torch/lib`; `smi` is linked as `bin/nvidia-smi`, and the assembler beside it as
/// `bin/ptxas`.
///
/// # Errors
/// One sentence: what could not be read or written.
pub fn directory(shim: &Path, torch_libraries: Option<&Path>, smi: Option<&Path>) -> Result<PathBuf, String> {
    directory_in(&cache_directory()?, shim, torch_libraries, smi)
}

/// The holder of libnvidia-ml for the library of mode `hybrid`, and `bin/nvidia-smi`.
///
/// # Errors
/// As for [`directory`].
pub fn of_nvml(library: &Path, smi: Option<&Path>) -> Result<PathBuf, String> {
    let programs: Vec<_> = smi.map(|smi| ("nvidia-smi", smi.to_owned())).into_iter().collect();
    let library = &loaded_from(library)?;
    made(&cache_directory()?, [Some(library), None], &programs, |directory| holders::write_nvml(directory, library))
}

fn directory_in(
    cache: &Path,
    shim: &Path,
    torch_libraries: Option<&Path>,
    smi: Option<&Path>,
) -> Result<PathBuf, String> {
    let shim = &loaded_from(shim)?;
    let write = |directory: &Path| holders::write(directory, shim, torch_libraries);
    let mut programs = Vec::new();
    if let Some(smi) = smi {
        programs.push(("nvidia-smi", smi.to_owned()));
        programs.push(("ptxas", smi.with_file_name(ASSEMBLER)));
    }
    made(cache, [Some(shim), torch_libraries], &programs, write)
}

/// Where the holders find the library: links in its path are followed, unless that is no path for the loader.
fn loaded_from(library: &Path) -> Result<PathBuf, String> {
    let file = std::fs::canonicalize(library).map_err(|error| holders::with_path(library, error).to_string())?;
    plain_path::for_loader(&file)
}

/// The directory for these parts, which `write` fills if it does not exist, with links to programs by their names there.
fn made(
    cache: &Path,
    parts: [Option<&Path>; 2],
    programs: &[(&str, PathBuf)],
    write: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<PathBuf, String> {
    let mut key = Xxh64::new(0);
    // A holder depends on the library by path: another build at the same path could keep its holders, unless this program,
    // which writes them, changed. So the stamps of both count.
    let parts = parts.map(|path| path.map(Path::to_owned));
    let programs_of = programs.iter().map(|(_, path)| Some(path.clone()));
    for path in parts.into_iter().chain(programs_of).chain([std::env::current_exe().ok()]) {
        path.hash(&mut key);
        let stamp =
            path.and_then(|path| path.metadata().ok()).map(|meta| (meta.mtime(), meta.mtime_nsec(), meta.ino()));
        stamp.hash(&mut key);
    }
    let directory = cache.join("holders").join(format!("{:016x}", key.finish()));
    let complete = directory.join(COMPLETE);
    if complete.exists() {
        mark_used(&complete);
        return plain_path::for_loader(&directory);
    }
    write(&directory)
        .and_then(|()| programs.iter().try_for_each(|(name, path)| link(&directory.join(PROGRAMS), name, path)))
        .and_then(|()| std::fs::write(&complete, "").map_err(|error| holders::with_path(&complete, error)))
        .map_err(|error| format!("cannot write soname holders: {}; {CACHE_ADVICE}", machine::explained(&error)))?;
    remove_unused(&cache.join("holders"));
    plain_path::for_loader(&directory)
}

/// Marks a directory as used now, once a day.
fn mark_used(complete: &Path) {
    if is_older(complete, DAY)
        && let Ok(file) = File::options().write(true).open(complete)
    {
        // A directory that cannot be marked is recreated in a month.
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Removes directories that nothing has used for a month: every build of ftest, and every environment, creates one.
fn remove_unused(holders: &Path) {
    for entry in std::fs::read_dir(holders).into_iter().flatten().flatten() {
        let (directory, complete) = (entry.path(), entry.path().join(COMPLETE));
        // A directory without the mark is being written, or was not finished.
        let dated = if complete.exists() { complete } else { directory.clone() };
        if is_older(&dated, 30 * DAY) {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

fn is_older(path: &Path, age: Duration) -> bool {
    let modified = path.metadata().and_then(|meta| meta.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|elapsed| elapsed > age))
}

/// Links `directory/name` to `program` atomically, because several processes may do it at once.
fn link(directory: &Path, name: &str, program: &Path) -> std::io::Result<()> {
    let named = |error| holders::with_path(directory, error);
    std::fs::create_dir_all(directory).map_err(named)?;
    let fresh = tempfile::tempdir_in(directory).map_err(named)?;
    let link = fresh.path().join(name);
    std::os::unix::fs::symlink(program, &link).map_err(named)?;
    std::fs::rename(&link, directory.join(name)).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_this_month_stays() {
        let holders = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let complete = holders.path().join(name).join(COMPLETE);
            std::fs::create_dir(complete.parent().unwrap()).unwrap();
            File::create(&complete).unwrap().set_modified(SystemTime::now() - age).unwrap();
            complete
        };
        let [today, this_month, before, used] =
            [("today", DAY / 2), ("month", 29 * DAY), ("before", 31 * DAY), ("used", 31 * DAY)]
                .map(|(name, age)| make(name, age));
        let unfinished = holders.path().join("unfinished");
        std::fs::create_dir(&unfinished).unwrap();
        mark_used(&used);
        remove_unused(holders.path());
        assert!(today.exists() && this_month.exists() && used.exists() && unfinished.exists());
        assert!(!before.parent().unwrap().exists());
    }
}
