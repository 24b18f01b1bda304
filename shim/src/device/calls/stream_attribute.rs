//! `cudaStreamSetAttribute` and related functions, and managed memory attached to a stream.

use std::ffi::c_uint;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};

use crate::device::memory::{self, HostKind, Kind, address};
use crate::device::state::context;
use crate::device::work::stream::{self, attribute};

pub(crate) fn get(handle: usize, id: c_uint, out: Out<attribute::Value>) -> CudaResult {
    context::enter()?;
    Ok(out.set(stream::resolve(handle)?.attribute(id)?)?)
}

pub(crate) fn set(handle: usize, id: c_uint, value: Out<attribute::Value>) -> CudaResult {
    context::enter()?;
    stream::resolve(handle)?.set_attribute(id, value.get()?)
}

pub(crate) fn copy(to: usize, from: usize) -> CudaResult {
    context::enter()?;
    let (to, from) = (stream::resolve(to)?, stream::resolve(from)?);
    to.copy_attributes(&from);
    Ok(())
}

/// `cudaStreamAttachMemAsync`: managed memory is the same memory for the host and all streams, so attaching it has no effect.
pub(crate) fn attach(handle: usize, address: usize, length: usize, flags: c_uint) -> CudaResult {
    const GLOBAL: c_uint = 1;
    const HOST: c_uint = 2;
    const SINGLE: c_uint = 4;
    context::enter()?;
    stream::resolve(handle)?;
    let is_default = handle <= 2;
    let on_device = address::locate(address).filter(|location| location.kind == Kind::Managed);
    let on_host = memory::locate_host(address).filter(|range| range.kind == HostKind::Managed);
    let whole =
        on_device.map(|location| (location.base, location.size)).or(on_host.map(|range| (range.base, range.size)));
    let (base, size) = whole.ok_or(CudaError::INVALID_VALUE)?;
    // The documentation: all of the allocation, or 0 for that; a single stream cannot be the default stream.
    let fits = base == address && (length == 0 || length == size);
    match flags {
        GLOBAL | HOST if fits => Ok(()),
        SINGLE if fits && !is_default => Ok(()),
        _ => Err(CudaError::INVALID_VALUE),
    }
}
