//! The control segment: a small memory file of a communicator's rank 0 that all its ranks map. Descriptors, arrival counts,
//! point-to-point rings and who is lost; no payload except messages small enough to travel beside their descriptor.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use protocol::message::ErrorCode;

use crate::arena::Arena;
use crate::call::Place;
use crate::descriptor::Descriptor;
use crate::failure::{code_of, number_of};
use crate::futex;
use crate::one_sided::board::Board;

/// Contributions up to this many bytes travel in the descriptor's slot and cost one barrier instead of two.
pub(crate) const INLINE_BYTES: usize = 4096;
/// Point-to-point messages up to this many bytes are buffered: their sender does not wait for the receiver.
pub(crate) const EAGER_BYTES: usize = 32 * 1024;
/// Messages that may be under way from one rank to another before the sender waits.
pub(crate) const RING_SLOTS: u64 = 8;
const DETAIL_BYTES: usize = 400;
const MAGIC: u32 = 0x6674_6373;

#[repr(C, align(128))]
struct Header {
    magic: AtomicU32,
    size: AtomicU32,
    /// Ranks that gave up waiting: what they came to is not to be completed without them.
    gave_up: AtomicU32,
    /// Changes whenever a barrier completes or a rank is lost.
    bell: Line<AtomicU32>,
    /// Ranks that sleep until the bell changes. One that died asleep stays counted: then a wake-up is for nobody.
    sleepers: Line<AtomicU32>,
    /// Arrivals at all barriers so far, over all ranks.
    arrivals: Line<AtomicU64>,
}

#[repr(C, align(128))]
struct Line<T>(T);

/// What one rank shows the others.
#[repr(C, align(128))]
struct RankBlock {
    /// The last barrier this rank came to.
    progress: AtomicU64,
    /// 0, or why it will not come again ([`number_of`]).
    status: Line<AtomicU32>,
    /// Changes whenever something happened that this rank may be waiting for in a send or recv.
    bell: Line<AtomicU32>,
    detail_length: AtomicU32,
    detail: UnsafeCell<[u8; DETAIL_BYTES]>,
}

/// One rank's call, for one of two alternating collectives.
#[repr(C, align(128))]
struct CallSlot {
    descriptor: UnsafeCell<Descriptor>,
    payload: Line<UnsafeCell<[u8; INLINE_BYTES]>>,
}

/// The messages from one rank to another, in order. One writer, one reader.
#[repr(C, align(128))]
pub(crate) struct Ring {
    /// Messages announced by the sender.
    pub(crate) head: Line2,
    /// Messages taken by the receiver.
    pub(crate) tail: Line2,
    slots: [MessageSlot; RING_SLOTS as usize],
}

/// A counter on a cache line of its own.
#[repr(C, align(128))]
pub(crate) struct Line2(pub(crate) AtomicU64);

/// An announced message.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Message {
    pub(crate) count: u64,
    pub(crate) datatype: i32,
    /// 1 when the payload lies in the slot.
    pub(crate) eager: u32,
    pub(crate) place: Place,
    pub(crate) address: u64,
}

#[repr(C, align(128))]
struct MessageSlot {
    message: UnsafeCell<Message>,
    /// The receiver's answer: 0 taken, else the kind of mismatch.
    answer: AtomicU32,
    /// The receiver's count and datatype, for the sender's sentence.
    receiver_count: AtomicU64,
    receiver_datatype: AtomicU32,
    payload: Line<UnsafeCell<[u8; EAGER_BYTES]>>,
}

const _: () = assert!(size_of::<Header>() == 512 && size_of::<CallSlot>() == 128 + INLINE_BYTES);
const _: () = assert!(size_of::<MessageSlot>() == 128 + EAGER_BYTES);
const _: () = assert!(size_of::<Ring>() == 256 + RING_SLOTS as usize * size_of::<MessageSlot>());
const _: () = assert!(size_of::<RankBlock>().is_multiple_of(128));

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Everybody came.
    All,
    /// These ranks will not come.
    Lost(Vec<u32>),
    /// These ranks had not come by the deadline.
    Missing(Vec<u32>),
}

/// A mapped control segment.
pub(crate) struct Segment {
    arena: Arena,
    size: u32,
    spins: u32,
}

