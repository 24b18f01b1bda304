//! Tracks a block's shared memory while it runs: which thread touched each byte last, and what orders its threads. Times are
//! vector clocks, which hold a time of every thread for each thread, with one shortcut: a synchronization of all threads begins a
//! new interval, and everything before it is ordered with everything after.

use std::collections::{HashMap, HashSet};

use crate::host::memory_ops::Access;
use crate::host::mistake::{Checks, Key, MistakeKind, Note};

/// The most different mistakes that a block notes.
const MOST: usize = 64;

/// An access, with the interval in which it was made.
#[derive(Clone, Copy, Default)]
struct Stamp {
    /// The interval; 0 if there is no access.
    interval: u32,
    /// Its thread's own time.
    time: u32,
    site: u32,
    thread: u16,
    /// Whether the instruction may meet others of its kind without a race: an atomic one, or a strong load or store.
    strong: bool,
}

/// The last accesses to a few bytes. Of the reads, it keeps the first of the interval and the last by another thread. With more
/// readers, a race can be missed, but none is made up.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// The last write by a plain instruction, then the last by a strong one.
    write: Stamp,
    strong_write: Stamp,
    read: Stamp,
    other_read: Stamp,
}

/// What a thread knows of the others: the accesses of thread `t` before time `times[t]`.
#[derive(Clone, Default)]
struct Clock {
    interval: u32,
    own: u32,
    /// Empty if it does not know of any.
    times: Vec<u32>,
}

/// Times that were released, and the interval that they belong to.
#[derive(Clone, Default)]
struct Released {
    interval: u32,
    times: Vec<u32>,
}

/// An access as the watch sees it.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) thread: u32,
    pub(crate) site: u32,
    pub(crate) access: Access,
    pub(crate) volatile: bool,
    /// Whether it writes the value that is already there: whoever comes first, the bytes are the same.
    pub(crate) same: bool,
}

/// A block's side of the checks.
pub(crate) struct Watch {
    checks: Checks,
    /// Whether the kernel has fences, or accesses that acquire or release, so that its strong accesses order threads.
    ordered: bool,
    /// Logarithm of the bytes that a cell is about.
    shift: u32,
    interval: u32,
    clocks: Vec<Clock>,
    cells: Vec<Cell>,
    /// What was released at places with atomics and mbarriers.
    locks: HashMap<u64, Released>,
    /// What threads released that arrived at a barrier and went on, by the barrier's number.
    arrived: HashMap<u32, Released>,
    /// A bit for each byte of shared memory.
    written: Vec<u64>,
    notes: Vec<Note>,
    seen: HashSet<Key>,
}

impl Watch {
    pub(crate) fn new(checks: Checks, threads: u32, shared_bytes: u64, ordered: bool, shift: u32) -> Self {
        let races = if checks.shared_races { shared_bytes } else { 0 };
        let init = if checks.init { shared_bytes } else { 0 };
        Self {
            checks,
            ordered,
            shift,
            interval: 0,
            clocks: vec![Clock::default(); threads as usize],
            cells: vec![Cell::default(); (races >> shift) as usize + 1],
            locks: HashMap::new(),
            arrived: HashMap::new(),
            written: vec![0; init.div_ceil(64) as usize],
            notes: Vec::new(),
            seen: HashSet::new(),
        }
    }

    /// A new block begins in this place.
    pub(crate) fn start(&mut self) {
        self.everyone();
        self.written.fill(0);
    }

