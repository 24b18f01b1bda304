//! The control segment: a small memory file of a communicator's rank 0 that all its ranks map. It holds descriptors,
//! arrival counts, point-to-point rings and lost ranks, but no payload except messages small enough to travel with their
//! descriptor.

mod barrier;
mod board;
mod outcome;
mod ring;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use protocol::record::ErrorCode;

use crate::arena::Arena;
use crate::failure::{code_of, number_of};
use crate::futex;
use crate::operation::descriptor::Descriptor;
use crate::shared::segment::board::Board;
use crate::shared::segment::outcome::OutcomeWords;

pub(crate) use crate::shared::segment::barrier::Arrival;
pub(crate) use crate::shared::segment::outcome::Outcome;
pub(crate) use crate::shared::segment::ring::{Message, RING_SLOTS, Ring};
pub(crate) use board::WINDOWS;

/// Contributions up to this many bytes travel in the descriptor's slot and cost one barrier instead of two.
pub(crate) const INLINE_BYTES: usize = 4096;
/// Those up to this many bytes lie right behind the descriptor, so that reading the calls of all ranks touches few pages.
const CLOSE_BYTES: usize = 128;
const DETAIL_BYTES: usize = 400;
const MAGIC: u32 = 0x6674_6373;

#[repr(C, align(128))]
struct Header {
    magic: AtomicU32,
    size: AtomicU32,
    /// The last barrier that someone tried to shut.
    shut_at: AtomicU64,
    /// How often [`Segment::lose`] was called: while it is 0, no rank looks for lost ones.
    losses: AtomicU32,
    /// Changes whenever a barrier completes or a rank is lost.
    bell: Line<AtomicU32>,
    /// Number of ranks that sleep until the bell changes. A rank that died asleep stays counted, which costs an
    /// unnecessary wake-up.
    sleepers: Line<AtomicU32>,
    /// Arrivals at all barriers so far, over all ranks (`COUNT`), and whether barrier `shut_at` is shut, and by which rank. It
    /// is a single word, so that a barrier is complete either for all ranks or for none.
    arrivals: Line<AtomicU64>,
    outcome: Line<OutcomeWords>,
}

/// A value on its own cache line.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// State that one rank publishes to the others.
#[repr(C, align(128))]
struct RankBlock {
    /// The last barrier this rank arrived at.
    progress: AtomicU64,
    /// 0, or why it will not come again ([`number_of`]).
    status: Line<AtomicU32>,
    /// Changes whenever something happens that this rank may be waiting for in a send or recv.
    bell: Line<Bell>,
    /// 1 once it moves no more bytes because it ended or failed. A rank that aborted or revoked may still be moving
    /// bytes.
    gone: AtomicU32,
    detail_length: AtomicU32,
    detail: UnsafeCell<[u8; DETAIL_BYTES]>,
}

/// What wakes a rank that waits for a send or recv.
#[repr(C)]
struct Bell {
    rung: AtomicU32,
    /// Number of threads that sleep until it is rung. One that died asleep stays counted, as in [`Header::sleepers`].
    sleepers: AtomicU32,
}

/// One rank's call, for one of two alternating collectives.
#[repr(C, align(128))]
struct CallSlot {
    descriptor: UnsafeCell<Descriptor>,
    payload: Line<UnsafeCell<[u8; CLOSE_BYTES]>>,
}

const _: () = assert!(size_of::<Header>() == 640 && size_of::<CallSlot>() == 128 + CLOSE_BYTES);
const _: () = assert!(size_of::<RankBlock>().is_multiple_of(128));
/// Payloads and results begin on pages.
const PAGE: usize = 4096;

/// A mapped control segment.
pub(crate) struct Segment {
    arena: Arena,
    size: u32,
    spins: u32,
    /// How often the state or call of a single rank was looked at.
    #[cfg(test)]
    looked: AtomicU64,
}

impl Segment {
    /// Bytes a communicator of `size` ranks needs. Sparse: rings cost memory only once used.
    pub(crate) fn bytes(size: u32) -> usize {
        let size = size as usize;
        Self::rings_end(size) + Board::bytes(size)
    }

    /// Where the payloads are that do not fit into the slots: two for each rank, then the results of [`Outcome::Ready`].
    fn payloads_start(size: usize) -> usize {
        (size_of::<Header>() + size * (size_of::<RankBlock>() + 2 * size_of::<CallSlot>())).next_multiple_of(PAGE)
    }

    fn rings_start(size: usize) -> usize {
        Self::payloads_start(size) + 3 * size * INLINE_BYTES
    }

    fn rings_end(size: usize) -> usize {
        Self::rings_start(size) + size * size * size_of::<Ring>()
    }

