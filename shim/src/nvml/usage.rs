//! Memory and processes: what the processes of the simulated machine hold of its GPUs. Where they were not made one machine
//! (`FTEST_GPUS`), only this process is known.

use std::ffi::c_uint;

use super::abi::{self, Memory, MemoryV2, ProcessInfo, ProcessInfoV1};
use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use crate::boundary::args::Out;
use crate::device::{self, neighbors};

/// (total, used) bytes.
fn memory(device: Handle) -> NvmlResult<(u64, u64)> {
    let total = device.gpu()?.profile.memory.bytes;
    let used: u64 = holders(device)?.iter().map(|(_, bytes)| bytes).sum();
    Ok((total, used.min(total)))
}

/// (process id, bytes) of those that use the GPU.
fn holders(device: Handle) -> NvmlResult<Vec<(u32, u64)>> {
    let (gpu, index) = (device.gpu()?, device.index()?);
    let own = || {
        let device = device::all().iter().find(|device| device.index as usize == index);
        let device = device.filter(|device| device.primary.is_active());
        device.map(|device| (std::process::id(), device.memory.taken())).into_iter().collect()
    };
    Ok(neighbors::holders(gpu).unwrap_or_else(own))
}

#[doc(alias = "nvmlDeviceGetMemoryInfo")]
pub(crate) fn memory_info(device: Handle, out: Out<Memory>) -> NvmlResult {
    let (total, used) = memory(device)?;
    Ok(out.set(Memory { total, free: total - used, used })?)
}

#[doc(alias = "nvmlDeviceGetMemoryInfo_v2")]
pub(crate) fn memory_info_v2(device: Handle, out: Out<MemoryV2>) -> NvmlResult {
    let (total, used) = memory(device)?;
    let version = out.get()?.version;
    if version != abi::version::<MemoryV2>(2) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set(MemoryV2 { version, total, reserved: 0, free: total - used, used })?)
}

/// Processes with a compute context. `count` holds the room in `list` and gets the number of entries.
///
/// # Safety
/// `list` has room for `count` entries.
unsafe fn processes<T>(device: Handle, count: Out<c_uint>, list: *mut T, entry: impl Fn(u32, u64) -> T) -> NvmlResult {
    let holders = holders(device)?;
    let room = count.get()? as usize;
    count.set(holders.len() as c_uint)?;
    if room < holders.len() {
        return Err(NvmlError::INSUFFICIENT_SIZE);
    }
    if list.is_null() && !holders.is_empty() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    for (index, (pid, bytes)) in holders.into_iter().enumerate() {
        // SAFETY: the caller vouches for `room` entries at `list`, and `index` is below it.
        unsafe { list.add(index).write_unaligned(entry(pid, bytes)) };
    }
    Ok(())
}

/// # Safety
/// As [`processes`].
pub(crate) unsafe fn compute_processes_v1(device: Handle, count: Out<c_uint>, list: *mut ProcessInfoV1) -> NvmlResult {
    // SAFETY: passed on.
    unsafe { processes(device, count, list, |pid, used_memory| ProcessInfoV1 { pid, used_memory }) }
}

/// # Safety
/// As [`processes`].
pub(crate) unsafe fn compute_processes(device: Handle, count: Out<c_uint>, list: *mut ProcessInfo) -> NvmlResult {
    let entry = |pid, used_memory| ProcessInfo {
        pid,
        used_memory,
        gpu_instance: abi::NO_INSTANCE,
        compute_instance: abi::NO_INSTANCE,
    };
    // SAFETY: passed on.
    unsafe { processes(device, count, list, entry) }
}

/// No process draws, and none runs under MPS.
pub(crate) fn no_processes(device: Handle, count: Out<c_uint>, _list: *mut ProcessInfo) -> NvmlResult {
    device.index()?;
    count.required()?;
    Ok(count.set(0)?)
}

/// Every field is a counter or a sensor, so each is answered by "not supported" in its own slot.
///
/// # Safety
/// `values` points to `count` entries.
pub(crate) unsafe fn field_values(device: Handle, count: i32, values: *mut abi::FieldValue) -> NvmlResult {
    device.index()?;
    let count = usize::try_from(count).map_err(|_| NvmlError::INVALID_ARGUMENT)?;
    if values.is_null() || count == 0 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    for index in 0..count {
        // SAFETY: the caller vouches for `count` entries, and `index` is below it.
        let status = unsafe { &raw mut (*values.add(index)).status };
        // SAFETY: as above.
        unsafe { status.write_unaligned(NvmlError::NOT_SUPPORTED.into()) };
    }
    Ok(())
}
