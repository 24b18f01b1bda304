//! Devices: `cudaGetDeviceCount`, `cudaSetDevice`, attributes, peers, limits, versions.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::Ordering;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};

use crate::boundary::calls::waits_for_device;
use crate::device;
use crate::device::graph::capture;
use crate::device::memory::{self, array, mipmap, texture};
use crate::device::state::{context, version};
use crate::device::work::{event, stream};
use crate::process::delay::{self, Moment};

pub(crate) fn runtime_version(out: Out<c_int>) -> CudaResult {
    Ok(out.set(version::runtime())?)
}

pub(crate) fn driver_version(out: Out<c_int>) -> CudaResult {
    Ok(out.set(version::driver())?)
}

pub(crate) fn count(out: Out<c_int>) -> CudaResult {
    let count = device::all().len() as c_int;
    out.set(count)?;
    if count == 0 { Err(CudaError::NO_DEVICE) } else { Ok(()) }
}

pub(crate) fn set(ordinal: c_int) -> CudaResult {
    context::select(device::get(ordinal)?);
    Ok(())
}

/// Does not report errors of the device's work: PyTorch calls it in destructors, even after the device failed.
pub(crate) fn get(out: Out<c_int>) -> CudaResult {
    out.set(device::current()?.ordinal as c_int)?;
    device::answer_before_failure();
    Ok(())
}

pub(crate) fn init(ordinal: c_int, device_flags: c_uint, flags: c_uint) -> CudaResult {
    let device = device::get(ordinal)?;
    if flags > 1 {
        return Err(CudaError::INVALID_VALUE);
    }
    if flags == 1 {
        device.flags.store(device_flags, Ordering::Relaxed);
    }
    context::activate_primary(device);
    Ok(())
}

pub(crate) fn synchronize() -> CudaResult {
    let device = context::enter()?;
    capture::host_waits_for(device)?;
    waits_for_device(device.ordinal);
    stream::synchronize_device(device);
    delay::wait(Moment::Wake);
    Ok(())
}

pub(crate) fn reset() -> CudaResult {
    let device = device::current()?;
    stream::synchronize_device(device);
    stream::destroy_all(device);
    event::destroy_all(device);
    texture::reset(device);
    mipmap::reset(device);
    array::reset(device);
    memory::reset(device)?;
    context::reset_primary(device);
    Ok(())
}

pub(crate) fn set_flags(flags: c_uint) -> CudaResult {
    // Schedule (three bits, one at a time), map host, local memory resize, synchronous memory operations.
    if flags & !0x9f != 0 || (flags & 7).count_ones() > 1 {
        return Err(CudaError::INVALID_VALUE);
    }
    device::current()?.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn get_flags(out: Out<c_uint>) -> CudaResult {
    // Mapping host memory is always possible, and said so (`cudaDeviceMapHost`).
    Ok(out.set(device::current()?.flags.load(Ordering::Relaxed) | 8)?)
}

pub(crate) fn enable_peer(peer: c_int, flags: c_uint) -> CudaResult {
    let (device, peer) = (context::enter()?, device::get(peer)?);
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    context::enable_peer(device, peer)
}

pub(crate) fn disable_peer(peer: c_int) -> CudaResult {
    let (device, peer) = (context::enter()?, device::get(peer)?);
    device.peers.disable(peer.ordinal)
}
