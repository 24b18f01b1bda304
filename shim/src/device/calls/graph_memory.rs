//! Graph nodes that allocate and free: `cudaGraphAddMemAllocNode`, `cuGraphAddMemAllocNode` and kin.

use abi::argument::Out;
use abi::cuda::CudaResult;

use super::graph::{add, look};
use super::header::{AccessDescription, PoolProperties};
use super::pool;
use crate::device::graph::structure::{Operation, resolve};
use crate::device::memory::graph_memory;

/// `cudaMemAllocNodeParams`, `CUDA_MEM_ALLOC_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocationParams {
    pool: PoolProperties,
    access: *mut AccessDescription,
    access_count: usize,
    size: usize,
    /// Set to the memory's address.
    address: usize,
}

const _: () = assert!(size_of::<AllocationParams>() == 120);

pub(crate) fn add_allocation(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<AllocationParams>,
) -> CudaResult {
    let given = params.get()?;
    let device = pool::described(given.pool, "cudaGraphAddMemAllocNode")?;
    pool::reachable(device, Out(given.access), given.access_count)?;
    let allocation = resolve(graph)?.memory(device, given.size, &after.list(count)?)?;
    let address = allocation.address;
    add(out, graph, after, count, || Ok(Operation::Allocate(allocation)))?;
    Ok(params.set(AllocationParams { address, ..given })?)
}

pub(crate) fn add_free(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, address: usize) -> CudaResult {
    add(out, graph, after, count, || Ok(Operation::Free(graph_memory::find(address)?)))
}

/// The pool is described as at creation: pinned memory of the device.
pub(crate) fn allocation_params(node: usize, out: Out<AllocationParams>) -> CudaResult {
    let params = look(node, |operation| match operation {
        Operation::Allocate(allocation) => Some(AllocationParams {
            pool: PoolProperties::pinned(allocation.device),
            access: std::ptr::null_mut(),
            access_count: 0,
            size: allocation.size,
            address: allocation.address,
        }),
        _ => None,
    })?;
    Ok(out.set(params)?)
}

pub(crate) fn freed_address(node: usize, out: Out<usize>) -> CudaResult {
    let address = look(node, |operation| match operation {
        Operation::Free(allocation) => Some(allocation.address),
        _ => None,
    })?;
    Ok(out.set(address)?)
}
