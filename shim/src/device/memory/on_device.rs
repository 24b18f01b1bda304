//! A device's memory: allocation, release, and what a pointer points into.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, OnceLock};

use abi::cuda::{CudaError, CudaResult};
use dataplane::arena::Arena;
use dataplane::lock::{Mutex, RwLock};
use dataplane::refusal;
use protocol::device_report::Left;
use protocol::profile::context_bytes;

use super::allocator::{Allocator, PAGE};
use super::freed::{Freed, Was};
use super::fresh;
use crate::device::{Device, all};
use crate::report::left;
use crate::sanitizer::{init, known, owner, races};

/// One device's memory.
#[derive(Debug)]
struct DeviceMemory {
    arena: OnceLock<Arena>,
    making: Mutex<()>,
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    allocator: Allocator,
    kinds: BTreeMap<usize, Kind>,
    freed: Freed,
}

/// How device memory was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cudaMalloc` and kin.
    Plain,
    /// `cudaMallocAsync`, from this pool.
    Pool(usize),
    /// The memory belongs to a graph node, identified by its own number.
    Graph(u64),
    /// `cudaMallocManaged`.
    Managed,
    /// `cuMemCreate`, seen through a mapping.
    Mapped,
    /// Memory of another process (CUDA IPC); in no arena of this process.
    Imported,
    /// A variable of the program (`__device__`), or an array: the program cannot free it by address.
    Internal,
}

/// Where a pointer points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    /// The device that has the memory.
    pub(crate) device: &'static Device,
    /// Offset of the pointer in the device's arena; `None` for memory in a file of its own, and that of another process.
    pub(crate) offset: Option<usize>,
    /// Address at which the allocation starts.
    pub(crate) base: usize,
    /// Bytes asked for.
    pub(crate) size: usize,
    /// Bytes from the pointer to the allocation's end.
    pub(crate) bytes_left: usize,
    /// How it was allocated.
    pub(crate) kind: Kind,
}

/// Arenas by address: (first byte, length, ordinal).
static ARENAS: RwLock<Vec<(usize, usize, u32)>> = RwLock::new(Vec::new());
impl DeviceMemory {
    fn new(device: &Device) -> Self {
        let capacity = device.capacity();
        let limit = (capacity - context_bytes(capacity)) as usize;
        let allocator = Allocator::new(limit, arena_length(capacity));
        Self {
            arena: OnceLock::new(),
            making: Mutex::new(()),
            book: Mutex::new(Book {
                allocator: allocator.with_gaps(if owner::is_exact() { GAP } else { 0 }),
                kinds: BTreeMap::new(),
                freed: Freed::new(),
            }),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }
}

/// The memory of a device.
fn memory_of(device: &Device) -> &'static DeviceMemory {
    static MEMORY: OnceLock<Vec<DeviceMemory>> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| {
        left::count_with(count_left);
        all().iter().map(DeviceMemory::new).collect()
    });
    &memory[device.ordinal as usize]
}

fn count_left(left: &mut Left) {
    for device in all() {
        let (allocations, bytes) = allocated(device);
        left.allocations += allocations;
        left.bytes += bytes;
    }
}

/// The memory file of a device, created at first use.
///
/// # Errors
/// `OPERATING_SYSTEM` if the system refuses it; reported on stderr.
pub(crate) fn arena_of(device: &Device) -> CudaResult<&'static Arena> {
    let memory = memory_of(device);
    if let Some(arena) = memory.arena.get() {
        return Ok(arena);
    }
    let _making = memory.making.lock();
    if let Some(arena) = memory.arena.get() {
        return Ok(arena);
    }
    let length = arena_length(device.capacity());
    let arena = Arena::create(&format!("fakegpu-device{}", device.ordinal), length).map_err(|error| {
        let what = format!("device {} cannot have a memory file of {length} bytes", device.ordinal);
        eprintln!("fakegpu: {}", refusal::explain(&what, &error));
        CudaError::OPERATING_SYSTEM
    })?;
    // As on a GPU, a forked child does not inherit device memory, and a core file does not hold it.
    for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP] {
        // SAFETY: the range is the mapping just made.
        unsafe { libc::madvise(arena.base().cast(), length, advice) };
    }
    let mut arenas = ARENAS.write();
    arenas.push((arena.base() as usize, length, device.ordinal));
    arenas.sort_unstable();
    Ok(memory.arena.get_or_init(|| arena))
}

