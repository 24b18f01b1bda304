//! Properties and settings of a device: attributes, limits, stream priorities, PCI addresses, peers.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::Ordering;

use abi::argument::{Out, Text};
use abi::cuda::{CudaError, CudaResult};
use protocol::gpu;

use crate::device;
use crate::device::state::{attribute, context};
use crate::device::work::stream::PRIORITIES;
use crate::settings;

pub(crate) fn get_attribute(out: Out<c_int>, number: c_int, ordinal: c_int) -> CudaResult {
    let value = attribute::get(device::get(ordinal)?, number).ok_or(CudaError::INVALID_VALUE)?;
    Ok(out.set(value)?)
}

/// Without a profiler attached, NVIDIA's runtime does nothing either.
pub(crate) fn profiler() -> CudaResult {
    Ok(())
}

pub(crate) fn set_cache_config(config: c_uint) -> CudaResult {
    if config > 3 {
        return Err(CudaError::INVALID_VALUE);
    }
    context::enter()?.cache_config.store(config, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn get_cache_config(out: Out<c_uint>) -> CudaResult {
    Ok(out.set(context::enter()?.cache_config.load(Ordering::Relaxed))?)
}

pub(crate) fn get_limit(out: Out<usize>, limit: c_uint) -> CudaResult {
    let value = context::enter()?.limits[..7].get(limit as usize).ok_or(CudaError(215))?;
    Ok(out.set(value.load(Ordering::Relaxed))?)
}

pub(crate) fn set_limit(limit: c_uint, value: usize) -> CudaResult {
    let place = context::enter()?.limits[..7].get(limit as usize).ok_or(CudaError(215))?;
    place.store(value, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn priority_range(least: Out<c_int>, greatest: Out<c_int>) -> CudaResult {
    context::enter()?;
    least.set_if_wanted(PRIORITIES.0);
    greatest.set_if_wanted(PRIORITIES.1);
    Ok(())
}

pub(crate) fn pci_address(out: *mut c_char, length: c_int, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    if length < 13 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(Out(out).fill(length as usize, &device.gpu.pci_text())?)
}

pub(crate) fn by_pci_address(out: Out<c_int>, address: Text) -> CudaResult {
    let place = gpu::parse_pci(&address.get()?).ok_or(CudaError::INVALID_VALUE)?;
    let found = device::all().iter().find(|device| (device.gpu.pci(), 0) == place);
    Ok(out.set(found.ok_or(CudaError::INVALID_DEVICE)?.ordinal as c_int)?)
}

pub(crate) fn can_access_peer(out: Out<c_int>, ordinal: c_int, peer: c_int) -> CudaResult {
    let (device, peer) = (device::get(ordinal)?, device::get(peer)?);
    Ok(out.set(c_int::from(context::can_reach(device, peer)))?)
}

pub(crate) fn peer_attribute(out: Out<c_int>, number: c_uint, from: c_int, to: c_int) -> CudaResult {
    let (from, to) = (device::get(from)?, device::get(to)?);
    if from.ordinal == to.ordinal {
        return Err(CudaError::INVALID_DEVICE);
    }
    let is_linked = settings::get().is_ok_and(|settings| settings.is_linked(from.gpu) && settings.is_linked(to.gpu));
    let value = match number {
        1 => false,
        2 | 4 => context::can_reach(from, to),
        3 => context::can_reach(from, to) && is_linked,
        _ => return Err(CudaError::INVALID_VALUE),
    };
    Ok(out.set(c_int::from(value))?)
}

/// `cudaCtxResetPersistingL2Cache`: which cache lines stay longer does not change any result.
pub(crate) fn reset_persisting() -> CudaResult {
    context::enter().map(drop)
}
