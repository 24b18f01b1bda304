//! The host memory known to CUDA: page-locked, registered, managed beyond the device's memory, or mapped.

use std::collections::BTreeMap;
use std::sync::Once;

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::{Mutex, RwLock};
use protocol::device_report::Left;
use protocol::ids::SiteId;

use super::freed::Freed;
use super::fresh;
use crate::report::left;
use crate::sanitizer::races;

/// Kinds of host memory known to CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// `cudaHostAlloc` and related functions: ours to release.
    Allocated,
    /// `cudaHostRegister`: the program's own.
    Registered,
    /// `cudaMallocManaged` beyond the device's memory.
    Managed,
    /// `cuMemCreate`, seen through a mapping.
    Mapped,
}

/// Host memory known to CUDA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRange {
    pub(crate) base: usize,
    pub(crate) size: usize,
    pub(crate) kind: HostKind,
    /// Ordinal of the device that was current.
    pub(crate) device: u32,
    pub(crate) flags: u32,
}

static HOST: RwLock<BTreeMap<usize, HostRange>> = RwLock::new(BTreeMap::new());
static FREED_HOST: Mutex<Freed> = Mutex::new(Freed::new());

/// Size of the freed host memory that started at `base`.
pub(crate) fn freed_host(base: usize) -> Option<usize> {
    FREED_HOST.lock().find(base).filter(|was| was.start == base).map(|was| was.size)
}

/// The host memory known to CUDA that `address` points into.
pub(crate) fn locate_host(address: usize) -> Option<HostRange> {
    let host = HOST.read();
    let (_, range) = host.range(..=address).next_back()?;
    (address - range.base < range.size).then_some(*range)
}

fn count_left_on_host(left: &mut Left) {
    for range in HOST.read().values().filter(|range| range.kind == HostKind::Allocated) {
        left.pinned += 1;
        left.pinned_bytes += range.size as u64;
    }
}

/// Allocates host memory known to CUDA (page-locked on real hardware).
///
/// # Errors
/// `MEMORY_ALLOCATION` if the system has none.
pub(crate) fn allocate_host(size: usize, kind: HostKind, device: u32, flags: u32) -> CudaResult<usize> {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| left::count_with(count_left_on_host));
    crate::report::used();
    if size == 0 {
        return Ok(0);
    }
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(CudaError::MEMORY_ALLOCATION);
    }
    let base = base as usize;
    let mut host = HOST.write();
    host.insert(base, HostRange { base, size, kind, device, flags });
    FREED_HOST.lock().reuse(base, size);
    drop(host);
    if kind == HostKind::Allocated {
        fresh::allocated_on_host(base, size);
    }
    Ok(base)
}

/// Releases host memory allocated by [`allocate_host`] with one of `kinds`.
///
/// # Errors
/// `INVALID_VALUE` if no such allocation starts at `base`.
pub(crate) fn free_host(base: usize, kinds: &[HostKind]) -> CudaResult {
    let mut host = HOST.write();
    let range = host.get(&base).copied().filter(|range| kinds.contains(&range.kind)).ok_or(CudaError::INVALID_VALUE)?;
    host.remove(&base);
    FREED_HOST.lock().add(base, range.size, false, SiteId::default());
    races::forget(base, range.size);
    // SAFETY: the range was mapped by `allocate_host` and is in the table once; the caller no longer uses it.
    unsafe { libc::munmap(base as *mut libc::c_void, range.size) };
    Ok(())
}

/// Registers the program's own memory.
///
/// # Errors
/// `INVALID_VALUE` for an empty range, `HOST_MEMORY_ALREADY_REGISTERED` if a part of it is already registered.
pub(crate) fn register_host(base: usize, size: usize, device: u32, flags: u32) -> CudaResult {
    if base == 0 || size == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut host = HOST.write();
    let before = host.range(..base + size).next_back().is_some_and(|(_, range)| range.base + range.size > base);
    if before {
        return Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED);
    }
    host.insert(base, HostRange { base, size, kind: HostKind::Registered, device, flags });
    Ok(())
}

/// Unregisters memory registered by [`register_host`].
///
/// # Errors
/// `HOST_MEMORY_NOT_REGISTERED` if none starts at `base`.
pub(crate) fn unregister_host(base: usize) -> CudaResult {
    forget_host(base, HostKind::Registered).map_err(|_| CudaError::HOST_MEMORY_NOT_REGISTERED)
}

/// Physical host memory was mapped at these addresses, which nothing else uses.
pub(crate) fn host_mapped(base: usize, size: usize) {
    HOST.write().insert(base, HostRange { base, size, kind: HostKind::Mapped, device: 0, flags: 0 });
}

/// Host memory of `kind` at `base` is no longer known to CUDA.
///
/// # Errors
/// `INVALID_VALUE` if none starts at `base`.
pub(crate) fn forget_host(base: usize, kind: HostKind) -> CudaResult {
    let mut host = HOST.write();
    let range = host.get(&base).copied().filter(|range| range.kind == kind).ok_or(CudaError::INVALID_VALUE)?;
    races::forget(base, range.size);
    host.remove(&base);
    Ok(())
}