/// (free, total) as reported by `cudaMemGetInfo`, if others hold `elsewhere` bytes.
pub(crate) fn info(device: &Device, elsewhere: u64) -> (u64, u64) {
    let book = memory_of(device).book();
    let left = (book.allocator.limit() - book.allocator.used()) as u64;
    (left.saturating_sub(elsewhere), device.capacity())
}

/// Allocations that the program has not freed, and their bytes.
fn allocated(device: &Device) -> (u64, u64) {
    let book = memory_of(device).book();
    let own = book.allocator.sizes().filter(|(offset, _)| book.kinds.get(offset) != Some(&Kind::Internal));
    own.fold((0, 0), |(count, bytes), (_, size)| (count + 1, bytes + size as u64))
}

/// Gap between allocations in bytes, if kernels are checked for out-of-bounds accesses.
const GAP: usize = 512;

/// Addresses are twice the memory, so that holes between allocations do not matter (see `Allocator::new`).
fn arena_length(capacity: u64) -> usize {
    (capacity * 2) as usize
}

/// Allocates `size` bytes on `device`. A size of 0 gives a null pointer, as CUDA does.
///
/// # Errors
/// `MEMORY_ALLOCATION` if the device's memory is used up; `OPERATING_SYSTEM`.
pub(crate) fn allocate(device: &'static Device, size: usize, kind: Kind) -> CudaResult<usize> {
    crate::report::used();
    if size == 0 {
        return Ok(0);
    }
    let arena = arena_of(device)?;
    let mut book = memory_of(device).book();
    let before = book.allocator.used();
    let Some(offset) = book.allocator.allocate(size) else {
        device.counters.refused.add(size as u64);
        return Err(CudaError::MEMORY_ALLOCATION);
    };
    let used = book.allocator.used();
    let capacity = device.capacity();
    if used > before && !device.share.take(used as u64 + context_bytes(capacity), capacity) {
        book.allocator.free(offset);
        device.counters.refused.add(size as u64);
        return Err(CudaError::MEMORY_ALLOCATION);
    }
    device.pages.store(used as u64, Ordering::Relaxed);
    device.counters.most_pages.fetch_max(used as u64, Ordering::Relaxed);
    if kind != Kind::Plain {
        book.kinds.insert(offset, kind);
    }
    book.freed.reuse(offset, size);
    drop(book);
    device.counters.held.take(size as u64);
    device.counters.allocations.add(size as u64);
    let address = arena.base() as usize + offset;
    // The host may write managed memory, and variables begin with what the program says.
    if matches!(kind, Kind::Plain | Kind::Pool(_)) {
        fresh::allocated(address, size);
        known::handed_out(address, size);
    }
    if !fresh::is_sublet() {
        races::handed_out(address, size);
    }
    Ok(address)
}

/// Releases the allocation that starts at `address`, if it is device memory that the program may free.
///
/// # Errors
/// `INVALID_VALUE` if no allocation starts there, or it is already freed.
pub(crate) fn free(address: usize) -> CudaResult {
    let Some((device, offset)) = arena_at(address) else { return Err(CudaError::INVALID_VALUE) };
    let arena = arena_of(device)?;
    let mut book = memory_of(device).book();
    if book.kinds.get(&offset) == Some(&Kind::Internal) {
        return Err(CudaError::INVALID_VALUE);
    }
    release(device, arena, &mut book, offset, false)
}

/// Releases everything on the device, as `cudaDeviceReset` does.
///
/// # Errors
/// `OPERATING_SYSTEM`.
pub(crate) fn reset(device: &Device) -> CudaResult {
    let memory = memory_of(device);
    let Some(arena) = memory.arena.get() else { return Ok(()) };
    let mut book = memory.book();
    for offset in book.allocator.starts() {
        if book.kinds.get(&offset) != Some(&Kind::Internal) {
            release(device, arena, &mut book, offset, true)?;
        }
    }
    Ok(())
}

