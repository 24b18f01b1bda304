//! Graphs: the functions for which libcudart has its own layouts. Some have a different signature in CUDA 13, which adds
//! edge data.

use std::ffi::c_uint;

use abi::argument::Out;
use abi::cuda::CudaResult;
use abi::library::Library;

use super::copy::{self, part};
use super::header::{Copy3D, PitchedPtr, Three};
use crate::device::calls::graph::{self, KernelParams, MemsetParams, add, copying, look, set, set_in};
use crate::device::calls::graph_node::{self, NodeParams, Own};
use crate::device::graph::structure::Operation;
use crate::device::memory::copy::{BoxCopy, Direction, Extent, Layout};
use crate::device::state::version;

fn kernel(params: Out<KernelParams>, call: &'static str) -> CudaResult<Operation> {
    params.get()?.operation(Library::CudaRuntime, call)
}

pub(crate) fn add_kernel(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<KernelParams>,
) -> CudaResult {
    add(out, graph, after, count, || kernel(params, "cudaGraphAddKernelNode"))
}

pub(crate) fn set_kernel(node: usize, params: Out<KernelParams>) -> CudaResult {
    set(node, kernel(params, "cudaGraphKernelNodeSetParams")?)
}

pub(crate) fn set_kernel_in(exec: usize, node: usize, params: Out<KernelParams>) -> CudaResult {
    set_in(exec, node, kernel(params, "cudaGraphExecKernelNodeSetParams")?)
}

pub(crate) fn add_memset(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<MemsetParams>,
) -> CudaResult {
    add(out, graph, after, count, || params.get()?.operation())
}

pub(crate) fn set_memset_in(exec: usize, node: usize, params: Out<MemsetParams>) -> CudaResult {
    set_in(exec, node, params.get()?.operation()?)
}

fn box_3d(params: Out<Copy3D>) -> CudaResult<Operation> {
    copying(copy::described(params)?)
}

fn line(to: usize, from: usize, bytes: usize, kind: c_uint) -> CudaResult<Operation> {
    let direction = Direction::from_kind(kind)?;
    copying(BoxCopy { to: Layout::line(to), from: Layout::line(from), extent: Extent::line(bytes), direction })
}

fn to_symbol(symbol: usize, from: usize, bytes: usize, offset: usize, kind: c_uint) -> CudaResult<Operation> {
    line(part(symbol, offset, bytes, false)?.address + offset, from, bytes, kind)
}

fn from_symbol(to: usize, symbol: usize, bytes: usize, offset: usize, kind: c_uint) -> CudaResult<Operation> {
    line(to, part(symbol, offset, bytes, true)?.address + offset, bytes, kind)
}

pub(crate) fn add_memcpy(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<Copy3D>,
) -> CudaResult {
    add(out, graph, after, count, || box_3d(params))
}

pub(crate) fn memcpy_params(node: usize, out: Out<Copy3D>) -> CudaResult {
    let origin = Three { x: 0, y: 0, z: 0 };
    let params = look(node, |operation| match operation {
        Operation::Copy(BoxCopy { to, from, extent, direction }) => {
            let side = |layout: &Layout| PitchedPtr {
                address: layout.address,
                pitch: layout.pitch,
                width: extent.width,
                height: layout.slice.checked_div(layout.pitch).unwrap_or(extent.height),
            };
            Some(Copy3D {
                from_array: 0,
                from_position: origin,
                from: side(from),
                to_array: 0,
                to_position: origin,
                to: side(to),
                extent: Three { x: extent.width, y: extent.height, z: extent.depth },
                kind: direction.kind(),
            })
        }
        _ => None,
    })?;
    Ok(out.set(params)?)
}

pub(crate) fn set_memcpy(node: usize, params: Out<Copy3D>) -> CudaResult {
    set(node, box_3d(params)?)
}

pub(crate) fn set_memcpy_in(exec: usize, node: usize, params: Out<Copy3D>) -> CudaResult {
    set_in(exec, node, box_3d(params)?)
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn add_line(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    to: usize,
    from: usize,
    bytes: usize,
    kind: c_uint,
) -> CudaResult {
    add(out, graph, after, count, || line(to, from, bytes, kind))
}

pub(crate) fn set_line(node: usize, to: usize, from: usize, bytes: usize, kind: c_uint) -> CudaResult {
    set(node, line(to, from, bytes, kind)?)
}

pub(crate) fn set_line_in(exec: usize, node: usize, to: usize, from: usize, bytes: usize, kind: c_uint) -> CudaResult {
    set_in(exec, node, line(to, from, bytes, kind)?)
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn add_to_symbol(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    symbol: usize,
    from: usize,
    bytes: usize,
    offset: usize,
    kind: c_uint,
) -> CudaResult {
    add(out, graph, after, count, || to_symbol(symbol, from, bytes, offset, kind))
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn add_from_symbol(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    to: usize,
    symbol: usize,
    bytes: usize,
    offset: usize,
    kind: c_uint,
) -> CudaResult {
    add(out, graph, after, count, || from_symbol(to, symbol, bytes, offset, kind))
}

const OWN: Own = Own {
    library: Library::CudaRuntime,
    call: "cudaGraphAddNode",
    kernel: |address| kernel(Out(address as *mut KernelParams), "cudaGraphAddNode"),
    copy: |address| box_3d(Out(address as *mut Copy3D)),
};

/// A node of any kind.
pub(crate) fn add_node(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    _edges: usize,
    count: usize,
    params: Out<NodeParams>,
) -> CudaResult {
    graph_node::add(OWN, out, graph, after, count, params)
}

/// The function of this name, which in CUDA 12 means the version without edge data.
pub(crate) fn add_node_by_version(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> CudaResult {
    if version::is_twelve() {
        return graph_node::add(OWN, out, graph, after, fourth, Out(fifth as *mut NodeParams));
    }
    graph_node::add(OWN, out, graph, after, fifth, Out(sixth as *mut NodeParams))
}

pub(crate) fn edges(graph: usize, from: Out<usize>, to: Out<usize>, fourth: usize, fifth: usize) -> CudaResult {
    if version::is_twelve() {
        return graph::edges(graph, from, to, Out(fourth as *mut usize));
    }
    graph::edges_v2(graph, from, to, Out(fourth as *mut u64), Out(fifth as *mut usize))
}

pub(crate) fn dependencies(node: usize, out: Out<usize>, third: usize, fourth: usize) -> CudaResult {
    if version::is_twelve() {
        return graph::dependencies(node, out, Out(third as *mut usize));
    }
    graph::dependencies_v2(node, out, Out(third as *mut u64), Out(fourth as *mut usize))
}

pub(crate) fn dependents(node: usize, out: Out<usize>, third: usize, fourth: usize) -> CudaResult {
    if version::is_twelve() {
        return graph::dependents(node, out, Out(third as *mut usize));
    }
    graph::dependents_v2(node, out, Out(third as *mut u64), Out(fourth as *mut usize))
}

pub(crate) fn add_dependencies(
    graph: usize,
    from: Out<usize>,
    to: Out<usize>,
    fourth: usize,
    fifth: usize,
) -> CudaResult {
    let count = if version::is_twelve() { fourth } else { fifth };
    graph::add_dependencies(graph, from, to, count)
}

pub(crate) fn remove_dependencies(
    graph: usize,
    from: Out<usize>,
    to: Out<usize>,
    fourth: usize,
    fifth: usize,
) -> CudaResult {
    let count = if version::is_twelve() { fourth } else { fifth };
    graph::remove_dependencies(graph, from, to, count)
}
