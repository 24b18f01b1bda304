//! Compiled code on disk: one file for each kernel, for this processor and this version. A file that is not exactly as written is
//! ignored, and the kernel is compiled again.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use xxhash_rust::xxh64::xxh64;

use crate::host::mistake::Checks;

/// The first bytes of a file.
const MAGIC: [u8; 8] = *b"ftestk01";
/// The bytes before the code: magic, key, two checksums of the code.
const HEADER: usize = 8 + 16 + 16;
/// What the code depends on besides PTX and processor: this crate's sources, its compiler, the code generator (build.rs).
const BUILD: &str = env!("PTX_BUILD");
/// Subdirectories of the store, each with its own limit, so a writer looks at only one.
const SHARDS: u64 = 64;
/// The most bytes of a subdirectory; the oldest files make room.
const SHARD_BYTES: u64 = 4 << 20;
/// A file in use is marked as used at most once in this time.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

static STORE: OnceLock<PathBuf> = OnceLock::new();

/// Keeps compiled code in this directory from now on (256 MiB at most), for every process that names it. The first call counts.
pub fn keep_code_in(directory: &Path) {
    let _ = STORE.set(directory.to_owned());
}

/// The key that code is stored under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u128);

impl Key {
    /// The key of the kernel `name` in the PTX with this hash, with its checks, for a processor.
    pub(crate) fn new(ptx: u128, name: &str, checks: Checks, processor: &str) -> Self {
        let text = format!("{BUILD}\0{processor}\0{checks:?}\0{ptx:032x}\0{name}");
        Self(both(text.as_bytes()))
    }

    fn path(self, directory: &Path) -> PathBuf {
        directory.join(format!("{:02x}", self.0 as u64 % SHARDS)).join(format!("{:032x}", self.0))
    }
}

fn both(bytes: &[u8]) -> u128 {
    u128::from(xxh64(bytes, 1)) << 64 | u128::from(xxh64(bytes, 2))
}

/// The code under a key, if the store has it.
pub(crate) fn load(key: Key) -> Option<Vec<u8>> {
    read(STORE.get()?, key)
}

/// Puts code into the store. A failure only costs the next process time.
pub(crate) fn save(key: Key, code: &[u8]) {
    if let Some(directory) = STORE.get() {
        let _ = write(directory, key, code);
    }
}

fn read(directory: &Path, key: Key) -> Option<Vec<u8>> {
    let path = key.path(directory);
    let mut bytes = fs::read(&path).ok()?;
    let header = bytes.get(..HEADER)?;
    let number = |at: usize| u128::from_le_bytes(header[at..at + 16].try_into().expect("sixteen bytes"));
    let (named, sum) = (number(8), number(24));
    if header[..8] != MAGIC || named != key.0 || sum != both(&bytes[HEADER..]) {
        return None;
    }
    bytes.drain(..HEADER);
    // The oldest go first, so what is used must not look old.
    if let Ok(file) = File::open(&path)
        && file.metadata().and_then(|meta| meta.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > FRESH))
    {
        let _ = file.set_modified(SystemTime::now());
    }
    Some(bytes)
}