impl Segment {
    /// Bytes a communicator of `size` ranks needs. Sparse: rings cost memory only once used.
    pub(crate) fn bytes(size: u32) -> usize {
        let size = size as usize;
        Self::rings_end(size) + Board::bytes(size)
    }

    fn rings_end(size: usize) -> usize {
        size_of::<Header>()
            + size * (size_of::<RankBlock>() + 2 * size_of::<CallSlot>())
            + size * size * size_of::<Ring>()
    }

    /// Windows and signals, behind the rings.
    pub(crate) fn board(&self) -> Board<'_> {
        // SAFETY: the file is longer than the layout, as checked when it was mapped, and starts as zero.
        unsafe { Board::at(self.arena.base().add(Self::rings_end(self.size as usize)), self.size) }
    }

    /// Uses a fresh memory file as the segment of `size` ranks (rank 0 does).
    pub(crate) fn found(arena: Arena, size: u32) -> Self {
        let segment = Self::over(arena, size);
        segment.header().size.store(size, Ordering::Relaxed);
        segment.header().magic.store(MAGIC, Ordering::Release);
        segment
    }

    /// Maps rank 0's segment.
    ///
    /// # Errors
    /// What opening or mapping answers; `InvalidData` when it is no segment for `size` ranks.
    pub(crate) fn join(pid: u32, fd: i32, size: u32) -> std::io::Result<Self> {
        let segment = Self::over(Arena::open(pid, fd, Self::bytes(size))?, size);
        let header = segment.header();
        let magic = header.magic.load(Ordering::Acquire);
        let told = header.size.load(Ordering::Relaxed);
        // Rank 0 may not have written the header yet; a wrong one is refused, an empty one is the same fresh file.
        if magic != 0 && (magic != MAGIC || told != size) {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "not this communicator's control segment",
            ));
        }
        Ok(segment)
    }

    fn over(arena: Arena, size: u32) -> Self {
        assert!(arena.length() >= Self::bytes(size), "the control segment's file is too short");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spins = if cores >= size as usize { 200 } else { 0 };
        Self { arena, size, spins }
    }

    fn header(&self) -> &Header {
        // SAFETY: the file is longer than the layout, page aligned and starts as zero; the struct is atomics.
        unsafe { &*self.arena.base().cast::<Header>() }
    }

    fn block(&self, rank: u32) -> &RankBlock {
        assert!(rank < self.size);
        let offset = size_of::<Header>() + rank as usize * size_of::<RankBlock>();
        // SAFETY: as for the header; offsets are multiples of 128.
        unsafe { &*self.arena.base().add(offset).cast::<RankBlock>() }
    }

    fn slot(&self, rank: u32, sequence: u64) -> &CallSlot {
        assert!(rank < self.size);
        let index = rank as usize * 2 + (sequence % 2) as usize;
        let offset = size_of::<Header>() + self.size as usize * size_of::<RankBlock>() + index * size_of::<CallSlot>();
        // SAFETY: as for the header.
        unsafe { &*self.arena.base().add(offset).cast::<CallSlot>() }
    }

    /// The ring from `source` to `destination`.
    pub(crate) fn ring(&self, source: u32, destination: u32) -> &Ring {
        assert!(source < self.size && destination < self.size);
        let size = self.size as usize;
        let offset = size_of::<Header>()
            + size * (size_of::<RankBlock>() + 2 * size_of::<CallSlot>())
            + (source as usize * size + destination as usize) * size_of::<Ring>();
        // SAFETY: as for the header.
        unsafe { &*self.arena.base().add(offset).cast::<Ring>() }
    }

    /// Shows `rank`'s call, with its payload when that travels along. Others may read it after the next barrier.
    ///
    /// # Safety
    /// Only `rank` calls this, `payload` is readable, and everybody is done with the collective two before this one.
    pub(crate) unsafe fn publish(&self, rank: u32, descriptor: Descriptor, payload: *const u8, bytes: usize) {
        assert!(bytes <= INLINE_BYTES);
        let slot = self.slot(rank, descriptor.sequence);
        // SAFETY: the caller's promise: nobody else touches this slot now.
        unsafe {
            slot.descriptor.get().write(descriptor);
            if bytes > 0 {
                std::ptr::copy_nonoverlapping(payload, slot.payload.0.get().cast::<u8>(), bytes);
            }
        }
    }

    /// What `rank` published for `sequence`. Valid between the barrier after publishing and two collectives later.
    pub(crate) fn published(&self, rank: u32, sequence: u64) -> (Descriptor, *const u8) {
        let slot = self.slot(rank, sequence);
        // SAFETY: its owner wrote it before the barrier that we passed and leaves it alone until we pass another.
        (unsafe { slot.descriptor.get().read() }, slot.payload.0.get().cast::<u8>().cast_const())
    }

    /// Comes to barrier number `target` (from 1, one after the other).
    pub(crate) fn arrive(&self, rank: u32, target: u64) {
        self.block(rank).progress.store(target, Ordering::Release);
        self.count_arrival(target);
    }

    fn count_arrival(&self, target: u64) {
        let arrivals = self.header().arrivals.0.fetch_add(1, Ordering::AcqRel) + 1;
        // More when somebody who saw our progress word went on and was counted at the next barrier before us.
        if arrivals >= target * u64::from(self.size) {
            self.wake_waiters();
        }
    }

    /// Wakes everybody who waits at a barrier.
    fn wake_waiters(&self) {
        let header = self.header();
        // Sequentially consistent with the sleeper's count: either it is seen here, or the sleeper sees the new bell.
        header.bell.0.fetch_add(1, Ordering::SeqCst);
        if header.sleepers.0.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&header.bell.0);
        }
    }

    /// Waits until everybody came to barrier `target`. `rank` is the waiter's: once it is lost itself (aborted), it stops.
    pub(crate) fn wait(&self, rank: u32, target: u64, deadline: Instant) -> Arrival {
        let arrival = self.wait_for_all(rank, target, deadline);
        if arrival == Arrival::All && self.header().gave_up.load(Ordering::Acquire) > 0 {
            let gave_up = |rank: &u32| self.status(*rank).is_some_and(|(code, _)| is_deadline(code));
            return Arrival::Lost((0..self.size).filter(gave_up).collect());
        }
        arrival
    }

    fn wait_for_all(&self, rank: u32, target: u64, deadline: Instant) -> Arrival {
        let header = self.header();
        let everybody = target * u64::from(self.size);
        for _ in 0..self.spins {
            if header.arrivals.0.load(Ordering::Acquire) >= everybody {
                return Arrival::All;
            }
            std::hint::spin_loop();
        }
        loop {
            let bell = header.bell.0.load(Ordering::Acquire);
            if header.arrivals.0.load(Ordering::Acquire) >= everybody {
                return Arrival::All;
            }
            let missing: Vec<u32> =
                (0..self.size).filter(|rank| self.block(*rank).progress.load(Ordering::Acquire) < target).collect();
            if missing.is_empty() {
                // Somebody is between its progress word and its arrival, or died there: it did come.
                return Arrival::All;
            }
            let mut lost = self.lost_among(&missing, target);
            // A rank that came and then stopped has not waited for the others.
            let stopped = |rank: &u32| self.status(*rank).is_some_and(|(code, _)| code == ErrorCode::Aborted);
            lost.extend((0..self.size).filter(|rank| !missing.contains(rank)).filter(stopped));
            if self.status(rank).is_some() {
                return Arrival::Lost(vec![rank]);
            }
            if !lost.is_empty() {
                // Or it has, and everybody came since we looked.
                let complete = header.arrivals.0.load(Ordering::Acquire) >= everybody;
                return if complete { Arrival::All } else { Arrival::Lost(lost) };
            }
            if Instant::now() >= deadline {
                return Arrival::Missing(missing);
            }
            header.sleepers.0.fetch_add(1, Ordering::SeqCst);
            futex::wait(&header.bell.0, bell, deadline);
            header.sleepers.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Those of `missing` that are lost and did not come to barrier `target`. Looked at in this order: a rank may have come and
    /// left since it was missed.
    fn lost_among(&self, missing: &[u32], target: u64) -> Vec<u32> {
        let is_lost =
            |rank: &u32| self.absence(*rank).is_some() && self.block(*rank).progress.load(Ordering::Acquire) < target;
        missing.iter().copied().filter(is_lost).collect()
    }

    /// Why `rank` will not come again, once that is known.
    pub(crate) fn status(&self, rank: u32) -> Option<(ErrorCode, String)> {
        let block = self.block(rank);
        let number = block.status.0.load(Ordering::Acquire);
        if number == 0 {
            return None;
        }
        let length = (block.detail_length.load(Ordering::Acquire) as usize).min(DETAIL_BYTES);
        let mut text = vec![0; length];
        // SAFETY: whoever set the status wrote the text before, once, and its length is within the array. Two ranks that
        // notice a loss at once both write it: bytes may mix, which the lossy decoding below survives.
        unsafe { std::ptr::copy_nonoverlapping(block.detail.get().cast::<u8>(), text.as_mut_ptr(), length) };
        Some((code_of(number), String::from_utf8_lossy(&text).into_owned()))
    }

    /// [`Self::status`] as it concerns the other ranks: a revoke is a rank's own, those who wait for it wait on.
    pub(crate) fn absence(&self, rank: u32) -> Option<(ErrorCode, String)> {
        self.status(rank).filter(|(code, _)| *code != ErrorCode::Revoked)
    }

    /// Notes that `rank` will not come again and wakes everybody who waits for it. The first reason stays, but for a revoke.
    pub(crate) fn lose(&self, rank: u32, code: ErrorCode, detail: &str) {
        let block = self.block(rank);
        let before = block.status.0.load(Ordering::Acquire);
        if before == 0 || (before == number_of(ErrorCode::Revoked) && code != ErrorCode::Revoked) {
            let length =
                (0..=detail.len().min(DETAIL_BYTES)).rev().find(|end| detail.is_char_boundary(*end)).unwrap_or(0);
            // SAFETY: the text is shorter than the array; readers look at it only once the status is set.
            unsafe { std::ptr::copy_nonoverlapping(detail.as_ptr(), block.detail.get().cast::<u8>(), length) };
            block.detail_length.store(length as u32, Ordering::Release);
            let first = block.status.0.compare_exchange(before, number_of(code), Ordering::AcqRel, Ordering::Acquire);
            if first.is_ok() && is_deadline(code) {
                self.header().gave_up.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.wake_waiters();
        for other in 0..self.size {
            self.ring_bell(other);
        }
    }

    /// Tells `rank` to look at its sends and recvs again.
    pub(crate) fn ring_bell(&self, rank: u32) {
        let bell = &self.block(rank).bell.0;
        bell.fetch_add(1, Ordering::AcqRel);
        futex::wake_all(bell);
    }

    /// State of `rank`'s bell, to be passed to [`Self::wait_bell`] after having looked around.
    pub(crate) fn bell(&self, rank: u32) -> u32 {
        self.block(rank).bell.0.load(Ordering::Acquire)
    }

    /// Sleeps until `rank`'s bell differs from `seen`, or until `deadline`.
    pub(crate) fn wait_bell(&self, rank: u32, seen: u32, deadline: Instant) {
        let bell = &self.block(rank).bell.0;
        for _ in 0..self.spins {
            if bell.load(Ordering::Acquire) != seen {
                return;
            }
            std::hint::spin_loop();
        }
        futex::wait(bell, seen, deadline);
    }
}

fn is_deadline(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::TimeoutWaitingForCollective | ErrorCode::TimeoutWaitingForP2p)
}

impl Ring {
    fn slot(&self, index: u64) -> &MessageSlot {
        &self.slots[(index % RING_SLOTS) as usize]
    }

    /// Announces message number `index`. Only the sender calls this, and only when the ring has room.
    ///
    /// # Safety
    /// `payload` is readable for `bytes`, which travel along when there are any.
    pub(crate) unsafe fn announce(&self, index: u64, message: Message, payload: *const u8, bytes: usize) {
        assert!(bytes <= EAGER_BYTES);
        let slot = self.slot(index);
        // SAFETY: the ring has room, so the receiver is done with this slot.
        unsafe {
            slot.message.get().write(message);
            if bytes > 0 {
                std::ptr::copy_nonoverlapping(payload, slot.payload.0.get().cast::<u8>(), bytes);
            }
        }
        slot.answer.store(0, Ordering::Relaxed);
        self.head.0.store(index + 1, Ordering::Release);
    }

    /// Message number `index` and where an eager payload lies. Only the receiver calls this, once it is announced.
    pub(crate) fn message(&self, index: u64) -> (Message, *const u8) {
        let slot = self.slot(index);
        // SAFETY: announced, hence written, and left alone until it is taken.
        (unsafe { slot.message.get().read() }, slot.payload.0.get().cast::<u8>().cast_const())
    }

    /// Takes message `index`, with an answer for the sender.
    pub(crate) fn take(&self, index: u64, mismatch: Option<ErrorCode>, count: u64, datatype: i32) {
        let slot = self.slot(index);
        slot.receiver_count.store(count, Ordering::Relaxed);
        slot.receiver_datatype.store(datatype as u32, Ordering::Relaxed);
        slot.answer.store(mismatch.map_or(0, number_of), Ordering::Relaxed);
        self.tail.0.store(index + 1, Ordering::Release);
    }

    /// The receiver's answer to a taken message: the mismatch, with its count and datatype.
    pub(crate) fn answer(&self, index: u64) -> Option<(ErrorCode, u64, i32)> {
        let slot = self.slot(index);
        let number = slot.answer.load(Ordering::Relaxed);
        (number != 0).then(|| {
            let count = slot.receiver_count.load(Ordering::Relaxed);
            (code_of(number), count, slot.receiver_datatype.load(Ordering::Relaxed) as i32)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn segment(size: u32) -> Arc<Segment> {
        Arc::new(Segment::found(Arena::create("control test", Segment::bytes(size)).unwrap(), size))
    }

    #[test]
    fn a_barrier_lets_nobody_through_early_and_names_the_missing() {
        let segment = segment(3);
        segment.arrive(0, 1);
        segment.arrive(2, 1);
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(segment.wait(0, 1, soon), Arrival::Missing(vec![1]));
        segment.arrive(1, 1);
        assert_eq!(segment.wait(0, 1, soon), Arrival::All);
    }

    #[test]
    fn the_last_to_be_counted_wakes_the_others_although_somebody_is_ahead() {
        let segment = segment(3);
        let late = Instant::now();
        segment.arrive(2, 1);
        // Rank 0 has come and is not counted yet; rank 1 sees that and goes on.
        segment.block(0).progress.store(1, Ordering::Release);
        segment.arrive(1, 1);
        assert_eq!(segment.wait(1, 1, late), Arrival::All);
        segment.arrive(1, 2);
        let bell = segment.header().bell.0.load(Ordering::Acquire);
        segment.count_arrival(1);
        assert_ne!(segment.header().bell.0.load(Ordering::Acquire), bell, "rank 2 may sleep on it");
    }

    #[test]
    fn a_rank_that_came_and_left_since_it_was_missed_is_not_lost() {
        let segment = segment(2);
        segment.arrive(0, 1);
        let missing = [1];
        assert!(segment.lost_among(&missing, 1).is_empty());
        segment.arrive(1, 1);
        segment.lose(1, ErrorCode::RankLost, "rank 1 left");
        assert!(segment.lost_among(&missing, 1).is_empty());
        assert_eq!(segment.lost_among(&missing, 2), [1]);
    }

    #[test]
    fn a_lost_rank_wakes_those_who_need_it_and_only_them() {
        let segment = segment(2);
        segment.arrive(0, 1);
        let waiter = {
            let segment = Arc::clone(&segment);
            std::thread::spawn(move || segment.wait(0, 1, Instant::now() + Duration::from_secs(20)))
        };
        segment.lose(1, ErrorCode::RankLost, "rank 1 is gone");
        assert_eq!(waiter.join().unwrap(), Arrival::Lost(vec![1]));
        assert_eq!(segment.status(1), Some((ErrorCode::RankLost, "rank 1 is gone".to_owned())));
        // It had come to this barrier before it was lost: nothing is missing.
        segment.arrive(1, 1);
        assert_eq!(segment.wait(0, 1, Instant::now()), Arrival::All);
    }

    #[test]
    fn a_rank_that_stops_in_a_barrier_wakes_those_who_wait_there_for_another() {
        let segment = segment(3);
        segment.arrive(0, 1);
        segment.arrive(1, 1);
        segment.lose(1, ErrorCode::Aborted, "rank 1 aborted the communicator");
        let later = Instant::now() + Duration::from_secs(20);
        assert_eq!(segment.wait(0, 1, later), Arrival::Lost(vec![1]));
        segment.arrive(2, 1);
        assert_eq!(segment.wait(0, 1, later), Arrival::All, "it stopped after everybody had come");
    }
}
