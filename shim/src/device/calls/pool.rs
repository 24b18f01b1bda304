//! The stream-ordered allocator: `cudaMallocAsync`, pools and their attributes.

use std::ffi::{c_int, c_uint};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::header::{AccessDescription, MemLocation, PoolProperties};
use crate::boundary::gap;
use crate::device::graph::capture;
use crate::device::memory::graph_memory;
use crate::device::memory::pool::{self, Value};
use crate::device::state::context;
use crate::device::work::stream;
use crate::device::{self, Device};

pub(crate) fn malloc_async(out: Out<usize>, size: usize, handle: usize) -> CudaResult {
    context::enter()?;
    let device = stream::resolve(handle)?.device;
    malloc_from_pool(out, size, CURRENT.get(device), handle)
}

pub(crate) fn malloc_from_pool(out: Out<usize>, size: usize, pool: usize, handle: usize) -> CudaResult {
    context::enter()?;
    let (out, stream) = (out.required()?, stream::resolve(handle)?);
    if let Some(capture) = capture::for_stream(&stream)? {
        let device = device::get(pool::resolve(pool)?.device as c_int)?;
        return Ok(out.set(if size == 0 { 0 } else { capture.allocate(&stream, device, size)? })?);
    }
    Ok(out.set(pool::allocate(pool, size, &stream)?)?)
}

pub(crate) fn free_async(address: usize, handle: usize) -> CudaResult {
    context::enter()?;
    let stream = stream::resolve(handle)?;
    if address == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    match capture::for_stream(&stream)? {
        Some(capture) => capture.free(&stream, address),
        None => pool::free(address, &stream),
    }
}

pub(crate) fn create(out: Out<usize>, properties: Out<PoolProperties>) -> CudaResult {
    context::enter()?;
    let device = described(properties.get()?, "cudaMemPoolCreate")?;
    Ok(out.set(pool::create(device))?)
}

/// The device of a pool: pinned memory (1) on a device (1), not shared (0).
pub(crate) fn described(properties: PoolProperties, call: &'static str) -> CudaResult<&'static Device> {
    if properties.allocation_type != 1 {
        return Err(CudaError::INVALID_VALUE);
    }
    if properties.location.kind != 1 || properties.handle_types != 0 {
        gap::record(Library::CudaRuntime, call, "a pool of host memory or one to share");
        return Err(CudaError::NOT_SUPPORTED);
    }
    device::get(properties.location.id)
}

pub(crate) fn destroy(pool: usize) -> CudaResult {
    pool::destroy(pool)
}

pub(crate) fn default_of(out: Out<usize>, ordinal: c_int) -> CudaResult {
    Ok(out.set(pool::default_of(device::get(ordinal)?))?)
}

pub(crate) fn current_of(out: Out<usize>, ordinal: c_int) -> CudaResult {
    Ok(out.set(CURRENT.get(device::get(ordinal)?.ordinal))?)
}

pub(crate) fn set_current(ordinal: c_int, pool: usize) -> CudaResult {
    let device = device::get(ordinal)?;
    if pool::resolve(pool)?.device != device.ordinal {
        return Err(CudaError::INVALID_VALUE);
    }
    CURRENT.set(device.ordinal, pool);
    Ok(())
}

/// Our pools keep nothing back, so there is nothing to trim.
pub(crate) fn trim(pool: usize, _keep: usize) -> CudaResult {
    pool::resolve(pool).map(drop)
}

pub(crate) fn set_attribute(pool: usize, attribute: c_uint, value: Out<u8>) -> CudaResult {
    let pool = pool::resolve(pool)?;
    let value = match attribute {
        1..=3 => Value::Switch(Out(value.0.cast()).get()?),
        _ => Value::Bytes(Out(value.0.cast()).get()?),
    };
    pool.set(attribute, value)
}

pub(crate) fn get_attribute(pool: usize, attribute: c_uint, value: Out<u8>) -> CudaResult {
    match pool::resolve(pool)?.get(attribute)? {
        Value::Switch(number) => Ok(Out(value.0.cast()).set(number)?),
        Value::Bytes(number) => Ok(Out(value.0.cast()).set(number)?),
    }
}

/// What kernels of the listed devices may do with a pool's memory.
pub(crate) fn set_access(pool: usize, list: Out<AccessDescription>, count: usize) -> CudaResult {
    let pool = pool::resolve(pool)?;
    for (device, flags) in reachable(device::get(pool.device as c_int)?, list, count)? {
        pool.set_access(device.ordinal, flags);
    }
    Ok(())
}

/// The devices in a C list, and the access to memory of `owner` that each is to have.
///
/// # Errors
/// `INVALID_DEVICE` for one that cannot have it.
pub(crate) fn reachable(
    owner: &'static Device,
    list: Out<AccessDescription>,
    count: usize,
) -> CudaResult<Vec<(&'static Device, c_uint)>> {
    let one = |entry: AccessDescription| {
        let device = device::get(entry.location.id)?;
        let is_own = device.ordinal == owner.ordinal;
        let may = if is_own { entry.flags == 3 } else { context::can_reach(device, owner) };
        if may { Ok((device, entry.flags)) } else { Err(CudaError::INVALID_DEVICE) }
    };
    list.list(count)?.into_iter().map(one).collect()
}

pub(crate) fn get_access(out: Out<c_uint>, pool: usize, location: Out<MemLocation>) -> CudaResult {
    let pool = pool::resolve(pool)?;
    let device = device::get(location.get()?.id)?;
    Ok(out.set(pool.access(device.ordinal))?)
}

/// Memory of graphs. Freed memory is not kept back, so reserved equals used.
pub(crate) fn graph_attribute(ordinal: c_int, attribute: c_uint, value: Out<u64>) -> CudaResult {
    let (now, most) = graph_memory::used(device::get(ordinal)?.ordinal);
    Ok(value.set(match attribute {
        0 | 2 => now,
        1 | 3 => most,
        _ => return Err(CudaError::INVALID_VALUE),
    })?)
}

/// Only the two high-water marks can be set, to 0.
pub(crate) fn set_graph_attribute(ordinal: c_int, attribute: c_uint, value: Out<u64>) -> CudaResult {
    let device = device::get(ordinal)?;
    if !matches!((attribute, value.get()?), (1 | 3, 0)) {
        return Err(CudaError::INVALID_VALUE);
    }
    graph_memory::reset_most(device.ordinal);
    Ok(())
}

pub(crate) fn trim_graphs(ordinal: c_int) -> CudaResult {
    device::get(ordinal).map(drop)
}

/// The pool that `cudaMallocAsync` uses, by device; the default pool unless another is set.
struct Current(dataplane::lock::Mutex<std::collections::BTreeMap<u32, usize>>);

static CURRENT: Current = Current(dataplane::lock::Mutex::new(std::collections::BTreeMap::new()));

impl Current {
    fn get(&self, device: u32) -> usize {
        let chosen = self.0.lock().get(&device).copied();
        chosen
            .filter(|pool| pool::resolve(*pool).is_ok())
            .unwrap_or_else(|| pool::default_of(&device::all()[device as usize]))
    }

    fn set(&self, device: u32, pool: usize) {
        self.0.lock().insert(device, pool);
    }
}
