//! What backs an allocation: the real device, or whatever the policy uses when the real one has no room.

use std::sync::atomic::{AtomicU64, Ordering};

use abi::cuda::{CudaError, CudaResult};

use crate::real::call;
use crate::settings::Policy;

/// What an allocation consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Memory of the real device.
    Real,
    /// Managed memory.
    Managed,
    /// Pinned host memory, with its host address; 0 if it is mapped by the program.
    Mapped(usize),
    /// Host memory that the real device does not know about, and its length.
    Spilled(usize),
}

/// How much of it exists: copies look for it only if there is any.
static SPILLED: AtomicU64 = AtomicU64::new(0);

/// Whether any memory is on the host alone.
pub(crate) fn any_spilled() -> bool {
    SPILLED.load(Ordering::Relaxed) != 0
}

/// What the policy uses instead of real memory: its address and kind.
///
/// # Errors
/// `CUDA_ERROR_OUT_OF_MEMORY` if there is none of that either, and the real library's errors.
pub(crate) fn instead(policy: Policy, bytes: usize) -> CudaResult<(usize, Backing)> {
    let mut address = 0;
    match policy {
        Policy::Clamp => Err(CudaError::MEMORY_ALLOCATION),
        Policy::Managed => {
            // `CU_MEM_ATTACH_GLOBAL`
            call!(cuMemAllocManaged(&raw mut address => *mut usize, bytes => usize, 1 => u32))?;
            Ok((address, Backing::Managed))
        }
        Policy::MappedHost => {
            let mut host = 0;
            // `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
            call!(cuMemHostAlloc(&raw mut host => *mut usize, bytes => usize, 3 => u32))?;
            call!(cuMemHostGetDevicePointer_v2(&raw mut address => *mut usize, host => usize, 0 => u32)).inspect_err(
                |_| {
                    let _ = call!(cuMemFreeHost(host => usize));
                },
            )?;
            Ok((address, Backing::Mapped(host)))
        }
        Policy::SpillCpu => {
            // SAFETY: new memory, wherever there is room.
            let made = unsafe {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
            };
            if made == libc::MAP_FAILED {
                return Err(CudaError::MEMORY_ALLOCATION);
            }
            SPILLED.fetch_add(1, Ordering::Relaxed);
            Ok((made as usize, Backing::Spilled(bytes)))
        }
    }
}

/// Frees host memory.
pub(crate) fn release(address: usize, backing: Backing) -> CudaResult {
    match backing {
        Backing::Mapped(host) => call!(cuMemFreeHost(host => usize)),
        Backing::Spilled(length) => {
            SPILLED.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: it was mapped with this length and has left the books, so nobody else frees it.
            unsafe { libc::munmap(address as *mut libc::c_void, length) };
            Ok(())
        }
        Backing::Real | Backing::Managed => Ok(()),
    }
}

/// The context of an allocation is gone. Pinned memory went with it; memory that the real library does not know is freed here.
pub(crate) fn ended(address: usize, backing: Backing) {
    if let Backing::Spilled(_) = backing {
        let _ = release(address, backing);
    }
}
