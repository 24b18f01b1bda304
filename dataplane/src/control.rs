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
    /// The last barrier that somebody tried to shut.
    shut_at: AtomicU64,
    /// Changes whenever a barrier completes or a rank is lost.
    bell: Line<AtomicU32>,
    /// Ranks that sleep until the bell changes. One that died asleep stays counted: then a wake-up is for nobody.
    sleepers: Line<AtomicU32>,
    /// Arrivals at all barriers so far, over all ranks ([`COUNT`]); and whether barrier `shut_at` is shut, and by whom. One word,
    /// so that a barrier is either complete for all ranks or for none.
    arrivals: Line<AtomicU64>,
}

/// In the word of arrivals: a barrier was shut, hence never completes, nor does any after it.
const SHUT: u64 = 1 << 63;
/// Who shut it, above the count.
const SHUT_BY: u32 = 48;
/// The arrivals themselves.
const COUNT: u64 = (1 << SHUT_BY) - 1;

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
    /// 1 once it moves no byte any more: it ended or failed. One that aborted or revoked may still be moving.
    gone: AtomicU32,
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
    /// Who has a payload that does not lie in the slot: [`OFFERED`], [`CLAIMED`] or [`WITHDRAWN`].
    payload_state: AtomicU32,
    /// The receiver's count and datatype, for the sender's sentence.
    receiver_count: AtomicU64,
    receiver_datatype: AtomicU32,
    payload: Line<UnsafeCell<[u8; EAGER_BYTES]>>,
}

/// The receiver may claim the payload.
const OFFERED: u32 = 0;
/// The receiver copies it: the sender waits until it took the message.
const CLAIMED: u32 = 1;
/// The sender left: the buffer is not its message any more.
const WITHDRAWN: u32 = 2;

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