fn write(directory: &Path, key: Key, code: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let size = (HEADER + code.len()) as u64;
    if size > SHARD_BYTES {
        return Ok(());
    }
    let path = key.path(directory);
    let shard = path.parent().unwrap_or(directory);
    fs::create_dir_all(shard)?;
    make_room(shard, SHARD_BYTES - size)?;
    // A file is either complete or absent, because other processes read and write at the same time.
    let fresh = shard.join(format!(".{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let written = || -> io::Result<()> {
        let mut file = File::create_new(&fresh)?;
        for part in [&MAGIC[..], &key.0.to_le_bytes(), &both(code).to_le_bytes(), code] {
            file.write_all(part)?;
        }
        fs::rename(&fresh, &path)
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}

/// Removes the oldest files of a directory until no more than `bytes` are left.
fn make_room(directory: &Path, bytes: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        // Another process may have removed it meanwhile.
        let Ok((entry, meta)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else { continue };
        files.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), entry));
    }
    let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
    if total <= bytes {
        return Ok(());
    }
    files.sort();
    for (_, size, path) in files {
        if total <= bytes {
            break;
        }
        let _ = fs::remove_file(path);
        total -= size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Checks = Checks { shared_races: false, init: false, sync: false };

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("ptx-store-{name}-{}", std::process::id()));
            fs::create_dir_all(&directory).unwrap();
            Self(directory)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_what_was_written_for_this_key_comes_back() {
        let scratch = Scratch::new("keys");
        let key = Key::new(7, "kernel", NONE, "x86-64");
        write(&scratch.0, key, b"some code").unwrap();
        assert_eq!(read(&scratch.0, key).unwrap(), b"some code");
        for other in [
            Key::new(8, "kernel", NONE, "x86-64"),
            Key::new(7, "other", NONE, "x86-64"),
            Key::new(7, "kernel", NONE, "avx2"),
            Key::new(7, "kernel", Checks { init: true, ..NONE }, "x86-64"),
        ] {
            assert_ne!(other, key);
            assert_eq!(read(&scratch.0, other), None);
            // A file under another's name is not taken for it.
            fs::create_dir_all(other.path(&scratch.0).parent().unwrap()).unwrap();
            fs::copy(key.path(&scratch.0), other.path(&scratch.0)).unwrap();
            assert_eq!(read(&scratch.0, other), None);
        }
    }

    #[test]
    fn a_file_with_any_byte_changed_or_missing_is_not_taken() {
        let scratch = Scratch::new("torn");
        let key = Key::new(1, "kernel", NONE, "");
        write(&scratch.0, key, &[0x90; 40]).unwrap();
        let path = key.path(&scratch.0);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut torn = whole.clone();
            torn[at] ^= 1;
            fs::write(&path, &torn).unwrap();
            assert_eq!(read(&scratch.0, key), None, "byte {at} changed");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(read(&scratch.0, key), None, "cut at {at}");
        }
        fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
        assert_eq!(read(&scratch.0, key), None, "one byte more");
        write(&scratch.0, key, b"anew").unwrap();
        assert_eq!(read(&scratch.0, key).unwrap(), b"anew");
    }

    #[test]
    fn the_oldest_make_room() {
        let scratch = Scratch::new("room");
        for (age, name) in [(300, "old"), (200, "middle"), (100, "new")] {
            let file = File::create(scratch.0.join(name)).unwrap();
            file.set_len(1000).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        make_room(&scratch.0, 3000).unwrap();
        assert!(scratch.0.join("old").exists());
        make_room(&scratch.0, 2999).unwrap();
        assert!(!scratch.0.join("old").exists() && scratch.0.join("middle").exists());
        make_room(&scratch.0, 1000).unwrap();
        assert!(!scratch.0.join("middle").exists() && scratch.0.join("new").exists());
        let key = Key::new(1, "huge", NONE, "");
        write(&scratch.0, key, &vec![0; SHARD_BYTES as usize]).unwrap();
        assert_eq!(read(&scratch.0, key), None, "larger than its directory may be");
    }

    #[test]
    fn writers_and_readers_at_once_see_whole_files() {
        let scratch = Scratch::new("many");
        let key = Key::new(1, "kernel", NONE, "");
        write(&scratch.0, key, &[0; 5000]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let directory = &scratch.0;
                scope.spawn(move || {
                    for _ in 0..50 {
                        write(directory, key, &[thread; 5000]).unwrap();
                        let code = read(directory, key).expect("a whole file");
                        assert!(code.len() == 5000 && code.iter().all(|byte| *byte == code[0]));
                    }
                });
            }
        });
        let left: Vec<_> = fs::read_dir(key.path(&scratch.0).parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no file under a temporary name");
    }
}