    /// The mistakes noted since the last time.
    pub(crate) fn take(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn note(&mut self, note: Note) {
        if self.seen.len() < MOST && self.seen.insert(note.key()) {
            self.notes.push(note);
        }
    }

    /// All threads have waited for each other.
    pub(crate) fn everyone(&mut self) {
        self.interval += 1;
        self.locks.clear();
        self.arrived.clear();
    }

    /// Bytes of shared memory are written from outside the block.
    pub(crate) fn written_by_others(&mut self, offset: u64, bytes: u64) {
        mark(&mut self.written, offset, bytes);
    }

    /// A thread accesses bytes of shared memory.
    pub(crate) fn touch(&mut self, offset: u64, bytes: u64, seen: Seen) {
        let Seen { thread, site, access, volatile, same } = seen;
        let writes = matches!(access, Access::Write | Access::StrongWrite | Access::Atomic);
        let reads = matches!(access, Access::Read | Access::StrongRead | Access::Atomic);
        if self.checks.init {
            if reads && !is_marked(&self.written, offset, bytes) {
                let bytes = bytes as u32;
                self.note(Note {
                    kind: MistakeKind::UnwrittenShared,
                    site,
                    thread,
                    other: None,
                    address: offset,
                    bytes,
                });
            }
            if writes || access == Access::Object {
                mark(&mut self.written, offset, bytes);
            }
        }
        if !self.checks.shared_races || access == Access::Object {
            return;
        }
        // Without a fence, a volatile access only guarantees that it is made.
        let strong = !matches!(access, Access::Read | Access::Write) && (self.ordered || !volatile);
        let time = self.clock(thread).own;
        let stamp = Stamp { interval: self.interval, time, site, thread: thread as u16, strong };
        let cells = (offset >> self.shift) as usize..=((offset + bytes - 1) >> self.shift) as usize;
        let mut conflict = None;
        for index in cells {
            let cell = self.cells[index];
            if conflict.is_none() {
                conflict = if same {
                    None
                } else if self.is_unordered(&stamp, &cell.write) {
                    Some((cell.write, true))
                } else if self.is_unordered(&stamp, &cell.strong_write) {
                    Some((cell.strong_write, true))
                } else if writes && self.is_unordered(&stamp, &cell.read) {
                    Some((cell.read, false))
                } else if writes && self.is_unordered(&stamp, &cell.other_read) {
                    Some((cell.other_read, false))
                } else {
                    None
                };
            }
            let cell = &mut self.cells[index];
            if writes {
                *(if strong { &mut cell.strong_write } else { &mut cell.write }) = stamp;
            }
            // What an atomic operation reads is covered by what it writes.
            if reads && !writes {
                if cell.read.interval != stamp.interval {
                    (cell.read, cell.other_read) = (stamp, Stamp::default());
                } else if cell.read.thread == stamp.thread {
                    cell.read = stamp;
                } else {
                    cell.other_read = stamp;
                }
            }
        }
        if let Some((other, wrote)) = conflict {
            let kind = MistakeKind::SharedRace { writes, wrote };
            let other = Some((u32::from(other.thread), other.site));
            self.note(Note { kind, site, thread, other, address: offset, bytes: bytes as u32 });
        }
        if strong && self.ordered {
            if reads {
                self.acquire(thread, offset);
            }
            if writes {
                self.release(thread, offset);
            }
        }
    }

    fn is_unordered(&self, now: &Stamp, before: &Stamp) -> bool {
        before.interval == now.interval
            && before.thread != now.thread
            && !(before.strong && now.strong)
            && self.clocks[now.thread as usize]
                .times
                .get(before.thread as usize)
                .is_none_or(|time| *time <= before.time)
    }

    /// The clock of a thread, of this interval.
    fn clock(&mut self, thread: u32) -> &mut Clock {
        let interval = self.interval;
        let clock = &mut self.clocks[thread as usize];
        if clock.interval != interval {
            (clock.interval, clock.own) = (interval, 0);
            clock.times.clear();
        }
        clock
    }

    /// Orders what a thread has done so far before whoever acquires this place.
    pub(crate) fn release(&mut self, thread: u32, place: u64) {
        if self.checks.shared_races {
            let mut released = self.locks.remove(&place).unwrap_or_default();
            self.add(&mut released, thread);
            self.locks.insert(place, released);
        }
    }

    /// A thread sees what was released at this place.
    pub(crate) fn acquire(&mut self, thread: u32, place: u64) {
        if let Some(released) = self.locks.get(&place).cloned() {
            self.learn(thread, &released);
        }
    }

    /// A thread arrives at a barrier with a number and does not wait for it.
    pub(crate) fn arrive(&mut self, thread: u32, barrier: u32) {
        if self.checks.shared_races {
            let mut released = self.arrived.remove(&barrier).unwrap_or_default();
            self.add(&mut released, thread);
            self.arrived.insert(barrier, released);
        }
    }

    /// Some threads waited for each other, and for those that arrived at a barrier.
    pub(crate) fn meet(&mut self, threads: &[u32], barrier: Option<u32>) {
        if !self.checks.shared_races {
            return;
        }
        let mut all = barrier.and_then(|barrier| self.arrived.remove(&barrier)).unwrap_or_default();
        threads.iter().for_each(|thread| self.add(&mut all, *thread));
        threads.iter().for_each(|thread| self.learn(*thread, &all));
    }

    fn add(&mut self, released: &mut Released, thread: u32) {
        let count = self.clocks.len();
        let interval = self.interval;
        if released.interval != interval || released.times.is_empty() {
            *released = Released { interval, times: vec![0; count] };
        }
        let clock = self.clock(thread);
        released.times.iter_mut().zip(&clock.times).for_each(|(all, own)| *all = (*all).max(*own));
        clock.own += 1;
        released.times[thread as usize] = clock.own;
    }

    fn learn(&mut self, thread: u32, released: &Released) {
        if released.interval != self.interval {
            return;
        }
        let clock = self.clock(thread);
        if clock.times.is_empty() {
            clock.times.clone_from(&released.times);
        } else {
            clock.times.iter_mut().zip(&released.times).for_each(|(own, all)| *own = (*own).max(*all));
        }
    }
}

fn bits(offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = offset + bytes;
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let next = end.min((at / 64 + 1) * 64);
            let found = ((at / 64) as usize, (u64::MAX >> (64 - (next - at))) << (at % 64));
            at = next;
            found
        })
    })
}

