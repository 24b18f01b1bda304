//! Memory and events shared between processes of one machine (CUDA IPC): the owner's allocation is a range of its memory file,
//! which the other process opens through `/proc` and maps.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::MutexGuard;

use abi::cuda::{CudaError, CudaResult};
use dataplane::call::Place;
use dataplane::lock::Mutex;
use dataplane::refusal;

use crate::device::memory::{self, Kind, Location};
use crate::device::work::event;
use crate::device::{Device, all};
use crate::sanitizer::init;

/// Bytes of a `cudaIpcMemHandle_t` and a `cudaIpcEventHandle_t`.
const HANDLE_SIZE: usize = 64;

/// `cudaIpcMemHandle_t`, `CUipcMemHandle`, and the same for events: opaque to programs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle([u64; HANDLE_SIZE / 8]);

const MEMORY: u64 = u64::from_le_bytes(*b"ftestmem");
const EVENT: u64 = u64::from_le_bytes(*b"ftestevt");
const PAGE: usize = 4096;

/// Memory of another process, mapped here.
#[derive(Debug)]
struct Opened {
    /// The handle of the owner's allocation, so that opening it twice gives the same address.
    handle: Handle,
    times: u32,
    /// The mapping: whole pages around the allocation.
    mapped: (usize, usize),
    size: usize,
    device: u32,
}

static OPENED: Mutex<BTreeMap<usize, Opened>> = Mutex::new(BTreeMap::new());

fn opened() -> MutexGuard<'static, BTreeMap<usize, Opened>> {
    OPENED.lock()
}

/// The handle of the allocation that `address` points into.
///
/// # Errors
/// `INVALID_VALUE` for anything except memory from `cudaMalloc`; virtual mappings are shared through their own calls.
pub(crate) fn export(address: usize) -> CudaResult<Handle> {
    let location = memory::in_arena(address).flatten().ok_or(CudaError::INVALID_VALUE)?;
    if location.kind != Kind::Plain {
        return Err(CudaError::INVALID_VALUE);
    }
    let arena = memory::arena_of(location.device)?;
    let offset = location.base - arena.base() as usize;
    let owner = u64::from(std::process::id()) << 32 | arena.fd() as u64;
    let device = u64::from(location.device.ordinal);
    // The other process may write all of it.
    init::shared(location.base, location.size);
    Ok(Handle([MEMORY, owner, arena.file_id(), offset as u64, location.size as u64, device, 0, 0]))
}

/// Maps the allocation behind `handle` as memory of `device`.
///
/// # Errors
/// `INVALID_HANDLE` for an invalid handle, `INVALID_CONTEXT` in the process that owns the memory, `MAP_FAILED` if the
/// owner is gone or its memory cannot be mapped.
pub(crate) fn open(handle: Handle, device: &Device) -> CudaResult<usize> {
    let [kind, owner, file_id, offset, size, ..] = handle.0;
    if kind != MEMORY {
        return Err(CudaError::INVALID_HANDLE);
    }
    let (pid, fd) = (owner >> 32, owner as u32);
    if pid == u64::from(std::process::id()) {
        return Err(CudaError::INVALID_CONTEXT);
    }
    let mut opened = opened();
    if let Some((address, known)) = opened.iter_mut().find(|(_, known)| known.handle.0 == handle.0) {
        known.times += 1;
        return Ok(*address);
    }
    let place = format!("/proc/{pid}/fd/{fd}");
    let file = OpenOptions::new().read(true).write(true).open(place).map_err(|_| CudaError::MAP_FAILED)?;
    // A number of a process and a descriptor may have been given out anew; the file's own number is not.
    if file.metadata().map_or(0, |status| status.ino()) != file_id {
        return Err(CudaError::MAP_FAILED);
    }
    let (offset, size) = (offset as usize, size as usize);
    let within = offset % PAGE;
    let length = (within + size).next_multiple_of(PAGE);
    let base = map(&file, offset - within, length)?;
    opened.insert(base + within, Opened { handle, times: 1, mapped: (base, length), size, device: device.ordinal });
    crate::report::used();
    Ok(base + within)
}

/// Maps `size` bytes at `offset` of the memory file that process `pid` holds as `fd`, as memory of `device`; [`close`] undoes
/// it.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_range(place: &Place, pid: u32, size: usize, device: &Device) -> CudaResult<usize> {
    let owner = u64::from(pid) << 32 | place.fd as u64;
    open(Handle([MEMORY, owner, place.file_id, place.offset, size as u64, u64::from(device.ordinal), 0, 0]), device)
}

/// Maps a range of a memory file.
///
/// # Errors
/// `MAP_FAILED`
pub(super) fn map(file: &File, offset: usize, length: usize) -> CudaResult<usize> {
    // SAFETY: a fresh shared mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED {
        refusal::explain("another process's memory cannot be mapped", &std::io::Error::last_os_error());
        return Err(CudaError::MAP_FAILED);
    }
    Ok(base as usize)
}

/// Undoes one [`open`]; the last one unmaps.
///
/// # Errors
/// `INVALID_VALUE` if nothing was opened at `address`.
pub(crate) fn close(address: usize) -> CudaResult {
    let mut opened = opened();
    let known = opened.get_mut(&address).ok_or(CudaError::INVALID_VALUE)?;
    known.times -= 1;
    if known.times == 0 {
        let (base, length) = known.mapped;
        opened.remove(&address);
        // SAFETY: the mapping that `open` made, in the table until now; the program gave its last use of it up.
        unsafe { libc::munmap(base as *mut libc::c_void, length) };
    }
    Ok(())
}

/// The memory of another process that `address` points into.
pub(crate) fn locate(address: usize) -> Option<Location> {
    let opened = opened();
    let (base, known) = opened.range(..=address).next_back()?;
    let within = address - base;
    (within < known.size).then(|| Location {
        device: &all()[known.device as usize],
        offset: None,
        base: *base,
        size: known.size,
        bytes_left: known.size - within,
        kind: Kind::Imported,
    })
}

/// The handle of an event, once its latest record is reached, so that what another process waits for is already done.
///
/// # Errors
/// `INVALID_HANDLE`; `INVALID_VALUE` for an event not created for sharing (`cudaEventInterprocess`).
pub(crate) fn export_event(handle: usize) -> CudaResult<Handle> {
    let event = event::resolve(handle)?;
    event.share()?;
    Ok(Handle([EVENT, u64::from(std::process::id()) << 32, 0, 0, 0, 0, 0, 0]))
}

/// An event of this process that mirrors one of another.
///
/// # Errors
/// `INVALID_HANDLE` for anything that is not the handle of an event.
pub(crate) fn open_event(handle: Handle, device: &Device) -> CudaResult<usize> {
    if handle.0[0] != EVENT {
        return Err(CudaError::INVALID_HANDLE);
    }
    Ok(event::create(device, event::Use { has_timing: false, is_interprocess: true }))
}
