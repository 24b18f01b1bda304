//! Windows and signals in the control segment: what each rank registered, and how many signals each rank got from each
//! other rank.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::Place;
use crate::operation::one_sided::PeerWindow;

/// Maximum number of windows a rank may have registered at one time.
pub(crate) const WINDOWS: usize = 4096;

/// A registered window. Its number is written last and read first.
#[repr(C, align(64))]
struct Entry {
    /// 0 if the entry is free.
    number: AtomicU64,
    bytes: AtomicU64,
    /// Its address in the owner's process.
    address: AtomicU64,
    place: UnsafeCell<Place>,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// The part of a control segment that one-sided operations use.
pub(crate) struct Board<'a> {
    base: *mut u8,
    size: usize,
    segment: PhantomData<&'a ()>,
}

impl Board<'_> {
    /// Bytes for `size` ranks. Sparse: windows cost memory only once registered.
    pub(crate) fn bytes(size: usize) -> usize {
        Self::signals(size) + size * WINDOWS * size_of::<Entry>()
    }

    fn signals(size: usize) -> usize {
        (size * size * size_of::<AtomicU64>()).next_multiple_of(align_of::<Entry>())
    }

    /// The board at `base`.
    ///
    /// # Safety
    /// `base` is aligned to 64 bytes, valid for [`Self::bytes`] as long as the board lives, and was initially zero.
    pub(crate) unsafe fn new(base: *mut u8, size: u32) -> Self {
        Self { base, size: size as usize, segment: PhantomData }
    }

    fn counter(&self, from: u32, to: u32) -> &AtomicU64 {
        assert!((from as usize) < self.size && (to as usize) < self.size);
        let index = to as usize * self.size + from as usize;
        // SAFETY: within the signals, as just checked; the memory is shared atomics only.
        unsafe { &*self.base.cast::<AtomicU64>().add(index) }
    }

    fn windows_of(&self, rank: u32) -> &[Entry] {
        assert!((rank as usize) < self.size);
        // SAFETY: within the board, as just checked. All but the places are atomics, and a place is read only as below.
        unsafe {
            let first = self.base.add(Self::signals(self.size)).cast::<Entry>().add(rank as usize * WINDOWS);
            std::slice::from_raw_parts(first, WINDOWS)
        }
    }

    /// Signals that `to` has got from `from` so far.
    pub(crate) fn received(&self, from: u32, to: u32) -> u64 {
        self.counter(from, to).load(Ordering::Acquire)
    }

    /// Adds a signal; a rank that sees it also sees everything written before.
    pub(crate) fn signal(&self, from: u32, to: u32) {
        self.counter(from, to).fetch_add(1, Ordering::AcqRel);
    }

    /// Publishes a window of `rank` itself; false if there is no room for it.
    pub(crate) fn post(&self, rank: u32, number: u64, window: &PeerWindow) -> bool {
        let free = |entry: &&Entry| entry.number.load(Ordering::Acquire) == 0;
        let Some(entry) = self.windows_of(rank).iter().find(free) else { return false };
        // SAFETY: only the owner writes, one window at a time, and an entry without a number is never read.
        unsafe { entry.place.get().write_volatile(window.place) };
        entry.bytes.store(window.bytes, Ordering::Relaxed);
        entry.address.store(window.address, Ordering::Relaxed);
        entry.number.store(number, Ordering::Release);
        true
    }

    /// Withdraws a window of `rank` itself.
    pub(crate) fn withdraw(&self, rank: u32, number: u64) {
        if let Some(entry) = self.entry(rank, number) {
            entry.number.store(0, Ordering::Release);
        }
    }

    /// Window `number` of `rank`, once it is registered.
    pub(crate) fn window(&self, rank: u32, number: u64) -> Option<PeerWindow> {
        let entry = self.entry(rank, number)?;
        // SAFETY: the entry was written before its number. A program that withdraws a window in use gets the check below.
        let place = unsafe { entry.place.get().read_volatile() };
        let (bytes, address) = (entry.bytes.load(Ordering::Relaxed), entry.address.load(Ordering::Relaxed));
        std::sync::atomic::fence(Ordering::Acquire);
        (entry.number.load(Ordering::Relaxed) == number).then_some(PeerWindow { place, address, bytes })
    }

    fn entry(&self, rank: u32, number: u64) -> Option<&Entry> {
        self.windows_of(rank).iter().find(|entry| entry.number.load(Ordering::Acquire) == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_there_until_it_is_withdrawn() {
        let mut memory = vec![[0u64; 8]; Board::bytes(2).div_ceil(64) + 1];
        let base = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: zeroed, long enough after the alignment, and held until the end.
        let board = unsafe { Board::new(base.add(base.align_offset(64)), 2) };
        let place = Place { file_id: 7, length: 4096, offset: 64, fd: 3, valid: 1 };
        let window = PeerWindow { place, address: 0x1000, bytes: 128 };
        assert!(board.post(1, 5, &window));
        assert_eq!((board.window(1, 5), board.window(1, 6), board.window(0, 5)), (Some(window), None, None));
        board.signal(0, 1);
        assert_eq!((board.received(0, 1), board.received(1, 0)), (1, 0));
        for number in 6..6 + WINDOWS as u64 - 1 {
            assert!(board.post(1, number, &window));
        }
        assert!(!board.post(1, 9999, &window), "the board is full");
        board.withdraw(1, 5);
        assert!(board.window(1, 5).is_none() && board.post(1, 9999, &window));
    }
}
