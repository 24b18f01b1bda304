//! Graphs: the functions for which libcuda has its own layouts.

use std::ffi::c_uint;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use crate::cuda_driver::memory::{Copy3D, described};
use crate::device::calls::graph::{KernelParams, MemsetParams, add, copying, set, set_in};
use crate::device::calls::graph_node::{self, NodeParams, Own};
use crate::device::graph::structure::Operation;
use crate::device::state::context;

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelParamsV2 {
    params: KernelParams,
    kernel: usize,
    context: usize,
}

const _: () = assert!(size_of::<KernelParamsV2>() == 72);

impl KernelParamsV2 {
    fn first(self) -> KernelParams {
        // A `CUkernel` and a `CUfunction` are one kind of handle here.
        let function = if self.params.function == 0 { self.kernel } else { self.params.function };
        KernelParams { function, ..self.params }
    }
}

fn kernel(params: KernelParams, call: &'static str) -> CudaResult<Operation> {
    context::required()?;
    params.operation(Library::CudaDriver, call).map_err(|error| match error {
        CudaError::INVALID_DEVICE_FUNCTION => CudaError::INVALID_HANDLE,
        // The driver has no code of its own for it.
        CudaError::INVALID_CONFIGURATION => CudaError::INVALID_VALUE,
        error => error,
    })
}

pub(crate) fn add_kernel(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<KernelParams>,
) -> CudaResult {
    add(out, graph, after, count, || kernel(params.get()?, "cuGraphAddKernelNode"))
}

pub(crate) fn add_kernel_v2(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<KernelParamsV2>,
) -> CudaResult {
    add(out, graph, after, count, || kernel(params.get()?.first(), "cuGraphAddKernelNode_v2"))
}

pub(crate) fn kernel_params_v2(node: usize, out: Out<KernelParamsV2>) -> CudaResult {
    let out = out.required()?;
    let mut params = std::mem::MaybeUninit::<KernelParams>::uninit();
    crate::device::calls::graph::kernel_params(node, Out(params.as_mut_ptr()))?;
    // SAFETY: the call succeeded, so it wrote the parameters.
    let params = unsafe { params.assume_init() };
    Ok(out.set(KernelParamsV2 { params, kernel: 0, context: context::current() })?)
}

pub(crate) fn set_kernel(node: usize, params: Out<KernelParams>) -> CudaResult {
    set(node, kernel(params.get()?, "cuGraphKernelNodeSetParams")?)
}

pub(crate) fn set_kernel_v2(node: usize, params: Out<KernelParamsV2>) -> CudaResult {
    set(node, kernel(params.get()?.first(), "cuGraphKernelNodeSetParams_v2")?)
}

pub(crate) fn set_kernel_in(exec: usize, node: usize, params: Out<KernelParams>) -> CudaResult {
    set_in(exec, node, kernel(params.get()?, "cuGraphExecKernelNodeSetParams")?)
}

pub(crate) fn set_kernel_in_v2(exec: usize, node: usize, params: Out<KernelParamsV2>) -> CudaResult {
    set_in(exec, node, kernel(params.get()?.first(), "cuGraphExecKernelNodeSetParams_v2")?)
}

pub(crate) fn add_memset(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<MemsetParams>,
    context: usize,
) -> CudaResult {
    context::resolve(context)?;
    add(out, graph, after, count, || params.get()?.operation())
}

pub(crate) fn set_memset_in(exec: usize, node: usize, params: Out<MemsetParams>, context: usize) -> CudaResult {
    context::resolve(context)?;
    set_in(exec, node, params.get()?.operation()?)
}

pub(crate) fn add_memcpy(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<Copy3D>,
    context: usize,
) -> CudaResult {
    context::resolve(context)?;
    add(out, graph, after, count, || copying(described(params)?))
}

pub(crate) fn set_memcpy(node: usize, params: Out<Copy3D>) -> CudaResult {
    set(node, copying(described(params)?)?)
}

pub(crate) fn set_memcpy_in(exec: usize, node: usize, params: Out<Copy3D>, context: usize) -> CudaResult {
    context::resolve(context)?;
    set_in(exec, node, copying(described(params)?)?)
}

const OWN: Own = Own {
    library: Library::CudaDriver,
    call: "cuGraphAddNode",
    kernel: |address| kernel(Out(address as *mut KernelParamsV2).get()?.first(), "cuGraphAddNode"),
    copy: |address| copying(described(Out(address as *mut Copy3D))?),
};

/// A node of any kind.
pub(crate) fn add_node(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<NodeParams>,
) -> CudaResult {
    graph_node::add(OWN, out, graph, after, count, params)
}

pub(crate) fn add_node_v2(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    _edges: usize,
    count: usize,
    params: Out<NodeParams>,
) -> CudaResult {
    graph_node::add(OWN, out, graph, after, count, params)
}

pub(crate) fn create_condition(
    out: Out<u64>,
    graph: usize,
    context: usize,
    value: c_uint,
    flags: c_uint,
) -> CudaResult {
    graph_node::create_condition_v2(out, graph, context, value, flags)
}
