//! Objects in `/dev/shm` that a case may have left behind. An object's creator is unknown. All that can be known is that
//! it appeared while only this case ran, and that no process uses it after the case has ended. So none is removed.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const DIRECTORY: &str = "/dev/shm";

/// The live cases of a run, and the objects that appeared while they were alive.
///
/// The directory is read whenever a case begins or ends, so the same cases are alive between two readings. Times are
/// not compared: a file's creation time comes from a coarser clock than the time of day, which can also be set.
#[derive(Debug, Default)]
pub struct Lives(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    begun: u64,
    alive: BTreeSet<u64>,
    /// Every object of the last reading, and the cases that were alive when it appeared.
    objects: HashMap<Object, BTreeSet<u64>>,
}

/// A live case.
#[derive(Debug)]
pub struct Watch(u64);

/// What a case left.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Its own.
    pub own: Vec<PathBuf>,
    /// Created while other cases also ran.
    pub unclear: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Object {
    path: PathBuf,
    inode: u64,
}

impl Lives {
    /// A case begins.
    pub fn begin(&self) -> Watch {
        let mut seen = self.0.lock();
        seen.read(objects());
        seen.begin()
    }

    /// Call when a case and its processes have ended: returns the objects that appeared in `/dev/shm` in the meantime
    /// and are no longer used.
    pub fn end(&self, watch: Watch) -> Left {
        let mut left = {
            let mut seen = self.0.lock();
            seen.read(objects());
            seen.end(watch)
        };
        if !left.own.is_empty() || !left.unclear.is_empty() {
            let used = in_use();
            for paths in [&mut left.own, &mut left.unclear] {
                paths.retain(|path| !used.contains(path));
            }
        }
        left
    }
}

impl Seen {
    /// Records new objects since the last reading, and forgets those that are gone.
    fn read(&mut self, present: Vec<Object>) {
        let mut before = std::mem::take(&mut self.objects);
        self.objects = present
            .into_iter()
            .map(|object| {
                let makers = before.remove(&object).unwrap_or_else(|| self.alive.clone());
                (object, makers)
            })
            .collect();
    }

    fn begin(&mut self) -> Watch {
        self.begun += 1;
        self.alive.insert(self.begun);
        Watch(self.begun)
    }

    fn end(&mut self, Watch(case): Watch) -> Left {
        self.alive.remove(&case);
        let mut left = Left::default();
        for (object, makers) in self.objects.iter().filter(|(_, makers)| makers.contains(&case)) {
            let paths = if makers.len() == 1 { &mut left.own } else { &mut left.unclear };
            paths.push(object.path.clone());
        }
        left.own.sort();
        left.unclear.sort();
        left
    }
}

/// This user's objects.
fn objects() -> Vec<Object> {
    let own = rustix::process::getuid().as_raw();
    std::fs::read_dir(DIRECTORY)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let meta = entry.metadata().ok().filter(|meta| meta.is_file() && meta.uid() == own)?;
            Some(Object { path: entry.path(), inode: meta.ino() })
        })
        .collect()
}

/// The objects that some process has open or mapped, as far as we have permission to look.
fn in_use() -> HashSet<PathBuf> {
    let mut used = HashSet::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if process.file_name().to_string_lossy().parse::<u32>().is_err() {
            continue;
        }
        let directory = process.path();
        let maps = std::fs::read_to_string(directory.join("maps")).unwrap_or_default();
        used.extend(maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find(DIRECTORY)?..]))));
        let open = std::fs::read_dir(directory.join("fd")).into_iter().flatten().flatten();
        used.extend(
            open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).filter(|path| path.starts_with(DIRECTORY)),
        );
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(names: &[&str]) -> Vec<Object> {
        names.iter().map(|name| Object { path: PathBuf::from(name), inode: 1 }).collect()
    }

    fn left(own: &[&str], unclear: &[&str]) -> Left {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        Left { own: paths(own), unclear: paths(unclear) }
    }

    #[test]
    fn what_appears_belongs_to_the_cases_that_were_alive_then() {
        let mut seen = Seen::default();
        seen.read(present(&["before"]));
        let one = seen.begin();
        seen.read(present(&["before", "one's"]));
        let two = seen.begin();
        seen.read(present(&["before", "one's", "either's"]));
        assert_eq!(seen.end(one), left(&["one's"], &["either's"]));
        seen.read(present(&["before", "one's", "either's", "two's"]));
        assert_eq!(seen.end(two), left(&["two's"], &["either's"]));
    }

    #[test]
    fn what_is_made_anew_under_an_old_name_is_new() {
        let mut seen = Seen::default();
        seen.read(present(&["x"]));
        let case = seen.begin();
        seen.read(vec![Object { path: PathBuf::from("x"), inode: 2 }]);
        assert_eq!(seen.end(case), left(&["x"], &[]));
        seen.read(present(&[]));
        let next = seen.begin();
        seen.read(vec![Object { path: PathBuf::from("x"), inode: 2 }]);
        assert_eq!(seen.end(next), left(&["x"], &[]), "gone in between");
    }
}
