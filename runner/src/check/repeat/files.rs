//! Compares byte by byte the files that two runs left in the directory shared by their processes (FTEST_SCRATCH).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::check::gap::glob;
use crate::observation::{Observation, SHARED};

/// Files that always contain a random number: the index of a `torch.distributed.checkpoint` checkpoint, which holds the id of the
/// save.
const RANDOM: [&str; 1] = [".metadata"];

/// Bytes that are compared at a time.
const PIECE: usize = 1 << 16;

/// The type of a directory entry.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    File,
    Link(PathBuf),
    /// A socket, a pipe or a device.
    Special,
}

/// Files that exist in only one run, or that differ.
pub(super) fn differences(except: &[String], first: &Observation, second: &Observation) -> Vec<String> {
    between(except, &first.scratch.join(SHARED), &second.scratch.join(SHARED))
}

fn between(except: &[String], first: &Path, second: &Path) -> Vec<String> {
    let (before, after) = match (listed(except, first), listed(except, second)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(error), _) | (_, Err(error)) => return vec![format!("the files cannot be listed: {error}")],
    };
    let mut differences = Vec::new();
    for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
        let difference = match (before.get(name), after.get(name)) {
            (Some(_), None) => Some("only in the first run".to_owned()),
            (None, _) => Some("only in the second run".to_owned()),
            (Some(Entry::File), Some(Entry::File)) => contents(&first.join(name), &second.join(name))
                .unwrap_or_else(|error| Some(format!("cannot be read: {error}"))),
            (Some(was), Some(is)) => (was != is).then(|| "is something else in the second run".to_owned()),
        };
        differences.extend(difference.map(|difference| format!("{name}: {difference}")));
    }
    differences
}

/// Everything below `root` except directories, keyed by relative path.
fn listed(except: &[String], root: &Path) -> io::Result<BTreeMap<String, Entry>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let entries = match fs::read_dir(&directory) {
            // A case whose processes never got an environment has none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name().to_string_lossy().into_owned();
            let from_root = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if RANDOM.contains(&name.as_str()) || except.iter().any(|one| glob(one, &name) || glob(one, &from_root)) {
                continue;
            }
            if kind.is_dir() {
                open.push(path);
                continue;
            }
            let entry = if kind.is_file() {
                Entry::File
            } else if kind.is_symlink() {
                let target = fs::read_link(&path)?;
                // A link within the directory is the same in both runs.
                Entry::Link(target.strip_prefix(root).map_or(target.clone(), Path::to_owned))
            } else {
                Entry::Special
            };
            found.insert(from_root, entry);
        }
    }
    Ok(found)
}

/// How two files differ.
fn contents(first: &Path, second: &Path) -> io::Result<Option<String>> {
    let (before, after) = (File::open(first)?, File::open(second)?);
    let (was, is) = (before.metadata()?.len(), after.metadata()?.len());
    if was != is {
        return Ok(Some(format!("{was} bytes, then {is}")));
    }
    let (mut before, mut after) = (BufReader::new(before), BufReader::new(after));
    let (mut one, mut other) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = 0;
    while at < was {
        let piece = (was - at).min(PIECE as u64) as usize;
        before.read_exact(&mut one[..piece])?;
        after.read_exact(&mut other[..piece])?;
        if let Some(byte) = one[..piece].iter().zip(&other[..piece]).position(|(one, other)| one != other) {
            return Ok(Some(format!("differs from byte {} of {was} on", at + byte as u64)));
        }
        at += piece as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_name_and_byte() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (root, last) in [(&first, b'a'), (&second, b'b')] {
            let write = |name: &str, bytes: &[u8]| fs::write(root.path().join(name), bytes).unwrap();
            fs::create_dir(root.path().join("step-1")).unwrap();
            write("same", b"1234");
            write("step-1/weights", &[vec![0; PIECE + 10], vec![last]].concat());
            write("step-1/.metadata", &[last]);
            write("log", &vec![b'x'; usize::from(last)]);
            write(if last == b'a' { "one" } else { "other" }, b"");
            std::os::unix::fs::symlink(root.path().join("same"), root.path().join("latest")).unwrap();
        }
        let between = |except: &[&str]| {
            let except: Vec<String> = except.iter().map(|glob| (*glob).to_owned()).collect();
            between(&except, first.path(), second.path())
        };
        assert_eq!(
            between(&[]),
            [
                "log: 97 bytes, then 98",
                "one: only in the first run",
                "step-1/weights: differs from byte 65546 of 65547 on",
                "other: only in the second run"
            ]
        );
        assert_eq!(between(&["o*", "log", "step-1/*"]), [""; 0]);
        assert_eq!(between(&["o*", "step-1"]), ["log: 97 bytes, then 98"]);
    }
}
