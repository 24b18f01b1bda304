//! The use of a simulated machine's GPUs by its processes: a small file that all of them map (`FTEST_GPUS`), with an
//! entry per process and GPU. So a device's memory is shared, and a monitor sees every process.
//!
//! Before the entries, the file holds when health events of the GPUs happened ([`super::health`]), and the use of each GPU
//! ([`super::energy`]).
//!
//! An entry is alive as long as its process holds the lock of the entry's byte (fcntl(2)): the kernel releases it when the
//! process dies or execs, whatever killed it, and a forked child does not inherit it. Process ids are not trusted for this.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{MutexGuard, OnceLock};

use dataplane::lock::Mutex;
use dataplane::refusal;
use protocol::gpu_event::board as layout;

use super::energy::{Ledger, Spent, Work};
use super::meter::{self, Meter};
use super::{Device, all};
use crate::settings::hybrid;
use protocol::gpu::Gpu;

/// Number of entries: processes times the GPUs that each uses.
const ENTRIES: usize = 8192;
/// Offset of the byte whose lock serializes allocations; the entries' bytes follow it.
const ALLOCATION: i64 = 0;

#[repr(C)]
struct Entry {
    /// 0 if free, else the GPU.
    gpu: AtomicU32,
    pid: AtomicU32,
    bytes: AtomicU64,
    meter: Meter,
}

/// Number of GPUs, over all simulated machines, whose energy is counted.
const LEDGERS: usize = 1024;
const LEDGERS_AT: usize = layout::BYTES;
const ENTRIES_AT: usize = LEDGERS_AT + LEDGERS * size_of::<Ledger>();
const LENGTH: usize = ENTRIES_AT + ENTRIES * size_of::<Entry>();

/// When events happened to the GPUs, at the start of the file: [`layout`] defines the offsets.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Times {
    /// When a process first called; us of [`meter::now`].
    pub(crate) start: AtomicU64,
    /// Changes when an event happens, for waiters.
    pub(crate) changes: AtomicU32,
    _unused: u32,
    /// When each event at a collective happened, by slot.
    pub(crate) happened: [AtomicU64; layout::SLOTS],
}

const _: () = assert!(std::mem::offset_of!(Times, start) == layout::START);
const _: () = assert!(std::mem::offset_of!(Times, happened) == layout::HAPPENED);
const _: () = assert!(size_of::<Times>() <= LEDGERS_AT && LEDGERS_AT.is_multiple_of(align_of::<Ledger>()));
const _: () = assert!(ENTRIES_AT.is_multiple_of(align_of::<Entry>()));

impl Times {
    const fn new() -> Self {
        let happened = [const { AtomicU64::new(0) }; layout::SLOTS];
        Self { start: AtomicU64::new(0), changes: AtomicU32::new(0), _unused: 0, happened }
    }
}

/// The times of the machine, or of this process if processes do not share a machine.
pub(crate) fn times() -> &'static Times {
    static OWN: Times = Times::new();
    board().map_or(&OWN, Board::times)
}

struct Board {
    file: File,
    /// Where the file is mapped: [`Times`], the ledgers, then the entries.
    base: NonNull<u8>,
    /// Locks of a file belong to the process, not to a thread.
    allocation: Mutex<()>,
}

// SAFETY: the mapping is only reached through atomics, and is never unmapped.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// This process's entry for one device.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Index of the entry; 0 is none.
    index: AtomicUsize,
    /// Number of kernels running now, on any stream.
    running: Mutex<u32>,
    /// Used for counting if this process has no entry, or there is no board.
    meter: Meter,
    ledger: [Ledger; 1],
}

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

/// Called when a kernel starts on the device.
pub(super) fn begin(device: &Device) {
    let mut running = device.share.running.lock();
    *running += 1;
    if *running == 1 {
        device.share.metered(|meter| meter.begin(meter::now()));
    }
}

