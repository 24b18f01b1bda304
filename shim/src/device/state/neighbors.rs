//! What monitors see of a simulated machine's GPUs: which processes use them, how much, and what they have used so far.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use dataplane::lock::Mutex;
use protocol::gpu::Gpu;

use super::board::{Entry, board, number};
use super::device::all;
use super::energy::{Ledger, Spent, Work};
use super::meter::{self, Meter};
use crate::settings::hybrid;

/// The use of a GPU by one process, as seen by a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    /// Its process id.
    pub(crate) pid: u32,
    /// Bytes that it holds.
    pub(crate) bytes: u64,
    /// Percentage of the last second during which one of its kernels ran.
    pub(crate) busy: u32,
    /// Bytes per second to the GPU, and from it.
    pub(crate) traffic: (u64, u64),
}

impl Holder {
    fn new(pid: u32, bytes: u64, meter: &Meter) -> Self {
        let now = meter::now();
        Self { pid, bytes, busy: meter.percent(now), traffic: meter.traffic(now) }
    }
}

/// The energy use of the GPU since a process first used or queried it; `None` beyond the number of GPUs that are
/// counted.
pub(crate) fn spent(gpu: &Gpu) -> Option<Spent> {
    let Some(board) = board() else {
        let device = all().iter().find(|device| device.gpu.rank == gpu.rank)?;
        let ledger = device.share.ledger()?;
        ledger.set_used(device.primary.is_active(), meter::now());
        return Some(ledger.spent(meter::now()));
    };
    board.living(number(gpu));
    if let Ok(Some(_turn)) = board.lock_if_free() {
        board.note_use(number(gpu));
    }
    Ledger::find(board.ledgers(), number(gpu), meter::now).map(|ledger| ledger.spent(meter::now()))
}

/// The work of the GPU since a process first used or queried it, including kernels that run at time `at`; `None` beyond the
/// number of GPUs that are counted.
pub(crate) fn work(gpu: &Gpu, at: u64) -> Option<Work> {
    let (work, running) = match board() {
        None => {
            let device = all().iter().find(|device| device.gpu.rank == gpu.rank)?;
            (device.share.ledger()?.work(), device.share.meter.running(at))
        }
        Some(board) => {
            let work = Ledger::find(board.ledgers(), number(gpu), meter::now)?.work();
            let running = board.living(number(gpu)).into_iter().map(|index| board.entries()[index].meter.running(at));
            (work, running.sum())
        }
    };
    Some(Work { active: work.active + running, ..work })
}

/// What this process holds of each GPU by its number, and the index of its entry, where CUDA is the real one.
static HELD: Mutex<BTreeMap<u32, (usize, u64)>> = Mutex::new(BTreeMap::new());

/// Records that this process holds `bytes` of a GPU by the real CUDA (mode `hybrid`).
pub(crate) fn hold(gpu: &Gpu, bytes: u64) {
    let mut held = HELD.lock();
    let (index, own) = held.entry(number(gpu)).or_default();
    *own = bytes;
    let Some(board) = board() else { return };
    if *index == 0
        && let Ok(_turn) = board.lock()
    {
        *index = board.claim(number(gpu)).unwrap_or(0);
    }
    if *index != 0 {
        board.all()[*index].bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Every process of the machine that uses the GPU, by id. If processes do not share a machine, that is at most this process.
pub(crate) fn holders(gpu: &Gpu) -> Vec<Holder> {
    let Some(board) = board() else {
        if hybrid::facts().is_some() {
            let own = HELD.lock().get(&number(gpu)).map(|(_, bytes)| *bytes);
            return own.map(|bytes| Holder::new(std::process::id(), bytes, &Meter::default())).into_iter().collect();
        }
        let own = all().iter().find(|device| device.gpu.rank == gpu.rank && device.primary.is_active());
        let own = own.map(|device| Holder::new(std::process::id(), device.taken(), &device.share.meter));
        return own.into_iter().collect();
    };
    let entries = board.entries();
    let holder = |index| {
        let entry: &Entry = &entries[index];
        Holder::new(entry.pid.load(Ordering::Relaxed), entry.bytes.load(Ordering::Relaxed), &entry.meter)
    };
    let mut holders: Vec<Holder> = board.living(number(gpu)).into_iter().map(holder).collect();
    holders.sort_unstable();
    holders
}
