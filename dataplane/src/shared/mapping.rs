//! This process's mappings of other ranks' memory: one mapping per memory file, shared by all communicators that use
//! it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Arc, OnceLock, Weak};

use crate::arena::Arena;
use crate::call::Place;
use crate::lock::Mutex;

type Key = (u32, u64);

/// Files mapped by this process, by (pid, file id), as long as someone uses them.
fn registry() -> &'static Mutex<HashMap<Key, Weak<Arena>>> {
    static REGISTRY: OnceLock<Mutex<HashMap<Key, Weak<Arena>>>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default)
}

/// A communicator's view of its peers' files. Keeps what it mapped until dropped.
#[derive(Default)]
pub(crate) struct Mappings {
    held: HashMap<Key, Arc<Arena>>,
}

impl Mappings {
    /// The address in this process of `place` in process `pid`.
    ///
    /// # Errors
    /// `NotFound` if the process is gone, `InvalidData` if the range is not in the file or the file was replaced.
    pub(crate) fn resolve(&mut self, pid: u32, place: &Place, bytes: usize) -> io::Result<*mut u8> {
        let invalid = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
        let end = place.offset.checked_add(bytes as u64);
        if place.valid != 1 || end.is_none_or(|end| end > place.length) {
            return invalid("a peer announced a buffer that lies outside its memory file");
        }
        let key = (pid, place.file_id);
        let arena = match self.held.entry(key) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(free) => free.insert(open(key, place)?),
        };
        if end.is_none_or(|end| end > arena.length() as u64) {
            return invalid("a peer's memory file is shorter than it announced");
        }
        // SAFETY: the offset is within the mapping, as just checked.
        Ok(unsafe { arena.base().add(place.offset as usize) })
    }
}

fn open(key: Key, place: &Place) -> io::Result<Arc<Arena>> {
    let mut registry = registry().lock();
    if let Some(arena) = registry.get(&key).and_then(Weak::upgrade) {
        return Ok(arena);
    }
    let arena = Arena::open(key.0, place.fd, place.length as usize)?;
    if arena.file_id() != place.file_id {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a peer's descriptor names a different file than announced",
        ));
    }
    let arena = Arc::new(arena);
    registry.retain(|_, arena| arena.strong_count() > 0);
    registry.insert(key, Arc::downgrade(&arena));
    Ok(arena)
}
