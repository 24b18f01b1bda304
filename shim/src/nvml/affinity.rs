//! The CPUs near a GPU: all CPUs of the host, which is one NUMA node.

use std::ffi::{c_uint, c_ulong};

use abi::argument::Out;

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::system::gpus;

/// CPUs that the host has.
fn cpus() -> usize {
    // SAFETY: asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(count).unwrap_or(1).max(1)
}

/// Sets the lowest `count` bits of a set.
///
/// # Safety
/// `set` has room for `words` words.
unsafe fn fill(set: *mut c_ulong, words: c_uint, count: usize) -> NvmlResult {
    const BITS: usize = c_ulong::BITS as usize;
    if set.is_null() || words == 0 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    for word in 0..words as usize {
        let bits = count.saturating_sub(word * BITS).min(BITS);
        let value = if bits == BITS { c_ulong::MAX } else { (1 << bits) - 1 };
        // SAFETY: the caller vouches for so many words.
        unsafe { set.add(word).write_unaligned(value) };
    }
    Ok(())
}

/// # Safety
/// As [`fill`].
pub(crate) unsafe fn cpu_set(device: Handle, words: c_uint, set: *mut c_ulong) -> NvmlResult {
    device.gpu()?;
    // SAFETY: passed on.
    unsafe { fill(set, words, cpus()) }
}

/// Scope: the node (0) or the socket (1), which are the same here.
///
/// # Safety
/// As [`fill`].
pub(crate) unsafe fn cpu_set_within(device: Handle, words: c_uint, set: *mut c_ulong, scope: c_uint) -> NvmlResult {
    if scope > 1 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    // SAFETY: passed on.
    unsafe { cpu_set(device, words, set) }
}

/// The only NUMA node.
///
/// # Safety
/// As [`fill`].
pub(crate) unsafe fn memory_set(device: Handle, words: c_uint, set: *mut c_ulong, scope: c_uint) -> NvmlResult {
    device.gpu()?;
    if scope > 1 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    // SAFETY: passed on.
    unsafe { fill(set, words, 1) }
}

/// Binds the calling thread to the CPUs near the GPU, or to all: the same set.
pub(crate) fn bind(device: Handle) -> NvmlResult {
    device.gpu()?;
    // SAFETY: all-zero is an empty set, and the calls stay within it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in 0..cpus().min(libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(NvmlError::UNKNOWN) }
}

/// The GPUs near a CPU: all. `count` holds the capacity (0 only queries) and receives the number.
///
/// # Safety
/// `list` has room for `count` handles.
pub(crate) unsafe fn gpus_near(cpu: c_uint, count: Out<c_uint>, list: *mut Handle) -> NvmlResult {
    let total = gpus()?.len();
    if cpu as usize >= cpus() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    let room = count.get()? as usize;
    count.set(total as c_uint)?;
    if room == 0 {
        return Ok(());
    }
    if list.is_null() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    for index in 0..total.min(room) {
        // SAFETY: the caller vouches for `room` handles.
        unsafe { list.add(index).write_unaligned(Handle::from_index(index)) };
    }
    Ok(())
}
