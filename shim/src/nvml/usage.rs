//! Memory and processes: the use of GPU memory by the processes of the simulated machine. If processes do not share a
//! machine (`FTEST_GPUS`), only this process is known.

use std::ffi::{c_int, c_uint};

use abi::argument::Out;

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::header::{
    self, Memory, MemoryV2, ProcessDetail, ProcessDetails, ProcessInfo, ProcessInfoV1, ProcessSample,
    ProcessUtilization, ProcessesUtilization, Sample,
};
use super::model::{self, Load};
use super::{hybrid, sensors};
use crate::device::state::neighbors::{self, Holder};

/// (total, used) bytes.
fn memory(device: Handle) -> NvmlResult<(u64, u64)> {
    let total = hybrid::total_memory(device.index()?, device.gpu()?)?;
    let used: u64 = holders(device)?.iter().map(|holder| holder.bytes).sum();
    Ok((total, used.min(total)))
}

/// The processes that use the GPU.
fn holders(device: Handle) -> NvmlResult<Vec<Holder>> {
    Ok(neighbors::holders(device.gpu()?))
}

/// The load from one process, as if it were alone.
fn load_of(holder: &Holder) -> Load {
    Load { busy: holder.busy, is_used: true, ..Load::default() }
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
    if version != header::version::<MemoryV2>(2) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set(MemoryV2 { version, total, reserved: 0, free: total - used, used })?)
}

/// Returns a list; `count` holds the capacity and receives the number of entries.
///
/// # Safety
/// `list` has room for `count` entries.
unsafe fn hand_out<T>(entries: Vec<T>, count: Out<c_uint>, list: *mut T) -> NvmlResult {
    let room = count.get()? as usize;
    count.set(entries.len() as c_uint)?;
    if room < entries.len() {
        return Err(NvmlError::INSUFFICIENT_SIZE);
    }
    if list.is_null() && !entries.is_empty() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    for (index, entry) in entries.into_iter().enumerate() {
        // SAFETY: the caller vouches for `room` entries at `list`, and `index` is below it.
        unsafe { list.add(index).write_unaligned(entry) };
    }
    Ok(())
}

/// Processes with a compute context.
///
/// # Safety
/// As [`hand_out`].
unsafe fn processes<T>(device: Handle, count: Out<c_uint>, list: *mut T, entry: impl Fn(u32, u64) -> T) -> NvmlResult {
    let entries = holders(device)?.iter().map(|holder| entry(holder.pid, holder.bytes)).collect();
    // SAFETY: passed on.
    unsafe { hand_out(entries, count, list) }
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
        gpu_instance: header::NO_INSTANCE,
        compute_instance: header::NO_INSTANCE,
    };
    // SAFETY: passed on.
    unsafe { processes(device, count, list, entry) }
}

/// No process uses graphics, and none runs under MPS.
pub(crate) fn no_processes(device: Handle, count: Out<c_uint>, _list: *mut ProcessInfo) -> NvmlResult {
    device.index()?;
    count.required()?;
    Ok(count.set(0)?)
}

/// Compute processes (0); there are no graphics (1) or MPS (2) processes.
pub(crate) fn process_details(device: Handle, out: Out<ProcessDetails>) -> NvmlResult {
    let asked = out.get()?;
    if asked.version != header::version::<ProcessDetails>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    let detail = |holder: &Holder| ProcessDetail {
        pid: holder.pid,
        used_memory: holder.bytes,
        gpu_instance: header::NO_INSTANCE,
        compute_instance: header::NO_INSTANCE,
        protected_memory: 0,
    };
    let entries: Vec<_> = match asked.mode {
        0 => holders(device)?.iter().map(detail).collect(),
        1 | 2 => Vec::new(),
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    };
    let mut count = asked.count;
    // SAFETY: the structure's contract is a list with so much room.
    let done = unsafe { hand_out(entries, Out(&raw mut count), asked.list) };
    out.set(ProcessDetails { count, ..asked })?;
    done
}

/// Microseconds since the epoch, the unit of sample timestamps.
fn timestamp() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// The utilization by each process in the last second. A NULL list only queries the number.
///
/// # Safety
/// `list` has room for `count` entries.
pub(crate) unsafe fn process_samples(
    device: Handle,
    list: *mut ProcessSample,
    count: Out<c_uint>,
    _last_seen: u64,
) -> NvmlResult {
    let timestamp = timestamp();
    let sample = |holder: &Holder| ProcessSample {
        pid: holder.pid,
        timestamp,
        sm: holder.busy,
        memory: model::memory_busy(load_of(holder)),
        encoder: 0,
        decoder: 0,
    };
    let entries: Vec<_> = holders(device)?.iter().map(sample).collect();
    if entries.is_empty() {
        count.set(0)?;
        return Err(NvmlError::NOT_FOUND);
    }
    // SAFETY: passed on.
    unsafe { hand_out(entries, count, list) }
}

pub(crate) fn process_utilization(device: Handle, out: Out<ProcessesUtilization>) -> NvmlResult {
    let asked = out.get()?;
    if asked.version != header::version::<ProcessesUtilization>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    let timestamp = timestamp();
    let entry = |holder: &Holder| ProcessUtilization {
        timestamp,
        pid: holder.pid,
        sm: holder.busy,
        memory: model::memory_busy(load_of(holder)),
        encoder: 0,
        decoder: 0,
        jpeg: 0,
        optical_flow: 0,
    };
    let entries: Vec<_> = holders(device)?.iter().map(entry).collect();
    let mut count = asked.count;
    // SAFETY: the structure's contract is a list with so much room.
    let done = unsafe { hand_out(entries, Out(&raw mut count), asked.list) };
    out.set(ProcessesUtilization { count, ..asked })?;
    done
}

/// The newest sample of a sensor, as an unsigned number: `NVML_TOTAL_POWER_SAMPLES` and so on. A NULL list only queries the
/// number.
///
/// # Safety
/// `list` has room for `count` entries.
pub(crate) unsafe fn samples(
    device: Handle,
    which: c_int,
    last_seen: u64,
    kind: Out<c_int>,
    count: Out<c_uint>,
    list: *mut Sample,
) -> NvmlResult {
    /// `NVML_VALUE_TYPE_UNSIGNED_INT`
    const UNSIGNED: c_int = 1;
    let gpu = device.gpu()?;
    let load = sensors::load(gpu);
    let value = match which {
        0 => model::power_mw(&gpu.profile, load),
        1 => Some(load.busy),
        2 => Some(model::memory_busy(load)),
        3 | 4 | 8 | 9 => Some(0),
        5 => Some(model::sm_clock(&gpu.profile, load)),
        6 => Some(model::memory_clock(&gpu.profile, load)),
        7 => None,
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    };
    let value = u64::from(value.ok_or(NvmlError::NOT_SUPPORTED)?);
    kind.set(UNSIGNED)?;
    if list.is_null() {
        return Ok(count.set(1)?);
    }
    let timestamp = timestamp();
    let entries = if timestamp > last_seen { vec![Sample { timestamp, value }] } else { Vec::new() };
    if entries.is_empty() {
        count.set(0)?;
        return Err(NvmlError::NOT_FOUND);
    }
    // SAFETY: passed on.
    unsafe { hand_out(entries, count, list) }
}
