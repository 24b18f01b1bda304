//! Which allocation a byte belongs to, and on which line it was made: for the sentence of a race.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::lock::Mutex;
use protocol::ids::SiteId;

use super::place;
use crate::call_site;

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    end: usize,
    site: SiteId,
}

/// Allocations by their first byte; they do not overlap.
#[derive(Debug, Default)]
struct Owners(BTreeMap<usize, Owner>);

static OWNERS: Mutex<Owners> = Mutex::new(Owners(BTreeMap::new()));

/// An allocator of the program's hands out parts of its memory, and is not seen.
static IS_BLIND: AtomicBool = AtomicBool::new(false);

thread_local! {
    static UNDER_WAY: Cell<Option<SiteId>> = const { Cell::new(None) };
}

/// Until dropped, what this thread allocates is allocated at one line, which need not be looked for again.
pub(crate) struct Line(Option<SiteId>);

impl Line {
    pub(crate) fn begin(site: SiteId) -> Self {
        Self(UNDER_WAY.replace(Some(site)))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        UNDER_WAY.set(self.0);
    }
}

/// What is handed out from memory of the program's allocator is not known from now on.
pub(crate) fn is_blind() {
    IS_BLIND.store(true, Ordering::Relaxed);
}

/// Memory goes to a new owner.
pub(super) fn handed_out(address: usize, bytes: usize) {
    if IS_BLIND.load(Ordering::Relaxed) {
        return;
    }
    let here = || call_site::of_this_thread().or_else(call_site::of_allocation);
    let site = UNDER_WAY.get().or_else(here).unwrap_or_default();
    OWNERS.lock().add(address, address.saturating_add(bytes), site);
}

/// Memory goes back.
pub(super) fn freed(address: usize, bytes: usize) {
    OWNERS.lock().remove(address, address.saturating_add(bytes));
}

/// `; the memory is of an allocation of 4096 bytes at train.py:12`, or nothing where that is not known.
pub(super) fn sentence(address: usize) -> String {
    let Some((bytes, site)) = OWNERS.lock().of(address) else { return String::new() };
    format!("; the memory is of an allocation of {bytes} bytes{}", place::after(site))
}

impl Owners {
    fn add(&mut self, start: usize, end: usize, site: SiteId) {
        self.remove(start, end);
        if start < end {
            self.0.insert(start, Owner { end, site });
        }
    }

    /// Whatever reaches into a range is gone: who hands out part of a block had it back.
    fn remove(&mut self, start: usize, end: usize) {
        while let Some((at, _)) = self.0.range(..end).next_back().filter(|(_, owner)| owner.end > start) {
            let at = *at;
            self.0.remove(&at);
        }
    }

    fn of(&self, address: usize) -> Option<(usize, SiteId)> {
        let (start, owner) = self.0.range(..=address).next_back()?;
        (address < owner.end).then_some((owner.end - start, owner.site))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_owner_of_a_byte_counts() {
        let mut owners = Owners::default();
        owners.add(100, 200, SiteId(1));
        owners.add(300, 400, SiteId(2));
        assert_eq!(
            (owners.of(99), owners.of(100), owners.of(199)),
            (None, Some((100, SiteId(1))), Some((100, SiteId(1))))
        );
        assert_eq!(owners.of(200), None);
        owners.add(150, 320, SiteId(3));
        assert_eq!((owners.of(120), owners.of(310), owners.of(330)), (None, Some((170, SiteId(3))), None));
        owners.remove(0, 1000);
        assert_eq!(owners.of(160), None);
    }
}
