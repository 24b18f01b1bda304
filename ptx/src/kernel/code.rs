//! Executable memory with a kernel's code, and how it is entered.

use crate::runtime::state::{APART, Context, Warp};

/// Executable memory with a kernel's code.
#[derive(Debug)]
pub(crate) struct Code {
    start: *mut u8,
    length: usize,
}

// SAFETY: the memory is never written after it was made.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    pub(super) fn new(bytes: &[u8]) -> std::io::Result<Self> {
        let length = bytes.len().max(1).next_multiple_of(4096);
        // SAFETY: a new private mapping; it is filled before it becomes executable and unmapped when dropped.
        unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if start == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.cast(), bytes.len());
            if libc::mprotect(start, length, libc::PROT_READ | libc::PROT_EXEC) != 0 {
                let error = std::io::Error::last_os_error();
                libc::munmap(start, length);
                return Err(error);
            }
            Ok(Self { start: start.cast(), length })
        }
    }

    /// Runs the lanes of the mask to their next synchronization or end. `known` is where all 32 lanes continue, if the caller knows
    /// that they continue at one place. Returns where all 32 lanes have stopped, if they all ran and that is one place.
    pub(crate) fn call(&self, context: &mut Context, warp: &mut Warp, mask: u32, known: Option<u32>) -> Option<u32> {
        let step = match known.or_else(|| warp.one_place()) {
            Some(place) if mask == u32::MAX && context.together != 0 => place,
            _ => APART,
        };
        // SAFETY: the memory holds the function that `lower` made, of this signature; context and warp belong to one launch of this
        // kernel, so that all that the code reaches through them is there.
        let place = unsafe {
            let function: extern "C" fn(*mut Context, *mut Warp, u32, u32) -> u32 = std::mem::transmute(self.start);
            function(context, warp, mask, step)
        };
        match step {
            APART if mask == u32::MAX => warp.one_place(),
            _ => (place != APART).then_some(place),
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody runs it any more: kernels hold it while they do.
        unsafe {
            libc::munmap(self.start.cast(), self.length);
        }
    }
}
