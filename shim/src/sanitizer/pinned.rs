//! Pinned host memory that a copy in a stream still reads: if the host writes to it before waiting, the copy may transfer the new
//! bytes or the old ones. Host writes are not observed, but if the bytes differ after the host has waited from when the copy was
//! submitted, somebody wrote them too early. Large copies are checked by sampling.

use std::sync::atomic::{AtomicUsize, Ordering};

use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;
use xxhash_rust::xxh64::Xxh64;

use super::clock::Clock;
use super::source_line;
use crate::call_site;
use crate::report::finding;

/// Maximum number of copies watched at a time; a program that never waits has more.
const MOST: usize = 1024;
/// A copy of at most this many bytes is checked in full.
const WHOLE: usize = 1 << 20;
/// Bytes per sample of a larger copy.
const SAMPLE: usize = 4096;
/// The number of samples.
const SAMPLES: usize = WHOLE / SAMPLE;

/// A copy that reads pinned memory, as piece `number` of the work of a stream.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) lane: u64,
    pub(super) number: u64,
    pub(super) address: usize,
    pub(super) bytes: usize,
    pub(super) name: &'static str,
    /// Where the program called it.
    pub(super) site: SiteId,
    /// The stream's name in findings.
    pub(super) stream: String,
}

#[derive(Debug)]
struct Watched {
    sent: Sent,
    digest: u64,
}

static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());
/// The number of copies: if 0, nothing has to be looked up. Changed under the lock, after all checks.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether a copy is watched.
pub(super) fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Called when a copy was submitted.
pub(super) fn add(sent: Sent) {
    let mut watched = WATCHED.lock();
    if watched.len() == MOST {
        watched.remove(0);
    }
    let digest = digest(sent.address, sent.bytes);
    watched.push(Watched { sent, digest });
    COUNT.store(watched.len(), Ordering::Release);
}

/// Called by whoever knows that the work of `clock` is done and may write from now on. Nobody may have written earlier: this
/// returns after all copies were checked, including those that another thread checks.
pub(super) fn settle(clock: &Clock) {
    settle_those(|sent| sent.number <= clock.time_of(sent.lane));
}

/// Called when work is about to write these bytes, in any order.
pub(super) fn overwritten(address: usize, bytes: usize) {
    settle_those(|sent| sent.address < address.saturating_add(bytes) && address < sent.address + sent.bytes);
}

/// Called when the memory is gone, or work ran whose writes are unknown.
pub(super) fn forget(is_meant: impl Fn(&Sent) -> bool) {
    let mut watched = WATCHED.lock();
    watched.retain(|watched| !is_meant(&watched.sent));
    COUNT.store(watched.len(), Ordering::Release);
}

fn settle_those(is_meant: impl Fn(&Sent) -> bool) {
    let mut changed = Vec::new();
    {
        let mut watched = WATCHED.lock();
        for Watched { sent, digest: before } in watched.extract_if(.., |watched| is_meant(&watched.sent)) {
            if digest(sent.address, sent.bytes) != before {
                changed.push(sent);
            }
        }
        COUNT.store(watched.len(), Ordering::Release);
    }
    if changed.is_empty() {
        return;
    }
    let seen = source_line::within("seen at", call_site::of_python().unwrap_or_default());
    for Sent { bytes, name, site, stream, .. } in changed {
        let sentence = format!(
            "the host writes to {bytes} bytes of pinned memory that {name} on {stream} reads, before it has waited for that{seen}"
        );
        finding::record_at(FindingKind::Race, name, sentence, site);
    }
}

fn digest(address: usize, bytes: usize) -> u64 {
    let mut hash = Xxh64::new(0);
    let mut add = |at: usize, bytes: usize| {
        // SAFETY: pinned memory that is allocated: its release forgets it first, under the lock that the caller has. What the program
        // writes meanwhile changes the number, and nothing else.
        hash.update(unsafe { std::slice::from_raw_parts((address + at) as *const u8, bytes) });
    };
    if bytes <= WHOLE {
        add(0, bytes);
    } else {
        // The first and the last bytes are among them.
        (0..SAMPLES).for_each(|sample| add((bytes - SAMPLE) / (SAMPLES - 1) * sample, SAMPLE));
        add(bytes - SAMPLE, SAMPLE);
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_byte_of_a_small_copy_and_the_ends_of_a_large_one_count() {
        let mut small = vec![1u8; 5000];
        let of = |bytes: &[u8]| digest(bytes.as_ptr() as usize, bytes.len());
        let before = of(&small);
        assert_eq!(of(&small), before);
        small[3333] = 2;
        assert_ne!(of(&small), before);
        let mut large = vec![1u8; 3 * WHOLE + 77];
        let before = of(&large);
        for at in [0, large.len() - 1] {
            large[at] = 2;
            assert_ne!(of(&large), before, "{at}");
            large[at] = 1;
        }
        large.fill(3);
        assert_ne!(of(&large), before);
    }

    #[test]
    fn a_copy_is_looked_at_once_and_by_the_clock() {
        let memory = [1u8; 64];
        let sent = |lane: u64| Sent {
            lane,
            number: 1,
            address: memory.as_ptr() as usize,
            bytes: memory.len(),
            name: "cudaMemcpyAsync",
            site: SiteId::default(),
            stream: "a stream".to_owned(),
        };
        // Other tests copy, too.
        let (one, two) = (u64::MAX - 1, u64::MAX - 2);
        let lanes = || {
            let lanes = WATCHED.lock().iter().map(|watched| watched.sent.lane).collect::<Vec<_>>();
            lanes.into_iter().filter(|lane| [one, two].contains(lane)).collect::<Vec<_>>()
        };
        let mut clock = Clock::new();
        add(sent(one));
        add(sent(two));
        settle(&clock);
        assert_eq!((lanes(), is_any()), (vec![one, two], true), "the clock knows of none");
        clock.tick(two);
        settle(&clock);
        assert_eq!(lanes(), [one]);
        overwritten(memory.as_ptr() as usize + 64, 64);
        assert_eq!(lanes(), [one], "other bytes");
        overwritten(memory.as_ptr() as usize + 63, 64);
        assert!(lanes().is_empty());
        add(sent(one));
        forget(|sent| sent.lane == one);
        assert!(lanes().is_empty());
    }
}
