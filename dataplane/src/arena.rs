//! A device's memory: one sparse memory file per process and device, mapped in full, and also mapped by peers on the
//! host.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::refusal;

/// A mapped memory file. Untouched pages cost nothing, so its length can be a whole GPU's memory.
#[derive(Debug)]
pub struct Arena {
    base: *mut u8,
    length: usize,
    file: OwnedFd,
    file_id: u64,
}

// SAFETY: the mapping is plain memory that any thread may address; which thread may write where is the program's own contract,
// as it is on a GPU.
unsafe impl Send for Arena {}
// SAFETY: as above; the struct itself is never mutated after construction.
unsafe impl Sync for Arena {}

impl Arena {
    /// Creates a memory file of `length` bytes called `name` (for `/proc/PID/maps`) and maps it.
    ///
    /// # Errors
    /// The error of `memfd_create`, `ftruncate` or `mmap`; `EFBIG` under a file size limit that cannot be raised.
    pub fn create(name: &str, length: usize) -> io::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: `name` is a valid C string; the call has no other preconditions.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned by the kernel and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        refusal::with_file_size(length as u64, || {
            // SAFETY: plain system call on a descriptor we own.
            match unsafe { libc::ftruncate(fd, length as libc::off_t) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        })?;
        Self::map(file, length)
    }

    /// Maps the memory file that process `pid` holds as descriptor `fd`.
    ///
    /// # Errors
    /// `NotFound` if the process is gone, `PermissionDenied` if it belongs to another user or container.
    pub fn open(pid: u32, fd: RawFd, length: usize) -> io::Result<Self> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/fd/{fd}"))?;
        if file.metadata()?.len() < length as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer's memory file is shorter than announced"));
        }
        Self::map(file.into(), length)
    }

    fn map(file: OwnedFd, length: usize) -> io::Result<Self> {
        // SAFETY: all-zero is a value of this plain C struct.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `status` is live for the call.
        if unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice; the descriptor is open.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), length, file, file_id: status.st_ino })
    }

    /// First byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Length, bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The descriptor, which peers open through `/proc`.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Identity of the file (its inode number): the same in every process that maps it, and never reused, unlike
    /// descriptors.
    pub fn file_id(&self) -> u64 {
        self.file_id
    }

    /// Gives the pages of a range back to the system; they read as zero afterwards.
    ///
    /// # Errors
    /// What `fallocate` answers.
    pub fn release(&self, offset: usize, length: usize) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: plain system call on a descriptor we own.
        if unsafe { libc::fallocate(self.fd(), mode, offset as libc::off_t, length as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: `base` and `length` describe the mapping made in `map`, which is unused once the arena is dropped.
        unsafe { libc::munmap(self.base.cast(), self.length) };
    }
}