/// Called when a kernel has ended on the device. Returns the microseconds for which the device was busy, if it no
/// longer is.
pub(super) fn end(device: &Device) -> u64 {
    let mut running = device.share.running.lock();
    *running -= 1;
    if *running > 0 {
        return 0;
    }
    let mut busy = 0;
    device.share.metered(|meter| busy = meter.end(meter::now()));
    busy
}

/// Records bytes sent over PCIe to the device, or (`false`) from it.
pub(crate) fn copied(device: &Device, bytes: u64, to_gpu: bool) {
    // One at a time, as the meter wants it.
    let _turn = device.share.running.lock();
    device.share.metered(|meter| meter.copied(meter::now(), bytes, to_gpu));
    if let Some(ledger) = ledger(device) {
        ledger.copied(bytes, to_gpu);
    }
}

/// The number of a GPU among those of all simulated machines.
fn number(gpu: &Gpu) -> u32 {
    (gpu.node << 16 | gpu.local) + 1
}

/// The ledger for the GPU of a device.
pub(super) fn ledger(device: &Device) -> Option<&Ledger> {
    let ledgers = board().map_or(&device.share.ledger[..], Board::ledgers);
    Ledger::find(ledgers, number(device.gpu), meter::now)
}

/// The machine's board; `None` if processes do not share a machine.
fn board() -> Option<&'static Board> {
    static BOARD: OnceLock<Option<Board>> = OnceLock::new();
    let board = BOARD.get_or_init(|| {
        let path = PathBuf::from(hybrid::variable(protocol::env::GPUS.name).filter(|path| !path.is_empty())?);
        match Board::open(&path) {
            Ok(board) => Some(board),
            Err(error) => {
                let what = format!(
                    "{}={}: what other processes hold on the GPUs is not seen",
                    protocol::env::GPUS.name,
                    path.display()
                );
                eprintln!("fakegpu: {}", refusal::explain(&what, &error));
                None
            }
        }
    });
    board.as_ref()
}

