//! Objects in `/dev/shm` that a case may have left behind. Nothing tells who made one; that it appeared while the case and no
//! other ran, and that nobody uses it when the case has ended, is as much as can be known. So none is removed.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

const DIRECTORY: &str = "/dev/shm";

/// When the cases of a run lived.
#[derive(Debug, Default)]
pub struct Lives(Mutex<Vec<(SystemTime, Option<SystemTime>)>>);

/// A case that lives, and the objects that were there before it.
#[derive(Debug)]
pub struct Watch {
    index: usize,
    before: HashSet<(PathBuf, u64)>,
}

/// What a case left.
#[derive(Debug, Default)]
pub struct Left {
    /// Its own.
    pub own: Vec<PathBuf>,
    /// Made while other cases ran, too.
    pub unclear: Vec<PathBuf>,
}

impl Lives {
    /// A case begins.
    pub fn begin(&self) -> Watch {
        let before = objects().into_iter().map(|object| (object.path, object.inode)).collect();
        let mut lives = self.lock();
        lives.push((SystemTime::now(), None));
        Watch { index: lives.len() - 1, before }
    }

    /// A case and its processes have ended: what is new in `/dev/shm`, and nobody's any more.
    pub fn end(&self, watch: &Watch) -> Left {
        let mut left = Left::default();
        let mut found: Vec<Object> = objects();
        found.retain(|object| !watch.before.contains(&(object.path.clone(), object.inode)));
        let used = if found.is_empty() { HashSet::new() } else { in_use() };
        let mut lives = self.lock();
        if let Some(life) = lives.get_mut(watch.index) {
            life.1 = Some(SystemTime::now());
        }
        for object in found.into_iter().filter(|object| !used.contains(&object.path)) {
            let made = object.made;
            let alive =
                |(start, end): &(SystemTime, Option<SystemTime>)| *start <= made && end.is_none_or(|end| made <= end);
            let others = lives.iter().enumerate().filter(|(index, life)| *index != watch.index && alive(life));
            match (lives.get(watch.index).is_some_and(alive), others.count()) {
                (true, 0) => left.own.push(object.path),
                (true, _) => left.unclear.push(object.path),
                (false, _) => {}
            }
        }
        left
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(SystemTime, Option<SystemTime>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Object {
    path: PathBuf,
    inode: u64,
    made: SystemTime,
}

/// This user's objects, by name.
fn objects() -> Vec<Object> {
    let own = rustix::process::getuid().as_raw();
    let mut objects: Vec<Object> = std::fs::read_dir(DIRECTORY)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let meta = entry.metadata().ok().filter(|meta| meta.is_file() && meta.uid() == own)?;
            // Where the file system keeps no time of birth, the last change has to do.
            let made = meta.created().or_else(|_| meta.modified()).ok()?;
            Some(Object { path: entry.path(), inode: meta.ino(), made })
        })
        .collect();
    objects.sort_by(|one, other| one.path.cmp(&other.path));
    objects
}

/// The objects that some process has open or mapped, as far as we may look.
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
