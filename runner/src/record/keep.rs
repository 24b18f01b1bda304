//! How much is kept of a run: fair parts of a limit, both ends of output that is too long, and no other file that is too large.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::host::{variable, whole_file};
use crate::suite::quantity;

/// Bytes of all kept runs, unless the user says otherwise.
const DEFAULT: u64 = 1 << 30;
/// One run has at most one part in this many of them.
const RUNS: u64 = 4;
/// An attempt has at most one part in this many of what is left for output, so that each of hundreds has some;
const OUTPUTS: u64 = 32;
/// and of what is left for other files, of which there are few.
const OTHERS: u64 = 4;

/// The limit of all kept runs, bytes: the option's, the variable's, or the default.
///
/// # Errors
/// A message about the variable.
pub fn size(option: Option<u64>) -> Result<u64, String> {
    let variable = protocol::env::KEEP_SIZE;
    match (option, variable::get(variable.name)) {
        (Some(size), _) => Ok(size),
        (None, None) => Ok(DEFAULT),
        (None, Some(text)) => {
            let text = text.to_string_lossy();
            parse(&text).map_err(|_| variable.bad(&text).to_string())
        }
    }
}

/// A limit as it is written.
///
/// # Errors
/// What to write instead.
pub fn parse(text: &str) -> Result<u64, String> {
    let size = quantity::size(text).filter(|size| *size >= 1 << 20);
    size.ok_or_else(|| "write a size of at least 1MiB, like 500MiB or 2GiB".to_owned())
}

/// What is left of the limit of one run.
#[derive(Clone, Debug)]
pub struct Room {
    outputs: Arc<AtomicU64>,
    others: Arc<AtomicU64>,
    whole: u64,
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Whole,
    /// Both ends of it, this many bytes.
    Ends(u64),
    Gone,
}

/// What is not kept, or not all of it, with its size before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortened {
    /// Output of which both ends are to be kept, and how many bytes of it.
    pub ends: Vec<(PathBuf, u64, u64)>,
    /// Files that are left out.
    pub gone: Vec<(PathBuf, u64)>,
}

impl Room {
    /// The room of a run, when all of its files may have `size` bytes.
    pub fn of_run(size: u64) -> Room {
        let run = size / RUNS;
        // A quarter is for the log, which has both ends of all output.
        let half = || Arc::new(AtomicU64::new((run - Room::log(size)) / 2));
        Room { outputs: half(), others: half(), whole: size }
    }

    /// Bytes of the texts in its log.
    pub fn log(size: u64) -> u64 {
        size / RUNS / 4
    }

    /// Bytes of all runs before it.
    pub fn before(size: u64) -> u64 {
        size - size / RUNS
    }

    /// The limit of all runs, bytes.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Decides what is kept of these files of one attempt, and takes its room.
    pub fn take(&self, files: &[(u64, PathBuf)]) -> Shortened {
        let (outputs, others): (Vec<_>, Vec<_>) = files.iter().partition(|(_, path)| is_output(path));
        let mut shortened = Shortened::default();
        for (files, pool, part) in [(outputs, &self.outputs, OUTPUTS), (others, &self.others, OTHERS)] {
            let room = pool.load(Ordering::Relaxed) / part;
            let mut used = 0;
            for ((bytes, path), fate) in files.iter().zip(fates(&files, room)) {
                match fate {
                    Fate::Whole => used += bytes,
                    Fate::Ends(kept) => {
                        used += kept;
                        shortened.ends.push((path.clone(), *bytes, kept));
                    }
                    Fate::Gone => shortened.gone.push((path.clone(), *bytes)),
                }
            }
            let _ = pool.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(used)));
        }
        shortened
    }
}

/// Whether it is a file of a process's output, by its name.
fn is_output(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "stdout" || ending == "stderr")
}

/// What becomes of each of these files, the smallest first, within `room`: what small ones do not need is for the others.
fn fates(files: &[&(u64, PathBuf)], mut room: u64) -> Vec<Fate> {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|index| files[*index].0);
    let mut fates = vec![Fate::Gone; files.len()];
    for (at, index) in order.into_iter().enumerate() {
        let (bytes, path) = files[index];
        let each = room / (files.len() - at) as u64;
        fates[index] = match *bytes <= each {
            true => Fate::Whole,
            false if is_output(path) => Fate::Ends(each),
            false => continue,
        };
        room -= each.min(*bytes);
    }
    fates
}

/// Replaces the file by both its ends, `kept` bytes, and a line between them.
///
/// # Errors
/// It cannot be read or written; it stays as it was.
pub fn cut(path: &Path, kept: u64) -> io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let half = kept / 2;
    let Some(left_out) = length.checked_sub(half * 2).filter(|left_out| *left_out > 0) else { return Ok(()) };
    let mut text = Vec::new();
    Read::by_ref(&mut file).take(half).read_to_end(&mut text)?;
    write!(
        text,
        "\n[... {left_out} bytes are left out here: {} is the limit of kept runs ...]\n",
        protocol::env::KEEP_SIZE.name
    )?;
    file.seek(SeekFrom::Start(length - half))?;
    file.read_to_end(&mut text)?;
    whole_file::replace(path, &[&text])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(sizes: &[(u64, &str)]) -> Vec<(u64, PathBuf)> {
        sizes.iter().map(|(bytes, path)| (*bytes, PathBuf::from(path))).collect()
    }

    #[test]
    fn small_files_stay_and_long_output_keeps_its_ends() {
        let all =
            files(&[(10, "a.stdout"), (9000, "b.stdout"), (8000, "c.stderr"), (700, "x"), (20, "y"), (90_000, "core")]);
        let all: Vec<_> = all.iter().collect();
        assert!(fates(&all, 200_000).iter().all(|fate| *fate == Fate::Whole));
        // Six share 3000: 10 < 500, 20 < 598 and 700 < 742 are whole, and of the 2270 left each gets a third.
        assert_eq!(
            fates(&all, 3000),
            [Fate::Whole, Fate::Ends(757), Fate::Ends(756), Fate::Whole, Fate::Whole, Fate::Gone]
        );
    }

    #[test]
    fn a_run_never_has_more_than_its_part_however_many_fail() {
        let size = 64 << 20;
        let room = Room::of_run(size);
        let attempt = files(&[(1_300_000, "rank-0.stdout"), (1_300_000, "rank-1.stdout"), (5_000_000, "shared/core")]);
        let (mut kept, mut least) = (0, u64::MAX);
        for _ in 0..100 {
            let shortened = room.take(&attempt);
            let gone: u64 = shortened.gone.iter().map(|(_, bytes)| bytes).sum();
            let cut: u64 = shortened.ends.iter().map(|(_, bytes, kept)| bytes - kept).sum();
            kept += 7_600_000 - gone - cut;
            least = least.min(7_600_000 - gone - cut);
        }
        assert!(kept < size / 4 - Room::log(size), "{kept}");
        assert!(least > 8_000, "{least}");
        assert_eq!(Room::before(size) + size / 4, size);
    }

    #[test]
    fn both_ends_of_a_file_are_kept_with_a_line_between_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("first{}last!", "-".repeat(100))).unwrap();
        cut(file.path(), 10).unwrap();
        assert_eq!(
            std::fs::read_to_string(file.path()).unwrap(),
            "first\n[... 100 bytes are left out here: FTEST_KEEP_SIZE is the limit of kept runs ...]\nlast!"
        );
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert!(parse("10KiB").is_err() && parse("5").is_err());
    }
}
