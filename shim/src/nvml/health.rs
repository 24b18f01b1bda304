//! Errors that a GPU counts and what it does about them: ECC, retired pages, remapped rows, links. A simulated GPU has none.

use std::ffi::{c_int, c_uint};

use super::abi::{self, EccErrorCounts, EccSramErrorStatus};
use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::model;
use crate::boundary::args::Out;

/// Where error correction is on.
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

/// Of corrected (0) or uncorrected (1) errors, since the driver was loaded (0) or ever (1).
fn check_counter(error: c_int, counter: c_int) -> NvmlResult {
    if (0..=1).contains(&error) && (0..=1).contains(&counter) { Ok(()) } else { Err(NvmlError::INVALID_ARGUMENT) }
}

pub(crate) fn total_errors(device: Handle, error: c_int, counter: c_int, out: Out<u64>) -> NvmlResult {
    check_counter(error, counter)?;
    corrected(device)?;
    Ok(out.set(0)?)
}

pub(crate) fn detailed_errors(device: Handle, error: c_int, counter: c_int, out: Out<EccErrorCounts>) -> NvmlResult {
    check_counter(error, counter)?;
    corrected(device)?;
    Ok(out.set(EccErrorCounts { l1_cache: 0, l2_cache: 0, device_memory: 0, register_file: 0 })?)
}

/// `NVML_MEMORY_LOCATION_*`: from Ampere on only DRAM (2) and SRAM (7) are told apart.
pub(crate) fn errors_at(device: Handle, error: c_int, counter: c_int, location: c_int, out: Out<u64>) -> NvmlResult {
    check_counter(error, counter)?;
    if !(0..=7).contains(&location) {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    corrected(device)?;
    let is_new = model::remaps_rows(&device.gpu()?.profile);
    supported(if is_new { matches!(location, 2 | 7) } else { location < 7 })?;
    Ok(out.set(0)?)
}

pub(crate) fn sram_status(device: Handle, out: Out<EccSramErrorStatus>) -> NvmlResult {
    corrected(device)?;
    supported(model::remaps_rows(&device.gpu()?.profile))?;
    let version = out.get()?.version;
    if version != abi::version::<EccSramErrorStatus>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set(EccSramErrorStatus { version, counts: [0; 11], is_threshold_exceeded: 0 })?)
}

/// Pages retired for a cause: because of corrected errors (0) or of one uncorrected error (1).
pub(crate) fn retired_pages(device: Handle, cause: c_int, count: Out<c_uint>, _addresses: *mut u64) -> NvmlResult {
    supported(model::retires_pages(&device.gpu()?.profile))?;
    if !(0..=1).contains(&cause) {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    Ok(count.set(0)?)
}

pub(crate) fn retirement_pending(device: Handle, out: Out<c_uint>) -> NvmlResult {
    supported(model::retires_pages(&device.gpu()?.profile))?;
    Ok(out.set(0)?)
}

pub(crate) fn remapped_rows(
    device: Handle,
    corrected: Out<c_uint>,
    uncorrected: Out<c_uint>,
    pending: Out<c_uint>,
    failed: Out<c_uint>,
) -> NvmlResult {
    supported(model::remaps_rows(&device.gpu()?.profile))?;
    for out in [corrected, uncorrected, pending, failed] {
        out.set(0)?;
    }
    Ok(())
}

/// Replays on the PCIe bus.
pub(crate) fn no_count(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(0)?)
}

/// No repair is due (`nvmlRepairStatus_v1_t`: version, channel, TPC).
pub(crate) fn repair_status(device: Handle, out: Out<[c_uint; 3]>) -> NvmlResult {
    supported(model::remaps_rows(&device.gpu()?.profile))?;
    let version = out.get()?[0];
    if version != abi::version::<[c_uint; 3]>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set([version, 0, 0])?)
}