/// Releases memory of kind `Internal`.
pub(crate) fn free_internal(address: usize) {
    if let Some((device, offset)) = arena_at(address)
        && let Ok(arena) = arena_of(device)
    {
        let _ = release(device, arena, &mut memory_of(device).book(), offset, false);
    }
}

/// Releases memory of this kind, which belongs to a graph, unless a reset already did.
pub(crate) fn free_graph(address: usize, kind: Kind) {
    if let Some((device, offset)) = arena_at(address)
        && let Ok(arena) = arena_of(device)
    {
        let mut book = memory_of(device).book();
        if book.kinds.get(&offset) == Some(&kind) {
            let _ = release(device, arena, &mut book, offset, false);
        }
    }
}

fn release(device: &Device, arena: &Arena, book: &mut Book, offset: usize, by_reset: bool) -> CudaResult {
    let freed = book.allocator.free(offset).ok_or(CudaError::INVALID_VALUE)?;
    let site = owner::site(arena.base() as usize + offset);
    races::forget(arena.base() as usize + offset, freed.size);
    init::freed(arena.base() as usize + offset, freed.size);
    known::freed(arena.base() as usize + offset, freed.size);
    if book.kinds.remove(&offset) != Some(Kind::Internal) {
        book.freed.add(offset, freed.size, by_reset, site);
    }
    device.pages.store(book.allocator.used() as u64, Ordering::Relaxed);
    if freed.pages.is_some() {
        device.share.publish(device.taken());
    }
    // Under the lock: these pages must not be given out before they are empty.
    if let Some((start, length)) = freed.pages
        && let Err(error) = arena.release(start, length)
    {
        eprintln!("fakegpu: {length} freed bytes of device {} stay in use: {error}", device.ordinal);
    }
    device.counters.held.give_back(freed.size as u64);
    device.counters.frees.add(freed.size as u64);
    Ok(())
}

/// Gives the host's memory under these bytes back, as far as they fill pages. They read as zero afterwards.
pub(crate) fn vacate(address: usize, bytes: usize) {
    const PAGE: usize = 4096;
    let (start, end) = (address.next_multiple_of(PAGE), (address + bytes) / PAGE * PAGE);
    if start < end
        && let Some((device, offset)) = arena_at(start)
        && let Ok(arena) = arena_of(device)
    {
        // If the system refuses, they stay in use, as before.
        let _ = arena.release(offset, end - start);
    }
}

fn arena_at(address: usize) -> Option<(&'static Device, usize)> {
    let arenas = ARENAS.read();
    let index = arenas.partition_point(|(base, _, _)| *base <= address).checked_sub(1)?;
    let (base, length, ordinal) = arenas[index];
    (address - base < length).then(|| (&all()[ordinal as usize], address - base))
}

/// What `address` points into in this process's arenas: `None` outside them, `Some(None)` if nothing is allocated there.
pub(crate) fn in_arena(address: usize) -> Option<Option<Location>> {
    let (device, offset) = arena_at(address)?;
    let book = memory_of(device).book();
    let found = book.allocator.find(offset).map(|(start, size)| {
        let kind = book.kinds.get(&start).copied().unwrap_or(Kind::Plain);
        Location {
            device,
            offset: Some(offset),
            base: address - (offset - start),
            size,
            bytes_left: start + size - offset,
            kind,
        }
    });
    Some(found)
}

/// What is known about an arena address at which nothing is allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trace {
    /// `at` bytes into an allocation that was freed.
    Freed { device: u32, at: usize, was: Was },
    /// The gap `distance` bytes after a live allocation of `size` bytes.
    Behind { device: u32, size: usize, distance: usize },
    /// There is nothing near the address.
    Nowhere { device: u32 },
}

/// What used to be at `address`, in an arena of this process.
pub(crate) fn trace(address: usize) -> Option<Trace> {
    let (found, offset) = arena_at(address)?;
    let (device, book) = (found.ordinal, memory_of(found).book());
    if let Some(was) = book.freed.find(offset) {
        return Some(Trace::Freed { device, at: offset - was.start, was });
    }
    let behind = book.allocator.before(offset).map(|(start, size)| (size, offset - (start + size)));
    Some(match behind.filter(|(_, distance)| *distance < PAGE) {
        Some((size, distance)) => Trace::Behind { device, size, distance },
        None => Trace::Nowhere { device },
    })
}
