//! Memory: `cudaMalloc` and kin, host memory, what a pointer is.

use std::ffi::{c_int, c_uint};

use crate::boundary::args::Out;
use crate::cuda_runtime::abi::{PitchedPtr, PointerAttributes, Three};
use crate::device::allocator::ALIGNMENT;
use crate::device::error::{CudaError, CudaResult};
use crate::device::memory::{self, HostKind, Kind};
use crate::device::{Device, address, all, context, neighbors, pool, stream, version};

/// Device memory on `device`; shared with the driver's calls.
pub(crate) fn allocate(device: &'static Device, size: usize) -> CudaResult<usize> {
    memory::allocate(device, size, Kind::Plain)
}

pub(crate) fn malloc(out: Out<usize>, size: usize) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    Ok(out.set(allocate(device, size)?)?)
}

/// Frees memory of any of `cudaMalloc`, `cudaMallocAsync` and `cudaMallocManaged`, once the devices are done with it.
pub(crate) fn release(address: usize) -> CudaResult {
    if address == 0 {
        return Ok(());
    }
    let Some(location) = address::locate(address) else {
        return memory::free_host(address, &[HostKind::Managed]);
    };
    if location.base != address || matches!(location.kind, Kind::Mapped | Kind::Imported) {
        return Err(CudaError::INVALID_VALUE);
    }
    stream::synchronize_device(location.device);
    memory::free(address)?;
    if let Kind::Pool(handle) = location.kind {
        pool::forget(handle, location.size);
    }
    Ok(())
}

pub(crate) fn free(address: usize) -> CudaResult {
    context::enter()?;
    release(address)
}

/// Managed memory lies on the device while that has room, and in host memory beyond.
pub(crate) fn allocate_managed(device: &'static Device, size: usize, flags: c_uint) -> CudaResult<usize> {
    if size == 0 || !(1..=2).contains(&flags) {
        return Err(CudaError::INVALID_VALUE);
    }
    match memory::allocate(device, size, Kind::Managed) {
        Err(CudaError::MEMORY_ALLOCATION) => memory::allocate_host(size, HostKind::Managed, device.ordinal, flags),
        other => other,
    }
}

pub(crate) fn malloc_managed(out: Out<usize>, size: usize, flags: c_uint) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    Ok(out.set(allocate_managed(device, size, flags)?)?)
}

/// Rows start at multiples of the texture alignment.
pub(crate) fn pitch_of(width: usize) -> usize {
    width.next_multiple_of(ALIGNMENT)
}

pub(crate) fn malloc_pitch(out: Out<usize>, pitch: Out<usize>, width: usize, height: usize) -> CudaResult {
    let device = context::enter()?;
    let (out, pitch) = (out.required()?, pitch.required()?);
    let bytes = pitch_of(width).checked_mul(height).ok_or(CudaError::MEMORY_ALLOCATION)?;
    out.set(allocate(device, bytes)?)?;
    Ok(pitch.set(pitch_of(width))?)
}

pub(crate) fn malloc_3d(out: Out<PitchedPtr>, extent: Three) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let pitch = pitch_of(extent.x);
    let bytes = pitch.checked_mul(extent.y).and_then(|slice| slice.checked_mul(extent.z));
    let address = allocate(device, bytes.ok_or(CudaError::MEMORY_ALLOCATION)?)?;
    Ok(out.set(PitchedPtr { address, pitch, width: extent.x, height: extent.y })?)
}

pub(crate) fn host_alloc(out: Out<usize>, size: usize, flags: c_uint) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    if flags > 7 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(memory::allocate_host(size, HostKind::Allocated, device.ordinal, flags)?)?)
}

pub(crate) fn malloc_host(out: Out<usize>, size: usize) -> CudaResult {
    host_alloc(out, size, 0)
}

pub(crate) fn free_host(address: usize) -> CudaResult {
    context::enter()?;
    if address == 0 {
        return Ok(());
    }
    if memory::locate_host(address).is_some_and(|range| range.base == address && range.kind == HostKind::Allocated) {
        // Copies to and from it may be under way on any device.
        all().iter().for_each(stream::synchronize_device);
    }
    memory::free_host(address, &[HostKind::Allocated])
}

pub(crate) fn host_register(address: usize, size: usize, flags: c_uint) -> CudaResult {
    memory::register_host(address, size, context::enter()?.ordinal, flags)
}

pub(crate) fn host_unregister(address: usize) -> CudaResult {
    context::enter()?;
    if address == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    memory::unregister_host(address)
}

pub(crate) fn host_device_pointer(out: Out<usize>, address: usize, flags: c_uint) -> CudaResult {
    context::enter()?;
    if flags != 0 || memory::locate_host(address).is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(address)?)
}

pub(crate) fn host_flags(out: Out<c_uint>, address: usize) -> CudaResult {
    context::enter()?;
    let range = memory::locate_host(address).ok_or(CudaError::INVALID_VALUE)?;
    // All host memory is mapped (`cudaHostAllocMapped`) under unified addressing.
    Ok(out.set(range.flags | 2)?)
}

pub(crate) fn info(free: Out<usize>, total: Out<usize>) -> CudaResult {
    let device = context::enter()?;
    let (left, all) = device.memory.info(neighbors::held_by_others(device));
    free.required()?.set(left as usize)?;
    Ok(total.set(all as usize)?)
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