impl Board {
    fn open(path: &std::path::Path) -> io::Result<Self> {
        // Rust's files are closed on exec, which gives the locks back.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() < LENGTH as u64 {
            refusal::with_file_size(LENGTH as u64, || file.set_len(LENGTH as u64))?;
        }
        // SAFETY: a fresh shared mapping of a file that has this length.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), LENGTH, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        let base = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED);
        let board = Self { file, base: base.ok_or_else(io::Error::last_os_error)?, allocation: Mutex::new(()) };
        // What has this process's id is of a program that it was before exec, or of a process long gone.
        let _turn = board.lock()?;
        for entry in board.entries()[1..].iter().filter(|entry| entry.pid.load(Ordering::Relaxed) == std::process::id())
        {
            entry.gpu.store(0, Ordering::Release);
        }
        drop(_turn);
        Ok(board)
    }

    /// The entries that were ever used. The first one only holds their number.
    fn entries(&self) -> &[Entry] {
        let most = self.all()[0].pid.load(Ordering::Acquire) as usize;
        &self.all()[..(most + 1).min(ENTRIES)]
    }

    fn all(&self) -> &[Entry] {
        // SAFETY: the mapping has so many entries, is never unmapped, and is only reached through atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(ENTRIES_AT).cast::<Entry>(), ENTRIES) }
    }

    fn ledgers(&self) -> &[Ledger] {
        // SAFETY: as for the entries, which follow them.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(LEDGERS_AT).cast::<Ledger>(), LEDGERS) }
    }

    /// Records in the ledger of a GPU whether some process has an entry for it. Call it under the lock.
    fn note_use(&self, gpu: u32) {
        if let Some(ledger) = Ledger::find(self.ledgers(), gpu, meter::now) {
            let is_used = self.entries()[1..].iter().any(|entry| entry.gpu.load(Ordering::Acquire) == gpu);
            ledger.set_used(is_used, meter::now());
        }
    }

    fn times(&self) -> &Times {
        // SAFETY: the mapping begins with it, is never unmapped, and is only reached through atomics.
        unsafe { self.base.cast::<Times>().as_ref() }
    }

    /// Sets or queries the lock of one byte.
    fn fcntl(&self, command: i32, kind: i32, byte: i64) -> io::Result<libc::flock> {
        // SAFETY: all-zero is a value of this plain C struct.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        (lock.l_start, lock.l_len) = (byte, 1);
        loop {
            // SAFETY: the descriptor is open and the struct lives for the call.
            if unsafe { libc::fcntl(self.file.as_raw_fd(), command, &raw mut lock) } == 0 {
                return Ok(lock);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// While held, no other thread allocates, in this process or another. The holder does nothing that waits.
    fn lock(&self) -> io::Result<AllocationLock<'_>> {
        let guard = self.allocation.lock();
        self.fcntl(libc::F_SETLKW, libc::F_WRLCK, ALLOCATION)?;
        Ok(AllocationLock { board: self, _guard: guard })
    }

    /// [`Board::lock`], unless another thread has it.
    fn lock_if_free(&self) -> io::Result<Option<AllocationLock<'_>>> {
        let Some(guard) = self.allocation.try_lock() else { return Ok(None) };
        self.fcntl(libc::F_SETLKW, libc::F_WRLCK, ALLOCATION)?;
        Ok(Some(AllocationLock { board: self, _guard: guard }))
    }

    /// Whether the process of the entry at `index` is alive.
    fn is_alive(&self, index: usize) -> bool {
        let entry = &self.entries()[index];
        // Its own locks are nothing that a process has to wait for.
        entry.pid.load(Ordering::Relaxed) == std::process::id()
            || self
                .fcntl(libc::F_GETLK, libc::F_WRLCK, byte_of(index))
                .is_ok_and(|lock| i32::from(lock.l_type) != libc::F_UNLCK)
    }

    /// Indices of the living entries of a GPU; those of the dead are freed.
    fn living(&self, gpu: u32) -> Vec<usize> {
        let of_gpu = |index: &usize| self.entries()[*index].gpu.load(Ordering::Acquire) == gpu;
        let (alive, dead): (Vec<_>, Vec<_>) =
            (1..self.entries().len()).filter(of_gpu).partition(|index| self.is_alive(*index));
        // In a forked child the lock may stay taken forever; the entries of dead processes are freed by the next look.
        if !dead.is_empty()
            && let Ok(Some(_turn)) = self.lock_if_free()
        {
            for index in dead.into_iter().filter(|index| of_gpu(index) && !self.is_alive(*index)) {
                self.entries()[index].gpu.store(0, Ordering::Release);
            }
            self.note_use(gpu);
        }
        alive
    }

    /// Claims a free entry for this process. Call it under the lock.
    fn claim(&self, gpu: u32) -> Option<usize> {
        let entries = self.all();
        let index = (1..ENTRIES).find(|index| entries[*index].gpu.load(Ordering::Acquire) == 0)?;
        self.fcntl(libc::F_SETLK, libc::F_WRLCK, byte_of(index)).ok()?;
        entries[index].bytes.store(0, Ordering::Relaxed);
        entries[index].meter.clear();
        entries[index].pid.store(std::process::id(), Ordering::Relaxed);
        entries[index].gpu.store(gpu, Ordering::Release);
        entries[0].pid.fetch_max(index as u32, Ordering::AcqRel);
        self.note_use(gpu);
        Some(index)
    }

    /// Bytes of a GPU held by others, judging by the entries alone.
    fn others(&self, gpu: u32) -> u64 {
        let own = std::process::id();
        let of_others =
            |entry: &&Entry| entry.gpu.load(Ordering::Acquire) == gpu && entry.pid.load(Ordering::Relaxed) != own;
        self.entries()[1..].iter().filter(of_others).map(|entry| entry.bytes.load(Ordering::Relaxed)).sum()
    }
}

fn byte_of(index: usize) -> i64 {
    index as i64 + 1
}

