//! Graph nodes created from a union of parameters (`cudaGraphAddNode`, `cuGraphAddNode`), and conditional nodes, which can only
//! be created that way.

use std::ffi::{c_int, c_uint};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::graph::{self as shared, HostParams, MemsetParams};
use super::graph_memory::{self, AllocationParams};
use crate::boundary::gap;
use crate::device::graph::structure::{Choice, Conditional, Operation, resolve};

/// `cudaGraphNodeParams`, `CUgraphNodeParams`: the kind, and the parameters of that kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NodeParams {
    kind: c_uint,
    reserved: [c_int; 3],
    union: [u64; 29],
    reserved_behind: u64,
}

const _: () = assert!(size_of::<NodeParams>() == 256);

/// `cudaConditionalNodeParams`, `CUDA_CONDITIONAL_NODE_PARAMS`, which also has a context.
#[repr(C)]
#[derive(Clone, Copy)]
struct ConditionalParams {
    handle: u64,
    choice: c_uint,
    count: c_uint,
    /// Set to the bodies' handles.
    bodies: *const usize,
}

/// Parameters in a library-specific layout, at an address.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) library: Library,
    pub(crate) call: &'static str,
    pub(crate) kernel: fn(usize) -> CudaResult<Operation>,
    pub(crate) copy: fn(usize) -> CudaResult<Operation>,
}

/// A node of any kind.
pub(crate) fn add(
    own: Own,
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<NodeParams>,
) -> CudaResult {
    const UNION: usize = 16;
    let NodeParams { kind, reserved, union, reserved_behind } = params.get()?;
    if reserved != [0; 3] || reserved_behind != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let place = params.0 as usize + UNION;
    let first = union[0] as usize;
    match kind {
        0 => shared::add(out, graph, after, count, || (own.kernel)(place)),
        // Flags and a context are before the copy.
        1 => shared::add(out, graph, after, count, || (own.copy)(place + 16)),
        2 => shared::add(out, graph, after, count, || Out(place as *mut MemsetParams).get()?.operation()),
        3 => shared::add_host(out, graph, after, count, Out(place as *mut HostParams)),
        4 if union[1] as c_uint == 0 => shared::add_child(out, graph, after, count, first),
        5 => shared::add_empty(out, graph, after, count),
        6 => shared::add_event_wait(out, graph, after, count, first),
        7 => shared::add_event_record(out, graph, after, count, first),
        10 => graph_memory::add_allocation(out, graph, after, count, Out(place as *mut AllocationParams)),
        11 => graph_memory::add_free(out, graph, after, count, first),
        13 => conditional(out, graph, after, count, Out(place as *mut ConditionalParams)),
        4 | 8 | 9 | 12 | 14 => {
            let what = match kind {
                4 => "child graphs that are moved",
                8 | 9 => "external semaphores",
                12 => "batches of memory operations",
                _ => "batches of copies",
            };
            gap::record(own.library, own.call, what);
            Err(CudaError::NOT_SUPPORTED)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

fn conditional(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<ConditionalParams>,
) -> CudaResult {
    let given = params.get()?;
    let condition = resolve(graph)?.condition_of(given.handle)?;
    let choice = match (given.choice, given.count) {
        (0, 1 | 2) => Choice::If,
        (1, 1) => Choice::While,
        (2, 1..) => Choice::Switch,
        _ => return Err(CudaError::INVALID_VALUE),
    };
    let node = Conditional::new(condition, choice, given.count as usize);
    let bodies = node.handles.as_ptr();
    shared::add(out, graph, after, count, || Ok(Operation::Conditional(node)))?;
    Ok(params.set(ConditionalParams { bodies, ..given })?)
}

pub(crate) fn create_condition(out: Out<u64>, graph: usize, value: c_uint, flags: c_uint) -> CudaResult {
    const ASSIGN_DEFAULT: c_uint = 1;
    let (out, graph) = (out.required()?, resolve(graph)?);
    if flags > ASSIGN_DEFAULT {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(graph.condition(value, flags == ASSIGN_DEFAULT))?)
}

pub(crate) fn create_condition_v2(
    out: Out<u64>,
    graph: usize,
    _context: usize,
    value: c_uint,
    flags: c_uint,
) -> CudaResult {
    create_condition(out, graph, value, flags)
}
