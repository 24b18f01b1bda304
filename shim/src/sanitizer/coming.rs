//! Host memory that work in streams may still write because the host has not waited for it: the target of a non-blocking copy
//! from a GPU. Reads on the host are checked only while there is such memory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use dataplane::lock::Mutex;

use super::clock::Clock;

/// Maximum number of pieces kept at a time; a program that never waits has more.
const MOST: usize = 1024;

/// Host memory written by piece `number` of a lane's work.
#[derive(Debug)]
struct Piece {
    lane: u64,
    number: u64,
    start: usize,
    end: usize,
}

static COMING: Mutex<Vec<Piece>> = Mutex::new(Vec::new());
/// The number of pieces. Changed under the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static WATCH: OnceLock<fn()> = OnceLock::new();

/// Whether there is any.
pub(super) fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// `begin` is called when the first piece is added. It must not call anything in this module.
pub(super) fn watch(begin: fn()) {
    let _ = WATCH.set(begin);
}

/// Work was submitted.
pub(super) fn add(lane: u64, number: u64, address: usize, bytes: usize) {
    let Some(begin) = WATCH.get() else { return };
    let mut coming = COMING.lock();
    if coming.is_empty() {
        begin();
    }
    if coming.len() == MOST {
        coming.remove(0);
    }
    coming.push(Piece { lane, number, start: address, end: address.saturating_add(bytes) });
    COUNT.store(coming.len(), Ordering::Release);
}

/// Records that the host knows that the work of `clock` is done.
pub(super) fn settle(clock: &Clock) {
    retain(|piece| piece.number > clock.time_of(piece.lane));
}

/// Called when the memory is freed.
pub(super) fn forget(address: usize, bytes: usize) {
    retain(|piece| !piece.touches(address, bytes));
}

/// Whether some of these bytes may still be written.
pub(super) fn touches(address: usize, bytes: usize) -> bool {
    is_any() && COMING.lock().iter().any(|piece| piece.touches(address, bytes))
}

fn retain(stays: impl FnMut(&Piece) -> bool) {
    let mut coming = COMING.lock();
    coming.retain(stays);
    COUNT.store(coming.len(), Ordering::Release);
}

impl Piece {
    fn touches(&self, address: usize, bytes: usize) -> bool {
        self.start < address.saturating_add(bytes) && address < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static BEGUN: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn what_comes_is_known_until_the_host_waits_or_the_memory_is_gone() {
        watch(|| {
            BEGUN.fetch_add(1, Ordering::Relaxed);
        });
        // Other tests copy, too, but not to here.
        let (lane, base) = (u64::MAX - 3, usize::MAX / 2);
        let begun = BEGUN.load(Ordering::Relaxed);
        let was_empty = !is_any();
        add(lane, 1, base, 100);
        assert!(!was_empty || BEGUN.load(Ordering::Relaxed) > begun);
        add(lane, 2, base + 200, 100);
        let known = || [base - 1, base, base + 99, base + 100, base + 250].map(|address| touches(address, 1));
        assert_eq!(known(), [false, true, true, false, true]);
        assert!(touches(base + 100, 101) && !touches(base + 100, 100));
        let mut clock = Clock::new();
        clock.tick(lane);
        settle(&clock);
        assert_eq!(known(), [false, false, false, false, true]);
        forget(base + 290, 1000);
        assert_eq!(known(), [false; 5]);
    }
}