    /// Windows and signals, located after the rings.
    pub(crate) fn board(&self) -> Board<'_> {
        // SAFETY: the file is longer than the layout, as checked when it was mapped, and starts as zero.
        unsafe { Board::new(self.arena.base().add(Self::rings_end(self.size as usize)), self.size) }
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
    /// The error of opening or mapping; `InvalidData` if it is not a segment for `size` ranks.
    pub(crate) fn join(pid: u32, fd: i32, size: u32) -> std::io::Result<Self> {
        let segment = Self::over(Arena::open(pid, fd, Self::bytes(size))?, size);
        let header = segment.header();
        let magic = header.magic.load(Ordering::Acquire);
        let written = header.size.load(Ordering::Relaxed);
        // Rank 0 may not have written the header yet; a wrong one is refused, an empty one is the same fresh file.
        if magic != 0 && (magic != MAGIC || written != size) {
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
        Self {
            arena,
            size,
            spins,
            #[cfg(test)]
            looked: AtomicU64::new(0),
        }
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

    /// The number of `rank`'s slot for `sequence`: those of one collective are side by side, in the order in which they are read.
    fn place(&self, rank: u32, sequence: u64) -> usize {
        (sequence % 2) as usize * self.size as usize + rank as usize
    }

    fn slot(&self, rank: u32, sequence: u64) -> &CallSlot {
        assert!(rank < self.size);
        let index = self.place(rank, sequence);
        let offset = size_of::<Header>() + self.size as usize * size_of::<RankBlock>() + index * size_of::<CallSlot>();
        // SAFETY: as for the header.
        unsafe { &*self.arena.base().add(offset).cast::<CallSlot>() }
    }

    /// The ring from `source` to `destination`.
    pub(crate) fn ring(&self, source: u32, destination: u32) -> &Ring {
        assert!(source < self.size && destination < self.size);
        let size = self.size as usize;
        let offset = Self::rings_start(size) + (source as usize * size + destination as usize) * size_of::<Ring>();
        // SAFETY: as for the header.
        unsafe { &*self.arena.base().add(offset).cast::<Ring>() }
    }

    /// Publishes `rank`'s call, with its payload if that travels along. Others may read it after the next barrier.
    ///
    /// # Safety
    /// Only `rank` calls this, `payload` is readable, and everybody is done with the collective two before this one.
    pub(crate) unsafe fn publish(&self, rank: u32, descriptor: Descriptor, payload: *const u8, bytes: usize) {
        assert!(bytes <= INLINE_BYTES);
        let slot = self.slot(rank, descriptor.sequence);
        // SAFETY: the caller's promise: nothing else touches this slot now.
        unsafe {
            slot.descriptor.get().write(descriptor);
            if bytes > 0 {
                let place = self.payload(rank, descriptor.sequence, bytes);
                std::ptr::copy_nonoverlapping(payload, place, bytes);
            }
        }
    }

    /// How often the state or call of a single rank was looked at, in tests.
    fn count_look(&self) {
        #[cfg(test)]
        self.looked.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was.
    #[cfg(test)]
    pub(crate) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }

    /// The call that `rank` published for `sequence`. Valid between the barrier after publishing and two collectives later.
    pub(crate) fn published(&self, rank: u32, sequence: u64) -> Descriptor {
        self.count_look();
        // SAFETY: its owner wrote it before the barrier that we passed and leaves it alone until we pass another.
        unsafe { self.slot(rank, sequence).descriptor.get().read() }
    }

    /// Where the `bytes` are that `rank` published beside its call. Valid as long as [`Self::published`].
    pub(crate) fn payload(&self, rank: u32, sequence: u64, bytes: usize) -> *mut u8 {
        if bytes <= CLOSE_BYTES {
            return self.slot(rank, sequence).payload.0.get().cast();
        }
        assert!(rank < self.size);
        let index = self.place(rank, sequence);
        // SAFETY: as for the header.
        unsafe { self.arena.base().add(Self::payloads_start(self.size as usize) + index * INLINE_BYTES) }
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
        // SAFETY: the text was written before the status, once, and its length is within the array. Two ranks that
        // notice a loss at once both write it: bytes may mix, which the lossy decoding below survives.
        unsafe { std::ptr::copy_nonoverlapping(block.detail.get().cast::<u8>(), text.as_mut_ptr(), length) };
        Some((code_of(number), String::from_utf8_lossy(&text).into_owned()))
    }

    /// [`Self::status`] as far as it concerns the other ranks: a revoke is local to its rank, so its waiters go on
    /// waiting.
    pub(crate) fn absence(&self, rank: u32) -> Option<(ErrorCode, String)> {
        self.status(rank).filter(|(code, _)| *code != ErrorCode::Revoked)
    }

    /// True once `rank` moves no more bytes, even if it did not arrive where the others wait for it.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        self.block(rank).gone.load(Ordering::Acquire) != 0
    }

    /// Records that `rank` will not come again and wakes all that wait for it. The first reason stays, except for a
    /// revoke.
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
        // Before the bell, so that who sleeps since the bell changed has seen it.
        self.header().losses.fetch_add(1, Ordering::SeqCst);
        self.wake_waiters();
        for other in 0..self.size {
            self.ring_bell(other);
        }
    }

    /// True once any rank will not come again.
    fn has_losses(&self) -> bool {
        self.header().losses.load(Ordering::SeqCst) != 0
    }

    /// Makes `rank` check its sends and recvs again.
    pub(crate) fn ring_bell(&self, rank: u32) {
        let bell = &self.block(rank).bell.0;
        // Sequentially consistent with the sleepers, as in `wake_waiters`.
        bell.rung.fetch_add(1, Ordering::SeqCst);
        if bell.sleepers.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&bell.rung);
        }
    }

    /// State of `rank`'s bell, to be passed to [`Self::wait_bell`] after checking for work.
    pub(crate) fn bell(&self, rank: u32) -> u32 {
        self.block(rank).bell.0.rung.load(Ordering::Acquire)
    }

    /// Sleeps until `rank`'s bell differs from `seen`, or until `deadline`.
    pub(crate) fn wait_bell(&self, rank: u32, seen: u32, deadline: Instant) {
        let bell = &self.block(rank).bell.0;
        for _ in 0..self.spins {
            if bell.rung.load(Ordering::Acquire) != seen {
                return;
            }
            std::hint::spin_loop();
        }
        bell.sleepers.fetch_add(1, Ordering::SeqCst);
        futex::wait(&bell.rung, seen, deadline);
        bell.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}