fn mark(map: &mut [u64], offset: u64, bytes: u64) {
    bits(offset, bytes).for_each(|(word, mask)| {
        if let Some(word) = map.get_mut(word) {
            *word |= mask;
        }
    });
}

fn is_marked(map: &[u64], offset: u64, bytes: u64) -> bool {
    bits(offset, bytes).all(|(word, mask)| map.get(word).is_none_or(|word| word & mask == mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Checks = Checks { shared_races: true, init: false, sync: false };

    fn watch() -> Watch {
        let mut watch = Watch::new(ALL, 4, 64, false, 2);
        watch.start();
        watch
    }

    fn race(watch: &mut Watch) -> bool {
        !std::mem::take(&mut watch.notes).is_empty() | watch.seen.drain().next().is_some()
    }

    fn does(watch: &mut Watch, thread: u32, offset: u64, access: Access, same: bool) -> bool {
        watch.touch(offset, 4, Seen { thread, site: thread, access, volatile: false, same });
        race(watch)
    }

    fn write(watch: &mut Watch, thread: u32, offset: u64) -> bool {
        does(watch, thread, offset, Access::Write, false)
    }

    fn read(watch: &mut Watch, thread: u32, offset: u64) -> bool {
        does(watch, thread, offset, Access::Read, false)
    }

    #[test]
    fn only_what_nothing_orders_is_a_race() {
        let mut watch = watch();
        assert!(!write(&mut watch, 0, 8) && !read(&mut watch, 0, 8) && !write(&mut watch, 1, 12));
        assert!(read(&mut watch, 1, 8), "written by another");
        watch.everyone();
        assert!(!read(&mut watch, 1, 8) && !read(&mut watch, 2, 8) && !read(&mut watch, 3, 8));
        assert!(write(&mut watch, 0, 8), "read by another");
        watch.everyone();
        assert!(!write(&mut watch, 2, 0));
        watch.meet(&[1, 2], None);
        assert!(!read(&mut watch, 1, 0));
        assert!(read(&mut watch, 3, 0), "was not there");
        assert!(!write(&mut watch, 2, 4));
        assert!(read(&mut watch, 1, 4), "written behind the meeting");
        watch.everyone();
        assert!(!write(&mut watch, 0, 0) && !does(&mut watch, 1, 0, Access::Write, true), "the same number");
        assert!(write(&mut watch, 2, 0));
    }

    #[test]
    fn order_is_passed_on() {
        let mut watch = watch();
        assert!(!write(&mut watch, 0, 0));
        watch.meet(&[0, 1], None);
        watch.meet(&[1, 2], None);
        assert!(!write(&mut watch, 2, 0));
        watch.release(2, 100);
        watch.acquire(3, 100);
        assert!(!read(&mut watch, 3, 0));
        assert!(!write(&mut watch, 3, 4));
        watch.acquire(1, 100);
        assert!(read(&mut watch, 1, 4), "nothing was released behind it");
        watch.arrive(3, 1);
        watch.meet(&[1], Some(1));
        assert!(!read(&mut watch, 1, 4));
    }

    #[test]
    fn atomics_meet_atomics_alone() {
        let mut watch = watch();
        let atomic = |watch: &mut Watch, thread| does(watch, thread, 0, Access::Atomic, false);
        assert!(!atomic(&mut watch, 0) && !atomic(&mut watch, 1));
        assert!(read(&mut watch, 2, 0));
        let mut watch = self::watch();
        assert!(!write(&mut watch, 0, 0));
        assert!(atomic(&mut watch, 1), "set without a barrier");
    }
}
