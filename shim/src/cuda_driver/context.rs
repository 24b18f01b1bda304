//! Contexts: `cuCtx*`, `cuDevicePrimaryCtx*`.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::Ordering;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};

use crate::boundary::calls::waits_for_device;
use crate::device::graph::capture;
use crate::device::memory::{self, array, mipmap, texture};
use crate::device::state::context;
use crate::device::work::stream;
use crate::device::{self, calls};
use crate::process::delay::{self, Moment};

pub(crate) fn retain_primary(out: Out<usize>, ordinal: c_int) -> CudaResult {
    let (device, out) = (device::get(ordinal)?, out.required()?);
    context::retain_primary(device);
    Ok(out.set(context::primary_of(device))?)
}

pub(crate) fn release_primary(ordinal: c_int) -> CudaResult {
    context::release_primary(device::get(ordinal)?)
}

pub(crate) fn reset_primary(ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    stream::synchronize_device(device);
    texture::reset(device);
    mipmap::reset(device);
    array::reset(device);
    memory::reset(device)?;
    context::reset_primary(device);
    Ok(())
}

pub(crate) fn create(out: Out<usize>, flags: c_uint, ordinal: c_int) -> CudaResult {
    let (device, out) = (device::get(ordinal)?, out.required()?);
    context::check_flags(flags)?;
    device.flags.store(flags, Ordering::Relaxed);
    Ok(out.set(context::create(device))?)
}

pub(crate) fn create_v3(out: Out<usize>, _: *const c_void, _: c_int, flags: c_uint, ordinal: c_int) -> CudaResult {
    create(out, flags, ordinal)
}

pub(crate) fn create_v4(out: Out<usize>, _: *const c_void, flags: c_uint, ordinal: c_int) -> CudaResult {
    create(out, flags, ordinal)
}

pub(crate) fn destroy(handle: usize) -> CudaResult {
    context::destroy(handle)
}

pub(crate) fn push(handle: usize) -> CudaResult {
    context::push(handle)
}

pub(crate) fn pop(out: Out<usize>) -> CudaResult {
    let handle = context::pop()?;
    out.set_if_wanted(handle);
    Ok(())
}

pub(crate) fn set_current(handle: usize) -> CudaResult {
    context::set_current(handle)
}

pub(crate) fn get_current(out: Out<usize>) -> CudaResult {
    Ok(out.set(context::current())?)
}

pub(crate) fn device(out: Out<c_int>) -> CudaResult {
    Ok(out.set(context::required()?.ordinal as c_int)?)
}

/// A null handle means the current context.
fn given(handle: usize) -> CudaResult<&'static device::Device> {
    if handle == 0 {
        return context::required();
    }
    device::get(context::resolve(handle)?.device as c_int)
}

pub(crate) fn device_of(out: Out<c_int>, handle: usize) -> CudaResult {
    Ok(out.set(given(handle)?.ordinal as c_int)?)
}

pub(crate) fn flags(out: Out<c_uint>) -> CudaResult {
    Ok(out.set(context::required()?.flags.load(Ordering::Relaxed))?)
}

pub(crate) fn id(handle: usize, out: Out<c_ulonglong>) -> CudaResult {
    let handle = if handle == 0 { context::current() } else { handle };
    context::resolve(handle)?;
    Ok(out.set(handle as c_ulonglong)?)
}

pub(crate) fn synchronize() -> CudaResult {
    let device = context::required()?;
    capture::host_waits_for(device)?;
    waits_for_device(device.ordinal);
    stream::synchronize_device(device);
    delay::wait(Moment::Wake);
    Ok(())
}

pub(crate) fn synchronize_given(handle: usize) -> CudaResult {
    let device = given(handle)?;
    capture::host_waits_for(device)?;
    waits_for_device(device.ordinal);
    stream::synchronize_device(device);
    delay::wait(Moment::Wake);
    Ok(())
}

/// The interface version that NVIDIA's driver reports for every context since CUDA 3.2.
pub(crate) fn api_version(handle: usize, out: Out<c_uint>) -> CudaResult {
    given(handle)?;
    Ok(out.set(3020)?)
}

pub(crate) fn enable_peer(handle: usize, flags: c_uint) -> CudaResult {
    let (device, peer) = (context::required()?, device::get(context::resolve(handle)?.device as c_int)?);
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    context::enable_peer(device, peer)
}

pub(crate) fn disable_peer(handle: usize) -> CudaResult {
    let (device, peer) = (context::required()?, device::get(context::resolve(handle)?.device as c_int)?);
    device.peers.disable(peer.ordinal)
}

/// Runs a body shared with the runtime, which would create a context, only if there is one.
macro_rules! in_context {
    ($($name:ident($($argument:ident: $type:ty),*) = $body:expr;)*) => {
        $(pub(crate) fn $name($($argument: $type),*) -> CudaResult {
            context::required()?;
            $body($($argument),*)
        })*
    };
}

in_context! {
    get_limit(out: Out<usize>, limit: c_uint) = calls::device::get_limit;
    set_limit(limit: c_uint, value: usize) = calls::device::set_limit;
    get_cache_config(out: Out<c_uint>) = calls::device::get_cache_config;
    set_cache_config(config: c_uint) = calls::device::set_cache_config;
    priority_range(least: Out<c_int>, greatest: Out<c_int>) = calls::device::priority_range;
}

pub(crate) use in_context;
