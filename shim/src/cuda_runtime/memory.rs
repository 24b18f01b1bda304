//! Memory functions that only libcudart has.

use std::ffi::c_int;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};

use super::header::{PitchedPtr, PointerAttributes, Three};
use crate::device::calls::memory::{allocate, pitch_of, release};
use crate::device::memory::{self, HostKind, Kind, address};
use crate::device::state::{context, version};

pub(crate) fn free(address: usize) -> CudaResult {
    context::enter()?;
    release(address)
}

pub(crate) fn malloc_3d(out: Out<PitchedPtr>, extent: Three) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let pitch = pitch_of(extent.x);
    let bytes = pitch.checked_mul(extent.y).and_then(|slice| slice.checked_mul(extent.z));
    let address = allocate(device, bytes.ok_or(CudaError::MEMORY_ALLOCATION)?)?;
    Ok(out.set(PitchedPtr { address, pitch, width: extent.x, height: extent.y })?)
}

/// `cudaPointerGetAttributes`. `cudaInvalidDeviceId` is -2.
pub(crate) fn attributes(out: Out<PointerAttributes>, address: usize) -> CudaResult {
    context::enter()?;
    let answer = |kind, device: c_int, device_pointer, host_pointer| PointerAttributes {
        kind,
        device,
        device_pointer,
        host_pointer,
    };
    let found = match (address::locate(address), memory::locate_host(address)) {
        (Some(location), _) if location.kind == Kind::Managed => {
            answer(3, location.device.ordinal as c_int, address, address)
        }
        (Some(location), _) => answer(2, location.device.ordinal as c_int, address, 0),
        (None, Some(range)) if range.kind == HostKind::Managed => answer(3, range.device as c_int, address, address),
        (None, Some(range)) => answer(1, range.device as c_int, address, address),
        (None, None) => answer(0, -2, 0, address),
    };
    out.set(found)?;
    if !version::is_twelve() {
        // SAFETY: CUDA 13's structure has 64 reserved bytes after the part just written.
        unsafe { std::ptr::write_bytes(out.0.cast::<u8>().add(size_of::<PointerAttributes>()), 0, 64) };
    }
    Ok(())
}

/// `cudaMemAdvise`, `cudaMemPrefetchAsync`: hints, without effect on any value. The pointer must be managed memory.
pub(crate) fn hint(address: usize, size: usize) -> CudaResult {
    context::enter()?;
    let on_device = address::locate(address).is_some_and(|location| location.kind == Kind::Managed);
    let on_host = memory::locate_host(address).is_some_and(|range| range.kind == HostKind::Managed);
    if size == 0 || !(on_device || on_host) { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}
