//! Errors that a GPU counts and its reactions to them: ECC, retired pages, remapped rows, links. A simulated GPU has the errors
//! that its case asks for (`gpu`); all are memory errors.

use std::ffi::{c_int, c_uint};

use abi::argument::Out;

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::header::{self, EccErrorCounts, EccSramErrorStatus};
use super::model;
use crate::device::state::health;

/// Succeeds if error correction is on.
fn corrected(device: Handle) -> NvmlResult {
    match model::ecc(&device.gpu()?.profile) {
        Some(true) => Ok(()),
        _ => Err(NvmlError::NOT_SUPPORTED),
    }
}

fn supported(is_supported: bool) -> NvmlResult {
    if is_supported { Ok(()) } else { Err(NvmlError::NOT_SUPPORTED) }
}

/// Now, and after a reset.
pub(crate) fn ecc_mode(device: Handle, current: Out<c_uint>, pending: Out<c_uint>) -> NvmlResult {
    let is_on = model::ecc(&device.gpu()?.profile).ok_or(NvmlError::NOT_SUPPORTED)?;
    pending.required()?;
    current.set(u32::from(is_on))?;
    Ok(pending.set(u32::from(is_on))?)
}

pub(crate) fn default_ecc_mode(device: Handle, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(u32::from(model::ecc(&device.gpu()?.profile).ok_or(NvmlError::NOT_SUPPORTED)?))?)
}

/// Checks the selectors: corrected (0) or uncorrected (1) errors, since the driver was loaded (0) or ever (1).
fn check_counter(error: c_int, counter: c_int) -> NvmlResult {
    if (0..=1).contains(&error) && (0..=1).contains(&counter) { Ok(()) } else { Err(NvmlError::INVALID_ARGUMENT) }
}

/// The number of such errors.
fn counted(device: Handle, error: c_int, counter: c_int) -> NvmlResult<u64> {
    let condition = health::condition(device.gpu()?);
    let count = if error == 0 { condition.corrected } else { condition.uncorrected };
    Ok(if counter == 0 { count.volatile } else { count.aggregate })
}

pub(crate) fn total_errors(device: Handle, error: c_int, counter: c_int, out: Out<u64>) -> NvmlResult {
    check_counter(error, counter)?;
    corrected(device)?;
    Ok(out.set(counted(device, error, counter)?)?)
}

pub(crate) fn detailed_errors(device: Handle, error: c_int, counter: c_int, out: Out<EccErrorCounts>) -> NvmlResult {
    check_counter(error, counter)?;
    corrected(device)?;
    let device_memory = counted(device, error, counter)?;
    Ok(out.set(EccErrorCounts { l1_cache: 0, l2_cache: 0, device_memory, register_file: 0 })?)
}

/// `NVML_MEMORY_LOCATION_*`: from Ampere on, only DRAM (2) and SRAM (7) are distinguished.
pub(crate) fn errors_at(device: Handle, error: c_int, counter: c_int, location: c_int, out: Out<u64>) -> NvmlResult {
    check_counter(error, counter)?;
    if !(0..=7).contains(&location) {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    corrected(device)?;
    let is_new = model::remaps_rows(&device.gpu()?.profile);
    supported(if is_new { matches!(location, 2 | 7) } else { location < 7 })?;
    const DEVICE_MEMORY: c_int = 2;
    Ok(out.set(if location == DEVICE_MEMORY { counted(device, error, counter)? } else { 0 })?)
}

pub(crate) fn sram_status(device: Handle, out: Out<EccSramErrorStatus>) -> NvmlResult {
    corrected(device)?;
    supported(model::remaps_rows(&device.gpu()?.profile))?;
    let version = out.get()?.version;
    if version != header::version::<EccSramErrorStatus>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set(EccSramErrorStatus { version, counts: [0; 11], is_threshold_exceeded: 0 })?)
}

/// Pages retired for a cause: corrected errors (0) or one uncorrected error (1). `count` holds the capacity and receives the
/// number. The failed pages are the last pages of the memory.
///
/// # Safety
/// `addresses` has room for `count` entries.
pub(crate) unsafe fn retired_pages(
    device: Handle,
    cause: c_int,
    count: Out<c_uint>,
    addresses: *mut u64,
) -> NvmlResult {
    const PAGE: u64 = 64 << 10;
    let gpu = device.gpu()?;
    supported(model::retires_pages(&gpu.profile))?;
    let pages = health::condition(gpu).pages;
    let (before, number) = match cause {
        0 => (0, pages.corrected),
        1 => (pages.corrected, pages.uncorrected),
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    };
    let room = count.get()?;
    count.set(number)?;
    if room < number {
        return Err(NvmlError::INSUFFICIENT_SIZE);
    }
    if addresses.is_null() && number > 0 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    for index in 0..number {
        let address = gpu.profile.memory.bytes.saturating_sub(PAGE * u64::from(before + index + 1));
        // SAFETY: the caller vouches for `room` entries, and `index` is below it.
        unsafe { addresses.add(index as usize).write_unaligned(address) };
    }
    Ok(())
}

pub(crate) fn retirement_pending(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let gpu = device.gpu()?;
    supported(model::retires_pages(&gpu.profile))?;
    Ok(out.set(u32::from(health::condition(gpu).pages.pending))?)
}

pub(crate) fn remapped_rows(
    device: Handle,
    corrected: Out<c_uint>,
    uncorrected: Out<c_uint>,
    pending: Out<c_uint>,
    failed: Out<c_uint>,
) -> NvmlResult {
    let gpu = device.gpu()?;
    supported(model::remaps_rows(&gpu.profile))?;
    let rows = health::condition(gpu).rows;
    corrected.set(rows.corrected)?;
    uncorrected.set(rows.uncorrected)?;
    pending.set(u32::from(rows.pending))?;
    Ok(failed.set(u32::from(rows.failed))?)
}

/// Replays on the PCIe bus.
pub(crate) fn no_count(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(0)?)
}

/// No repair is pending (`nvmlRepairStatus_v1_t`: version, channel, TPC).
pub(crate) fn repair_status(device: Handle, out: Out<[c_uint; 3]>) -> NvmlResult {
    supported(model::remaps_rows(&device.gpu()?.profile))?;
    let version = out.get()?[0];
    if version != header::version::<[c_uint; 3]>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set([version, 0, 0])?)
}
