//! Occupancy: `cudaOccupancy*`.

use std::ffi::{c_int, c_uint};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use crate::device::calls::kernel::figures;
use crate::device::calls::occupancy::{available_shared, blocks};
use crate::device::kernel::Kernel;
use crate::device::state::context;

pub(crate) fn max_active(out: Out<c_int>, function: usize, threads: c_int, dynamic_shared: usize) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
    let call = "cudaOccupancyMaxActiveBlocksPerMultiprocessor";
    let figures = figures(device, &kernel, Library::CudaRuntime, call)?;
    Ok(out.set(blocks(device, &figures, threads, dynamic_shared)?)?)
}

pub(crate) fn max_active_with_flags(
    out: Out<c_int>,
    function: usize,
    threads: c_int,
    dynamic_shared: usize,
    _flags: c_uint,
) -> CudaResult {
    max_active(out, function, threads, dynamic_shared)
}

/// `cudaOccupancyAvailableDynamicSMemPerBlock`
pub(crate) fn available(out: Out<usize>, function: usize, blocks: c_int, threads: c_int) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
    let figures = figures(device, &kernel, Library::CudaRuntime, "cudaOccupancyAvailableDynamicSMemPerBlock")?;
    Ok(out.set(available_shared(device, &figures, blocks, threads)?)?)
}
