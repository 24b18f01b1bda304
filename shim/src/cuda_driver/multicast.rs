//! Multicast objects (`cuMulticast*`).

use std::ffi::{c_int, c_uint, c_ulonglong};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::memory::POSIX_FD;
use crate::boundary::gap;
use crate::device::memory;
use crate::device::memory::mapping::{self, GRANULARITY};
use crate::device::memory::multicast::{self, Memory};
use crate::device::state::attribute::{self, MULTICAST_SUPPORTED};
use crate::device::{self, Device};

/// `CUmulticastObjectProp`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    devices: c_uint,
    size: usize,
    handle_types: c_ulonglong,
    flags: c_ulonglong,
}

const _: () = assert!(size_of::<Properties>() == 32);

/// Whether the device can be part of a team.
fn is_supported(device: &Device) -> CudaResult {
    match attribute::get(device, MULTICAST_SUPPORTED) {
        Some(1) => Ok(()),
        _ => Err(CudaError::NOT_SUPPORTED),
    }
}

pub(crate) fn create(out: Out<usize>, properties: Out<Properties>) -> CudaResult {
    let (out, Properties { devices, size, handle_types, flags }) = (out.required()?, properties.get()?);
    is_supported(device::current()?)?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(multicast::create(devices, size, handle_types & c_ulonglong::from(POSIX_FD) != 0)?)?)
}

pub(crate) fn add(handle: usize, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    is_supported(device)?;
    multicast::add(handle, device)
}

pub(crate) fn bind(
    handle: usize,
    start: usize,
    memory: usize,
    at: usize,
    size: usize,
    flags: c_ulonglong,
) -> CudaResult {
    bind_memory(handle, None, start, Memory { physical: mapping::physical(memory)?, at, size }, flags)
}

pub(crate) fn bind_on(
    handle: usize,
    ordinal: c_int,
    start: usize,
    memory: usize,
    at: usize,
    size: usize,
    flags: c_ulonglong,
) -> CudaResult {
    let memory = Memory { physical: mapping::physical(memory)?, at, size };
    bind_memory(handle, Some(device::get(ordinal)?), start, memory, flags)
}

pub(crate) fn bind_address(handle: usize, start: usize, address: usize, size: usize, flags: c_ulonglong) -> CudaResult {
    bind_memory(handle, None, start, mapped("cuMulticastBindAddr", address, size)?, flags)
}

pub(crate) fn bind_address_on(
    handle: usize,
    ordinal: c_int,
    start: usize,
    address: usize,
    size: usize,
    flags: c_ulonglong,
) -> CudaResult {
    let device = device::get(ordinal)?;
    bind_memory(handle, Some(device), start, mapped("cuMulticastBindAddr_v2", address, size)?, flags)
}

fn bind_memory(handle: usize, device: Option<&Device>, start: usize, memory: Memory, flags: c_ulonglong) -> CudaResult {
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    multicast::bind(handle, device, start, memory)
}

/// Memory by its address; what `cudaMalloc` gave is not supported.
fn mapped(call: &'static str, address: usize, size: usize) -> CudaResult<Memory> {
    Memory::mapped(address, size).inspect_err(|_| {
        if memory::in_arena(address).flatten().is_some() {
            gap::record(Library::CudaDriver, call, "memory that cuMemMap did not map");
        }
    })
}

pub(crate) fn unbind(handle: usize, ordinal: c_int, start: usize, size: usize) -> CudaResult {
    multicast::unbind(handle, device::get(ordinal)?, start, size)
}

/// One granularity, least and recommended.
pub(crate) fn granularity(out: Out<usize>, properties: Out<Properties>, option: c_uint) -> CudaResult {
    let out = out.required()?;
    is_supported(device::current()?)?;
    if option > 1 || properties.get()?.devices == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(GRANULARITY)?)
}