/// Where a barrier stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Complete,
    /// It never completes, by this rank's doing.
    Shut(u32),
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
        // Who shut a barrier waits until the others are there.
        if arrivals & SHUT != 0 || arrivals >= target * u64::from(self.size) {
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

    /// Sleeps until the bell differs from `seen`, or until `deadline`.
    fn sleep(&self, seen: u32, deadline: Instant) {
        let header = self.header();
        header.sleepers.0.fetch_add(1, Ordering::SeqCst);
        futex::wait(&header.bell.0, seen, deadline);
        header.sleepers.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn gate(&self, target: u64) -> Gate {
        let word = self.header().arrivals.0.load(Ordering::Acquire);
        // Whoever shut a barrier had set `shut_at` before. A later one is shut only after this one was complete.
        if word & SHUT != 0 && self.header().shut_at.load(Ordering::Acquire) == target {
            Gate::Shut(((word & !SHUT) >> SHUT_BY) as u32)
        } else if word & COUNT >= target * u64::from(self.size) {
            Gate::Complete
        } else {
            Gate::Open
        }
    }

    /// Keeps barrier `target` from completing, for `rank`, which leaves it. False when everybody had come: then it is too late to
    /// leave.
    fn shut(&self, rank: u32, target: u64) -> bool {
        let header = self.header();
        header.shut_at.fetch_max(target, Ordering::AcqRel);
        let _ = header.arrivals.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let open = word & SHUT == 0 && word < target * u64::from(self.size);
            open.then_some(word | SHUT | u64::from(rank) << SHUT_BY)
        });
        self.gate(target) != Gate::Complete
    }

    /// True once everybody came to barrier `target`; looks a few times when there are processors enough.
    fn completes_soon(&self, target: u64) -> bool {
        for _ in 0..self.spins {
            if self.gate(target) == Gate::Complete {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    fn missing(&self, target: u64) -> Vec<u32> {
        (0..self.size).filter(|rank| self.block(*rank).progress.load(Ordering::Acquire) < target).collect()
    }

    /// Waits until everybody came to barrier `target`, behind which an operation begins. `rank` is the waiter's: once it is lost
    /// itself (aborted), it stops. If one rank stops here, the operation begins for none.
    pub(crate) fn wait(&self, rank: u32, target: u64, deadline: Instant) -> Arrival {
        if self.completes_soon(target) {
            return Arrival::All;
        }
        loop {
            let bell = self.header().bell.0.load(Ordering::Acquire);
            let gate = self.gate(target);
            if gate == Gate::Complete {
                return Arrival::All;
            }
            let missing = self.missing(target);
            let mut lost = self.lost_among(&missing, target);
            // One that came and aborted need not have waited for the others. Whatever else stopped one matters once all have come:
            // who gave up at the deadline missed the same ranks as we do. A revoke is not told.
            let stopped = |other: &u32| {
                !missing.contains(other)
                    && self.absence(*other).is_some_and(|(code, _)| code == ErrorCode::Aborted || missing.is_empty())
            };
            lost.extend((0..self.size).filter(stopped));
            let leaves = if self.status(rank).is_some() {
                Some(Arrival::Lost(vec![rank]))
            } else if !lost.is_empty() {
                Some(Arrival::Lost(lost))
            } else if Instant::now() >= deadline {
                Some(Arrival::Missing(if missing.is_empty() { self.stopped(gate) } else { missing }))
            } else {
                None
            };
            match leaves {
                Some(leaves) if self.shut(rank, target) => return leaves,
                // Everybody came since we looked.
                Some(_) => return Arrival::All,
                None => self.sleep(bell, deadline),
            }
        }
    }

    /// Comes to barrier `target`, which ends an operation, and waits until no rank moves bytes for it any more. Ranks do not wait
    /// for each other on the way here, so that neither an abort nor a revoke ends this wait: a rank that stopped comes, and one
    /// whose move failed (`moved` is false) comes too. Only those that are gone do not.
    pub(crate) fn settle(&self, rank: u32, target: u64, moved: bool, deadline: Instant) -> Arrival {
        if !moved {
            self.shut(rank, target);
        }
        self.arrive(rank, target);
        if self.completes_soon(target) {
            return Arrival::All;
        }
        loop {
            let bell = self.header().bell.0.load(Ordering::Acquire);
            let gate = self.gate(target);
            if gate == Gate::Complete {
                return Arrival::All;
            }
            let missing = self.missing(target);
            let (gone, moving): (Vec<u32>, Vec<u32>) = missing.into_iter().partition(|other| self.is_gone(*other));
            if !gone.is_empty() && gate == Gate::Open {
                // It cannot complete. Who still comes wakes us only if it knows that.
                self.shut(rank, target);
                continue;
            }
            let leaves = if !moving.is_empty() {
                None
            } else if !gone.is_empty() {
                Some(Arrival::Lost(gone))
            } else if !moved {
                Some(Arrival::Lost(vec![rank]))
            } else {
                // Somebody's move failed, or somebody died between its two marks of having come.
                let failed = |other: &u32| match gate {
                    Gate::Shut(by) => *other == by && self.absence(by).is_some(),
                    _ => *other != rank && self.is_gone(*other),
                };
                let failed: Vec<u32> = (0..self.size).filter(failed).collect();
                (!failed.is_empty()).then_some(Arrival::Lost(failed))
            };
            let leaves = leaves.or_else(|| {
                let late = Instant::now() >= deadline;
                late.then(|| Arrival::Missing(if moving.is_empty() { self.stopped(gate) } else { moving }))
            });
            match leaves {
                Some(leaves) if self.shut(rank, target) => return leaves,
                Some(_) => return Arrival::All,
                None => self.sleep(bell, deadline),
            }
        }
    }

    /// Who keeps a barrier from completing that everybody came to.
    fn stopped(&self, gate: Gate) -> Vec<u32> {
        if let Gate::Shut(by) = gate { vec![by] } else { Vec::new() }
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

    /// True once `rank` moves no byte any more, although it may not have come to where the others wait for it.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        self.block(rank).gone.load(Ordering::Acquire) != 0
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
            let _ = block.status.0.compare_exchange(before, number_of(code), Ordering::AcqRel, Ordering::Acquire);
        }
        if !matches!(code, ErrorCode::Aborted | ErrorCode::Revoked) {
            block.gone.store(1, Ordering::Release);
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
        slot.payload_state.store(OFFERED, Ordering::Relaxed);
        self.head.0.store(index + 1, Ordering::Release);
    }

    /// Message number `index` and where an eager payload lies. Only the receiver calls this, once it is announced.
    pub(crate) fn message(&self, index: u64) -> (Message, *const u8) {
        let slot = self.slot(index);
        // SAFETY: announced, hence written, and left alone until it is taken.
        (unsafe { slot.message.get().read() }, slot.payload.0.get().cast::<u8>().cast_const())
    }

    /// Keeps the sender of message `index` where it is until the message is taken; false when it has left. Only the receiver calls
    /// this.
    pub(crate) fn claim(&self, index: u64) -> bool {
        let state = &self.slot(index).payload_state;
        state.compare_exchange(OFFERED, CLAIMED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// True when the sender of message `index` has left.
    pub(crate) fn is_withdrawn(&self, index: u64) -> bool {
        self.slot(index).payload_state.load(Ordering::Acquire) == WITHDRAWN
    }

    /// Keeps the receiver from message `index`; false when it has claimed it. Only the sender calls this.
    pub(crate) fn withdraw(&self, index: u64) -> bool {
        let state = &self.slot(index).payload_state;
        state.compare_exchange(OFFERED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
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
        // What rank 0 gave up does not begin for the others.
        segment.arrive(1, 1);
        assert_eq!(segment.wait(1, 1, soon), Arrival::Missing(vec![0]));
        segment.lose(0, ErrorCode::TimeoutWaitingForCollective, "rank 0 waited 20 ms");
        for rank in [1, 2] {
            assert_eq!(segment.wait(rank, 1, Instant::now() + Duration::from_secs(20)), Arrival::Lost(vec![0]));
        }
    }

    #[test]
    fn a_barrier_is_complete_once_the_last_is_counted_who_wakes_the_others() {
        let segment = segment(3);
        let late = Instant::now();
        segment.arrive(2, 1);
        // Rank 0 has come and is not counted yet.
        segment.block(0).progress.store(1, Ordering::Release);
        let waiter = {
            let segment = Arc::clone(&segment);
            std::thread::spawn(move || {
                segment.arrive(1, 1);
                segment.wait(1, 1, Instant::now() + Duration::from_secs(20))
            })
        };
        let bell = segment.header().bell.0.load(Ordering::Acquire);
        segment.count_arrival(1);
        assert_eq!(waiter.join().unwrap(), Arrival::All);
        assert_ne!(segment.header().bell.0.load(Ordering::Acquire), bell);
        assert_eq!(segment.wait(2, 1, late), Arrival::All);
    }

    #[test]
    fn a_rank_that_dies_before_it_is_counted_holds_nobody() {
        for closing in [false, true] {
            let segment = segment(2);
            segment.block(1).progress.store(1, Ordering::Release);
            segment.lose(1, ErrorCode::RankLost, "rank 1 is gone");
            let later = Instant::now() + Duration::from_secs(20);
            let arrival = if closing {
                segment.settle(0, 1, true, later)
            } else {
                segment.arrive(0, 1);
                segment.wait(0, 1, later)
            };
            assert_eq!(arrival, Arrival::Lost(vec![1]));
        }
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
        // One that had come before it was lost is not missed.
        let segment = self::segment(2);
        segment.arrive(1, 1);
        segment.lose(1, ErrorCode::RankLost, "rank 1 is gone");
        segment.arrive(0, 1);
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
        // Whoever comes now does not begin what the others gave up.
        segment.arrive(2, 1);
        assert_eq!(segment.wait(2, 1, later), Arrival::Lost(vec![1]));
        assert_eq!(segment.wait(0, 1, later), Arrival::Lost(vec![1]));
    }

    #[test]
    fn a_rank_that_stops_once_everybody_came_takes_part() {
        let segment = segment(2);
        let later = Instant::now() + Duration::from_secs(20);
        segment.arrive(0, 1);
        segment.arrive(1, 1);
        for code in [ErrorCode::Revoked, ErrorCode::Aborted] {
            segment.lose(0, code, "rank 0 stopped");
            for rank in 0..2 {
                assert_eq!(segment.wait(rank, 1, later), Arrival::All);
            }
        }
        // Rank 0 is heard of as aborted and still moves bytes: rank 1 waits for it, as long as it waits for anybody.
        assert_eq!(segment.settle(1, 2, true, Instant::now()), Arrival::Missing(vec![0]));
    }

    #[test]
    fn ranks_that_give_up_at_the_deadline_all_blame_the_one_that_did_not_come() {
        let segment = segment(3);
        segment.arrive(0, 1);
        segment.arrive(1, 1);
        assert_eq!(segment.wait(0, 1, Instant::now()), Arrival::Missing(vec![2]));
        segment.lose(0, ErrorCode::TimeoutWaitingForCollective, "rank 0 waited 0 ms");
        assert_eq!(segment.wait(1, 1, Instant::now()), Arrival::Missing(vec![2]));
    }

    #[test]
    fn a_rank_that_revoked_is_waited_for_until_the_deadline() {
        let segment = segment(2);
        segment.arrive(0, 1);
        segment.lose(0, ErrorCode::Revoked, "rank 0 revoked the communicator");
        let later = Instant::now() + Duration::from_secs(20);
        assert_eq!(segment.wait(0, 1, later), Arrival::Lost(vec![0]));
        segment.arrive(1, 1);
        assert_eq!(segment.wait(1, 1, Instant::now()), Arrival::Missing(vec![0]));
    }

    #[test]
    fn whoever_moves_bytes_is_waited_for_whatever_became_of_the_others() {
        let segment = segment(3);
        let later = Instant::now() + Duration::from_secs(20);
        for rank in 0..3 {
            segment.arrive(rank, 1);
        }
        // Rank 2 dies, rank 1 aborts; both were moving bytes, and rank 1 still does.
        segment.lose(1, ErrorCode::Aborted, "rank 1 aborted the communicator");
        let waiter = {
            let segment = Arc::clone(&segment);
            std::thread::spawn(move || segment.settle(0, 2, true, later))
        };
        segment.lose(2, ErrorCode::RankLost, "rank 2 is gone");
        assert_eq!(segment.settle(1, 2, true, later), Arrival::Lost(vec![2]));
        assert_eq!(waiter.join().unwrap(), Arrival::Lost(vec![2]));
        assert_eq!(segment.block(1).progress.load(Ordering::Acquire), 2);
    }

    #[test]
    fn a_rank_that_aborted_and_then_died_is_not_waited_for() {
        let segment = segment(2);
        segment.lose(1, ErrorCode::Aborted, "rank 1 aborted the communicator");
        segment.lose(1, ErrorCode::RankLost, "rank 1 is gone");
        let later = Instant::now() + Duration::from_secs(20);
        assert_eq!(segment.settle(0, 1, true, later), Arrival::Lost(vec![1]));
        assert_eq!(segment.status(1).unwrap().0, ErrorCode::Aborted, "the first reason stays");
    }

    #[test]
    fn a_failed_move_fails_the_operation_for_everybody_once_all_are_done() {
        let segment = segment(3);
        let later = Instant::now() + Duration::from_secs(20);
        let waiters = [(0, false), (1, true)].map(|(rank, moved)| {
            let segment = Arc::clone(&segment);
            std::thread::spawn(move || {
                let arrival = segment.settle(rank, 1, moved, later);
                // Nobody leaves before rank 2 has come.
                assert_eq!(segment.block(2).progress.load(Ordering::Acquire), 1);
                if !moved {
                    segment.lose(rank, ErrorCode::System, "cannot map");
                }
                arrival
            })
        });
        assert_eq!(segment.settle(2, 1, true, later), Arrival::Lost(vec![0]));
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Arrival::Lost(vec![0]));
        }
    }
}
