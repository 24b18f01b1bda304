//! Where a device report goes, and how it is written: whole or not at all.

use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use protocol::device_report::{DeviceReport, Measured, UNWRITTEN};

use crate::process::rank;

/// What a report says of the process that writes it.
pub fn measured() -> Measured {
    Measured {
        pid: process::id(),
        rank: rank(),
        program: env::current_exe().map(|path| path.display().to_string()).unwrap_or_default(),
    }
}

/// The file that marks the report at `path` as not written.
pub fn unwritten(path: &Path) -> PathBuf {
    let mut marker = path.as_os_str().to_owned();
    marker.push(UNWRITTEN);
    PathBuf::from(marker)
}

/// The path of a report with `{pid}` and `{rank}` replaced; the rank of a process without one is `none`.
pub fn place(path: &str, pid: u32, rank: Option<u32>) -> PathBuf {
    let rank = rank.map_or_else(|| "none".to_owned(), |rank| rank.to_string());
    PathBuf::from(path.replace("{pid}", &pid.to_string()).replace("{rank}", &rank))
}

/// Writes the report beside its place and moves it there, so that a reader never sees half of it.
///
/// # Errors
/// The error of the operating system; a marker is left in the report's place where there can be one.
pub fn save(path: &Path, report: &DeviceReport) -> io::Result<()> {
    whole(path, &report.text()?).inspect_err(|_| {
        // A full disk still takes a name. A reader of the reports must not take a missing one for a process without gaps.
        let _ = fs::rename(beside(path), unwritten(path));
    })
}

/// Writes a file, and its directory if there is none, beside its place and moves it there.
///
/// # Errors
/// The error of the operating system.
pub fn whole(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    // A device or pipe (`/dev/null`) is written to; a rename would put a file in its place.
    if fs::metadata(path).is_ok_and(|target| !target.is_file()) {
        return fs::write(path, text);
    }
    fs::write(beside(path), text).and_then(|()| fs::rename(beside(path), path))
}

/// Where this process writes what will be at `path`.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", process::id()));
    PathBuf::from(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_has_pid_and_rank_in_it() {
        assert_eq!(place("/r/{rank}-{pid}.json", 7, Some(3)), Path::new("/r/3-7.json"));
        assert_eq!(place("{rank}.json", 7, None), Path::new("none.json"));
    }
}