struct AllocationLock<'a> {
    board: &'a Board,
    _guard: MutexGuard<'a, ()>,
}

impl Drop for AllocationLock<'_> {
    fn drop(&mut self) {
        let _ = self.board.fcntl(libc::F_SETLK, libc::F_UNLCK, ALLOCATION);
    }
}

impl Share {
    /// Applies `body` to the meter in use: the entry's, if there is one.
    fn metered(&self, body: impl FnOnce(&Meter)) {
        match (self.index.load(Ordering::Acquire), board()) {
            (0, _) | (_, None) => body(&self.meter),
            (index, Some(board)) => body(&board.all()[index].meter),
        }
    }

    /// The entry's index; claims one if there is none. Call it under the board's lock.
    fn index(&self, board: &Board, gpu: u32) -> Option<usize> {
        match self.index.load(Ordering::Acquire) {
            0 => board.claim(gpu).inspect(|index| self.index.store(*index, Ordering::Release)),
            index => Some(index),
        }
    }
}

/// Publishes that this process now holds `bytes` of the device.
pub(crate) fn publish(device: &Device, bytes: u64) {
    let Some(board) = board() else { return };
    let index = match device.share.index.load(Ordering::Acquire) {
        0 => board.lock().ok().and_then(|_turn| device.share.index(board, number(device.gpu))),
        index => Some(index),
    };
    if let Some(index) = index {
        board.entries()[index].bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Takes `bytes` of the device in total, if others leave that much of `limit`. False if they do not.
pub(crate) fn take(device: &Device, bytes: u64, limit: u64) -> bool {
    let Some(board) = board() else { return true };
    let gpu = number(device.gpu);
    for swept in [false, true] {
        if swept {
            board.living(gpu);
        }
        let Ok(_turn) = board.lock() else { return true };
        if board.others(gpu).saturating_add(bytes) <= limit {
            if let Some(index) = device.share.index(board, gpu) {
                board.entries()[index].bytes.store(bytes, Ordering::Relaxed);
            }
            return true;
        }
    }
    false
}

/// Records that this process no longer uses the device.
pub(crate) fn withdraw(device: &Device) {
    let Some(board) = board() else { return };
    let index = device.share.index.swap(0, Ordering::AcqRel);
    if index != 0 {
        board.entries()[index].gpu.store(0, Ordering::Release);
        let _ = board.fcntl(libc::F_SETLK, libc::F_UNLCK, byte_of(index));
        // Where another thread has the lock, the next look at the energy notes it.
        if let Ok(Some(_turn)) = board.lock_if_free() {
            board.note_use(number(device.gpu));
        }
    }
}

/// The energy use of the GPU since a process first used or queried it; `None` beyond the number of GPUs that are
/// counted.
pub(crate) fn spent(gpu: &Gpu) -> Option<Spent> {
    let Some(board) = board() else {
        let device = all().iter().find(|device| device.gpu.rank == gpu.rank)?;
        let ledger = ledger(device)?;
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
            (ledger(device)?.work(), device.share.meter.running(at))
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

/// Bytes that other processes hold of the device.
pub(crate) fn held_by_others(device: &Device) -> u64 {
    let Some(board) = board() else { return 0 };
    board.living(number(device.gpu));
    board.others(number(device.gpu))
}

/// Every process of the machine that uses the GPU, by id. If processes do not share a machine, that is at most this process.
pub(crate) fn holders(gpu: &Gpu) -> Vec<Holder> {
    let Some(board) = board() else {
        if hybrid::facts().is_some() {
            let own = HELD.lock().get(&number(gpu)).map(|(_, bytes)| *bytes);
            return own.map(|bytes| Holder::new(std::process::id(), bytes, &Meter::default())).into_iter().collect();
        }
        let own = all().iter().find(|device| device.gpu.rank == gpu.rank && device.primary.is_active());
        let own = own.map(|device| Holder::new(std::process::id(), device.memory.taken(), &device.share.meter));
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
