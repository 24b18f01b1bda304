//! Memory: `cudaMalloc` and related functions, host memory, pointer attributes.

use std::ffi::c_uint;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};

use crate::device::graph::capture;
use crate::device::memory::allocator::ALIGNMENT;
use crate::device::memory::{self, HostKind, Kind, address, graph_memory, misuse, pool};
use crate::device::state::context;
use crate::device::work::stream;
use crate::device::{Device, all};
use crate::report::finding;

/// Allocates device memory on `device`; shared with the driver's calls.
pub(crate) fn allocate(device: &'static Device, size: usize) -> CudaResult<usize> {
    capture::unsafe_call()?;
    memory::allocate(device, size, Kind::Plain)
}

pub(crate) fn malloc(out: Out<usize>, size: usize) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    Ok(out.set(allocate(device, size)?)?)
}

/// Frees memory from `cudaMalloc`, `cudaMallocAsync` or `cudaMallocManaged`, once the devices are done with it.
pub(crate) fn release(address: usize) -> CudaResult {
    if address == 0 {
        return Ok(());
    }
    capture::unsafe_call()?;
    release_at(address).inspect_err(|_| misuse::free(finding::function(), address))
}

fn release_at(address: usize) -> CudaResult {
    let Some(location) = address::locate(address) else {
        return memory::free_host(address, &[HostKind::Managed]);
    };
    if location.base != address || matches!(location.kind, Kind::Mapped | Kind::Imported) {
        return Err(CudaError::INVALID_VALUE);
    }
    if let Kind::Graph(_) = location.kind {
        return graph_memory::free(address);
    }
    stream::synchronize_device(location.device);
    memory::free(address)?;
    if let Kind::Pool(handle) = location.kind {
        pool::forget(handle, location.size);
    }
    Ok(())
}

/// Managed memory is on the device while it has room, and in host memory beyond that.
pub(crate) fn allocate_managed(device: &'static Device, size: usize, flags: c_uint) -> CudaResult<usize> {
    if size == 0 || !(1..=2).contains(&flags) {
        return Err(CudaError::INVALID_VALUE);
    }
    capture::unsafe_call()?;
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

pub(crate) fn host_alloc(out: Out<usize>, size: usize, flags: c_uint) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    if flags > 7 {
        return Err(CudaError::INVALID_VALUE);
    }
    capture::unsafe_call()?;
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
    capture::unsafe_call()?;
    if memory::locate_host(address).is_some_and(|range| range.base == address && range.kind == HostKind::Allocated) {
        // Copies to and from it may be under way on any device.
        all().iter().for_each(stream::synchronize_device);
    }
    memory::free_host(address, &[HostKind::Allocated]).inspect_err(|_| misuse::free(finding::function(), address))
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
    let (left, all) = memory::info(device, device.share.held_by_others());
    free.required()?.set(left as usize)?;
    Ok(total.set(all as usize)?)
}
