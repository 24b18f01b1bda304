//! Device memory that processes share as a file descriptor (`cuMemExportToShareableHandle`): a memory file of its own, whose last page
//! says what it is.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use abi::cuda::{CudaError, CudaResult};
use dataplane::arena::Arena;
use dataplane::refusal;

use super::allocator::PAGE;
use crate::device::memory;
use crate::device::{self, Device, all};

/// The first word of the last page.
const MAGIC: u64 = u64::from_le_bytes(*b"ftestvmm");

/// Memory that was exported, or can be.
#[derive(Debug)]
pub(super) struct Shareable {
    file: File,
    /// The range of the device's own memory that counts it, in the process that made it.
    pub(super) counted: Option<usize>,
}

impl Shareable {
    /// What is in `size` bytes of memory at `address`, in a file. The range goes on counting it.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION` if the system has no room for the file.
    pub(super) fn from_memory(device: &'static Device, address: usize, size: usize) -> CudaResult<Self> {
        let file = new_file(device, address, size).map_err(|error| {
            refusal::explain("memory to share cannot be created", &error);
            CudaError::MEMORY_ALLOCATION
        })?;
        Ok(Self { file, counted: Some(address) })
    }

    /// The memory behind a descriptor: its device here, its bytes, and itself.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it is not such memory.
    pub(super) fn import(fd: i32) -> CudaResult<(&'static Device, usize, Self)> {
        let invalid = |_| CudaError::INVALID_VALUE;
        if fd < 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: only for the duplication, which fails if nothing is open there.
        let file = File::from(unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map_err(invalid)?);
        let length = file.metadata().map_err(invalid)?.len();
        let size = length.checked_sub(PAGE as u64).ok_or(CudaError::INVALID_VALUE)?;
        let mut words = [0; 16];
        file.read_exact_at(&mut words, size).map_err(invalid)?;
        let (magic, gpu) = words.split_at(8);
        if magic != MAGIC.to_le_bytes() {
            return Err(CudaError::INVALID_VALUE);
        }
        // A process that does not see the GPU still reaches its memory.
        let device = match all().iter().find(|device| device.gpu.local.to_le_bytes() == gpu[..4]) {
            Some(device) => device,
            None => device::current()?,
        };
        Ok((device, size as usize, Self { file, counted: None }))
    }

    /// A new descriptor for the program.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM` without a free descriptor.
    pub(super) fn export(&self) -> CudaResult<i32> {
        export(self.fd())
    }

    /// The file's identity.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM`
    pub(super) fn file_id(&self) -> CudaResult<u64> {
        self.file.metadata().map(|status| status.ino()).map_err(|_| CudaError::OPERATING_SYSTEM)
    }

    /// The memory file.
    pub(super) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

/// A new descriptor for the program.
///
/// # Errors
/// `OPERATING_SYSTEM` without a free descriptor.
pub(super) fn export(fd: i32) -> CudaResult<i32> {
    // SAFETY: only for the duplication; the caller holds the descriptor open.
    let copy = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map_err(|error| {
        refusal::explain("memory to share cannot be exported", &error);
        CudaError::OPERATING_SYSTEM
    })?;
    Ok(copy.into_raw_fd())
}

fn new_file(device: &Device, address: usize, size: usize) -> io::Result<File> {
    let new = Arena::create("fakegpu-shared", size + PAGE)?;
    let old = memory::arena_of(device).map_err(|_| io::ErrorKind::NotFound)?;
    let start = address - old.base() as usize;
    for data in written(old.fd(), start, size) {
        let (from, to) = (old.base().wrapping_add(data.start), new.base().wrapping_add(data.start - start));
        // SAFETY: both ranges are inside of their mappings, which do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, data.len()) };
    }
    let _ = old.release(start, size);
    // SAFETY: the arena's descriptor is open.
    let file = File::from(unsafe { BorrowedFd::borrow_raw(new.fd()) }.try_clone_to_owned()?);
    file.write_all_at(&MAGIC.to_le_bytes(), size as u64)?;
    file.write_all_at(&device.gpu.local.to_le_bytes(), size as u64 + 8)?;
    Ok(file)
}

/// The parts of a range of a sparse file that were ever written.
fn written(fd: i32, start: usize, size: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = start;
    std::iter::from_fn(move || {
        let seek = |offset: usize, what| {
            // SAFETY: plain system call; nobody uses the position of this descriptor.
            usize::try_from(unsafe { libc::lseek(fd, offset as libc::off_t, what) }).ok()
        };
        let first = seek(at, libc::SEEK_DATA).filter(|first| *first < start + size)?;
        at = seek(first, libc::SEEK_HOLE)?.min(start + size);
        Some(first..at)
    })
}
