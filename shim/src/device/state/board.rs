//! The board of a simulated machine: a small file that all of its processes map (`FTEST_GPUS`), with an entry per process and GPU.
//! Before the entries, it holds when health events of the GPUs happened (`health`), and the use of each GPU (`energy`).
//! An entry is alive as long as its process holds the lock of the entry's byte (fcntl(2)): the kernel releases it when the process
//! dies or execs, whatever killed it, and a forked child does not inherit it. Process ids are not trusted for this.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{MutexGuard, OnceLock};

use dataplane::lock::Mutex;
use dataplane::refusal;
use protocol::gpu::Gpu;
use protocol::gpu_event::board as layout;

use super::energy::Ledger;
use super::meter::{self, Meter};
use crate::settings::hybrid;

/// Number of entries: processes times the GPUs that each uses.
const ENTRIES: usize = 8192;
/// Offset of the byte whose lock serializes allocations; the entries' bytes follow it.
const ALLOCATION: i64 = 0;

/// What one process uses of one GPU.
#[repr(C)]
pub(super) struct Entry {
    /// 0 if free, else the GPU.
    pub(crate) gpu: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) bytes: AtomicU64,
    pub(crate) meter: Meter,
}

/// Number of GPUs, over all simulated machines, whose energy is counted.
const LEDGERS: usize = 1024;
const LEDGERS_AT: usize = layout::BYTES;
const ENTRIES_AT: usize = LEDGERS_AT + LEDGERS * size_of::<Ledger>();
const LENGTH: usize = ENTRIES_AT + ENTRIES * size_of::<Entry>();

/// When events happened to the GPUs, at the start of the file: [`layout`] defines the offsets.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Times {
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
pub(super) fn times() -> &'static Times {
    static OWN: Times = Times::new();
    board().map_or(&OWN, Board::times)
}

/// The file, mapped.
pub(super) struct Board {
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

/// The number of a GPU among those of all simulated machines.
pub(super) fn number(gpu: &Gpu) -> u32 {
    (gpu.node << 16 | gpu.local) + 1
}

/// The machine's board; `None` if processes do not share a machine.
pub(super) fn board() -> Option<&'static Board> {
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
    fn open(path: &Path) -> io::Result<Self> {
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
    pub(super) fn entries(&self) -> &[Entry] {
        let most = self.all()[0].pid.load(Ordering::Acquire) as usize;
        &self.all()[..(most + 1).min(ENTRIES)]
    }

    /// All entries, used or not.
    pub(super) fn all(&self) -> &[Entry] {
        // SAFETY: the mapping has so many entries, is never unmapped, and is only reached through atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(ENTRIES_AT).cast::<Entry>(), ENTRIES) }
    }

    /// The ledgers of the GPUs.
    pub(super) fn ledgers(&self) -> &[Ledger] {
        // SAFETY: as for the entries, which follow them.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(LEDGERS_AT).cast::<Ledger>(), LEDGERS) }
    }

    /// Records in the ledger of a GPU whether some process has an entry for it. Call it under the lock.
    pub(super) fn note_use(&self, gpu: u32) {
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
    pub(super) fn lock(&self) -> io::Result<AllocationLock<'_>> {
        let guard = self.allocation.lock();
        self.fcntl(libc::F_SETLKW, libc::F_WRLCK, ALLOCATION)?;
        Ok(AllocationLock { board: self, _guard: guard })
    }

    /// [`Board::lock`], unless another thread has it.
    pub(super) fn lock_if_free(&self) -> io::Result<Option<AllocationLock<'_>>> {
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
    pub(super) fn living(&self, gpu: u32) -> Vec<usize> {
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
    pub(super) fn claim(&self, gpu: u32) -> Option<usize> {
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

    /// Frees an entry of this process.
    pub(super) fn give_back(&self, index: usize) {
        self.entries()[index].gpu.store(0, Ordering::Release);
        let _ = self.fcntl(libc::F_SETLK, libc::F_UNLCK, byte_of(index));
    }

    /// Bytes of a GPU held by others, judging by the entries alone.
    pub(super) fn others(&self, gpu: u32) -> u64 {
        let own = std::process::id();
        let of_others =
            |entry: &&Entry| entry.gpu.load(Ordering::Acquire) == gpu && entry.pid.load(Ordering::Relaxed) != own;
        self.entries()[1..].iter().filter(of_others).map(|entry| entry.bytes.load(Ordering::Relaxed)).sum()
    }
}

fn byte_of(index: usize) -> i64 {
    index as i64 + 1
}

/// The lock that serializes allocations, until dropped.
pub(super) struct AllocationLock<'a> {
    board: &'a Board,
    _guard: MutexGuard<'a, ()>,
}

impl Drop for AllocationLock<'_> {
    fn drop(&mut self) {
        let _ = self.board.fcntl(libc::F_SETLK, libc::F_UNLCK, ALLOCATION);
    }
}
