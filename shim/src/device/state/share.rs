//! What this process uses of one GPU, written where the machine's other processes see it: on the board, if there is one.

use std::sync::atomic::{AtomicUsize, Ordering};

use dataplane::lock::Mutex;
use protocol::gpu::Gpu;

use super::board::{self, Board, number};
use super::energy::Ledger;
use super::meter::{self, Meter};

/// This process's entry for one GPU.
#[derive(Debug)]
pub(crate) struct Share {
    gpu: &'static Gpu,
    /// Index of the entry; 0 is none.
    index: AtomicUsize,
    /// Number of kernels running now, on any stream.
    running: Mutex<u32>,
    /// Used for counting if this process has no entry, or there is no board.
    pub(super) meter: Meter,
    ledger: [Ledger; 1],
}

impl Share {
    /// A share without an entry.
    pub(super) fn new(gpu: &'static Gpu) -> Self {
        Self {
            gpu,
            index: AtomicUsize::new(0),
            running: Mutex::default(),
            meter: Meter::default(),
            ledger: [Ledger::default()],
        }
    }

    /// Called when a kernel starts on the GPU.
    pub(crate) fn begin(&self) {
        let mut running = self.running.lock();
        *running += 1;
        if *running == 1 {
            self.metered(|meter| meter.begin(meter::now()));
        }
    }

    /// Called when a kernel has ended on the GPU. Returns the microseconds for which the GPU was busy, if it no longer is.
    pub(crate) fn end(&self) -> u64 {
        let mut running = self.running.lock();
        *running -= 1;
        if *running > 0 {
            return 0;
        }
        let mut busy = 0;
        self.metered(|meter| busy = meter.end(meter::now()));
        busy
    }

    /// Records bytes sent over PCIe to the GPU, or (`false`) from it.
    pub(crate) fn copied(&self, bytes: u64, to_gpu: bool) {
        // One at a time, as the meter wants it.
        let _turn = self.running.lock();
        self.metered(|meter| meter.copied(meter::now(), bytes, to_gpu));
        if let Some(ledger) = self.ledger() {
            ledger.copied(bytes, to_gpu);
        }
    }

    /// The ledger for the GPU.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        let ledgers = board::board().map_or(&self.ledger[..], Board::ledgers);
        Ledger::find(ledgers, number(self.gpu), meter::now)
    }

    /// Applies `body` to the meter in use: the entry's, if there is one.
    fn metered(&self, body: impl FnOnce(&Meter)) {
        match (self.index.load(Ordering::Acquire), board::board()) {
            (0, _) | (_, None) => body(&self.meter),
            (index, Some(board)) => body(&board.all()[index].meter),
        }
    }

    /// The entry's index; claims one if there is none. Call it under the board's lock.
    fn index(&self, board: &Board) -> Option<usize> {
        match self.index.load(Ordering::Acquire) {
            0 => board.claim(number(self.gpu)).inspect(|index| self.index.store(*index, Ordering::Release)),
            index => Some(index),
        }
    }

    /// Publishes that this process now holds `bytes` of the GPU.
    pub(crate) fn publish(&self, bytes: u64) {
        let Some(board) = board::board() else { return };
        let index = match self.index.load(Ordering::Acquire) {
            0 => board.lock().ok().and_then(|_turn| self.index(board)),
            index => Some(index),
        };
        if let Some(index) = index {
            board.entries()[index].bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Takes `bytes` of the GPU in total, if others leave that much of `limit`. False if they do not.
    pub(crate) fn take(&self, bytes: u64, limit: u64) -> bool {
        let Some(board) = board::board() else { return true };
        let gpu = number(self.gpu);
        for swept in [false, true] {
            if swept {
                board.living(gpu);
            }
            let Ok(_turn) = board.lock() else { return true };
            if board.others(gpu).saturating_add(bytes) <= limit {
                if let Some(index) = self.index(board) {
                    board.entries()[index].bytes.store(bytes, Ordering::Relaxed);
                }
                return true;
            }
        }
        false
    }

    /// Records that this process no longer uses the GPU.
    pub(crate) fn withdraw(&self) {
        let Some(board) = board::board() else { return };
        let index = self.index.swap(0, Ordering::AcqRel);
        if index != 0 {
            board.give_back(index);
            // Where another thread has the lock, the next look at the energy notes it.
            if let Ok(Some(_turn)) = board.lock_if_free() {
                board.note_use(number(self.gpu));
            }
        }
    }

    /// Bytes that other processes hold of the GPU.
    pub(crate) fn held_by_others(&self) -> u64 {
        let Some(board) = board::board() else { return 0 };
        board.living(number(self.gpu));
        board.others(number(self.gpu))
    }
}
