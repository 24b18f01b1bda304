//! Graphs: `cudaGraph*` and `cuGraph*`, as far as both take the same arguments.

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::Arc;

use abi::argument::{Out, Text};
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::header::Dim3;
use super::stream::HostFunction;
use crate::boundary::gap;
use crate::device::graph::exec::{self, Difference};
use crate::device::graph::structure::{self, Entry, Graph, HostCall, Operation, graph_of, resolve};
use crate::device::graph::user_object;
use crate::device::kernel::Kernel;
use crate::device::kernel::launch::{self, Arguments, Launch};
use crate::device::memory::copy::{BoxCopy, BoxFill, Extent, Layout};
use crate::device::state::context;
use crate::device::work::{event, stream};

pub(crate) fn create(out: Out<usize>, flags: c_uint) -> CudaResult {
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let out = out.required()?;
    Ok(out.set(Graph::create().1)?)
}

pub(crate) fn destroy(graph: usize) -> CudaResult {
    structure::destroy(graph)
}

pub(crate) fn clone(out: Out<usize>, graph: usize) -> CudaResult {
    let (out, graph) = (out.required()?, resolve(graph)?);
    // As CUDA documents: not of graphs with conditional nodes, or nodes that allocate or free.
    if graph.is_conditional() {
        return Err(CudaError::NOT_SUPPORTED);
    }
    graph.must_not_have_memory()?;
    Ok(out.set(graph.copy(false).1)?)
}

/// Adds a node after others.
pub(crate) fn add(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    operation: impl FnOnce() -> CudaResult<Operation>,
) -> CudaResult {
    let (out, graph) = (out.required()?, resolve(graph)?);
    let operation = operation()?;
    let device = match &operation {
        Operation::Kernel(_) => Some(context::enter()?.ordinal),
        _ => None,
    };
    Ok(out.set(graph.add(operation, device, after.list(count)?)?)?)
}

/// Replaces a node's operation with another of the same kind.
fn replace(entry: &mut Entry, operation: Operation) -> CudaResult {
    let is_library = matches!(entry.operation, Operation::Work(_));
    if is_library || entry.operation.node_type() != operation.node_type() {
        return Err(CudaError::INVALID_VALUE);
    }
    entry.operation = operation;
    Ok(())
}

/// Changes a node of a graph.
pub(crate) fn set(node: usize, operation: Operation) -> CudaResult {
    graph_of(node)?.change(node, |entry| replace(entry, operation))
}

/// Changes a node of an executable graph, given by the node of the graph it was made from.
pub(crate) fn set_in(exec: usize, node: usize, operation: Operation) -> CudaResult {
    exec::resolve(exec)?.change(node, |entry| replace(entry, operation))
}

/// Reads a node's operation.
pub(crate) fn look<T>(node: usize, look: impl FnOnce(&Operation) -> Option<T>) -> CudaResult<T> {
    graph_of(node)?.change(node, |entry| look(&entry.operation).ok_or(CudaError::INVALID_VALUE))
}

pub(crate) fn add_empty(out: Out<usize>, graph: usize, after: Out<usize>, count: usize) -> CudaResult {
    add(out, graph, after, count, || Ok(Operation::Empty))
}

/// `cudaHostNodeParams`, `CUDA_HOST_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HostParams {
    function: HostFunction,
    data: *mut c_void,
}

impl HostParams {
    fn operation(self) -> CudaResult<Operation> {
        let function = self.function.ok_or(CudaError::INVALID_VALUE)?;
        Ok(Operation::Host(HostCall { function, data: self.data as usize }))
    }
}

pub(crate) fn add_host(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    params: Out<HostParams>,
) -> CudaResult {
    add(out, graph, after, count, || params.get()?.operation())
}

pub(crate) fn host_params(node: usize, out: Out<HostParams>) -> CudaResult {
    let params = look(node, |operation| match operation {
        Operation::Host(HostCall { function, data }) => {
            Some(HostParams { function: Some(*function), data: *data as *mut c_void })
        }
        _ => None,
    })?;
    Ok(out.set(params)?)
}

pub(crate) fn set_host(node: usize, params: Out<HostParams>) -> CudaResult {
    set(node, params.get()?.operation()?)
}

pub(crate) fn set_host_in(exec: usize, node: usize, params: Out<HostParams>) -> CudaResult {
    set_in(exec, node, params.get()?.operation()?)
}

/// `cudaKernelNodeParams`, `CUDA_KERNEL_NODE_PARAMS_v1`; the driver's second version adds a kernel and a context.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelParams {
    pub(crate) function: usize,
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared_bytes: c_uint,
    pub(crate) parameters: *const c_void,
    pub(crate) extra: *const c_void,
}

const _: () = assert!(size_of::<KernelParams>() == 56 && size_of::<MemsetParams>() == 40);

impl KernelParams {
    /// A kernel that is only a gap has no effect.
    pub(crate) fn operation(self, library: Library, call: &'static str) -> CudaResult<Operation> {
        let device = context::enter()?;
        let kernel = Kernel::find(self.function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
        let launch = Launch::plain(self.grid.into(), self.block.into(), self.shared_bytes as usize);
        let launch = Launch { function: self.function, ..launch };
        // SAFETY: C passed the arguments in one of the two ways.
        let call = unsafe {
            let arguments = Arguments::of_driver(self.parameters, self.extra)?;
            launch::prepare(device, &kernel, launch, arguments, library, call)
        }?;
        Ok(call.map_or(Operation::Empty, |call| Operation::Kernel(Arc::new(call))))
    }
}

pub(crate) fn kernel_params(node: usize, out: Out<KernelParams>) -> CudaResult {
    let params = look(node, |operation| match operation {
        Operation::Kernel(call) => {
            let Launch { grid, block, shared_bytes, function, .. } = call.launch;
            let three = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
            Some(KernelParams {
                function,
                grid: three(grid),
                block: three(block),
                shared_bytes: shared_bytes as c_uint,
                parameters: call.parameters() as *const c_void,
                extra: std::ptr::null(),
            })
        }
        Operation::Work(work) => {
            gap::record(Library::CudaRuntime, "cudaGraphKernelNodeGetParams", work.name());
            None
        }
        _ => None,
    })?;
    Ok(out.set(params)?)
}

/// `cudaMemsetParams`, `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemsetParams {
    address: usize,
    pitch: usize,
    value: c_uint,
    element: c_uint,
    /// The width in elements.
    width: usize,
    height: usize,
}

impl MemsetParams {
    pub(crate) fn operation(self) -> CudaResult<Operation> {
        let element = self.element as usize;
        let width = self.width.checked_mul(element).filter(|width| *width > 0 && self.height > 0);
        let width = width.filter(|_| matches!(element, 1 | 2 | 4)).ok_or(CudaError::INVALID_VALUE)?;
        let to = Layout::rows(self.address, if self.height > 1 { self.pitch } else { 0 });
        let extent = Extent { width, height: self.height, depth: 1 };
        let operation = Operation::Fill(BoxFill { to, pattern: self.value, element, extent });
        operation.check()?;
        Ok(operation)
    }
}

pub(crate) fn memset_params(node: usize, out: Out<MemsetParams>) -> CudaResult {
    let params = look(node, |operation| match operation {
        Operation::Fill(BoxFill { to, pattern, element, extent }) => Some(MemsetParams {
            address: to.address,
            pitch: to.pitch,
            value: *pattern,
            element: *element as c_uint,
            width: extent.width / element,
            height: extent.height,
        }),
        _ => None,
    })?;
    Ok(out.set(params)?)
}

pub(crate) fn set_memset(node: usize, params: Out<MemsetParams>) -> CudaResult {
    set(node, params.get()?.operation()?)
}

/// A checked copy.
pub(crate) fn copying(copy: BoxCopy) -> CudaResult<Operation> {
    let Extent { width, height, depth } = copy.extent;
    if width == 0 || height == 0 || depth == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let operation = Operation::Copy(copy);
    operation.check()?;
    Ok(operation)
}

pub(crate) fn add_event_record(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    event: usize,
) -> CudaResult {
    add(out, graph, after, count, || Ok(Operation::Record(event::resolve(event)?)))
}

pub(crate) fn add_event_wait(
    out: Out<usize>,
    graph: usize,
    after: Out<usize>,
    count: usize,
    event: usize,
) -> CudaResult {
    add(out, graph, after, count, || Ok(Operation::Wait(event::resolve(event)?)))
}

pub(crate) fn recorded_event(node: usize, out: Out<usize>) -> CudaResult {
    let event = look(node, |operation| match operation {
        Operation::Record(event) => Some(Arc::clone(event)),
        _ => None,
    })?;
    Ok(out.set(event::handle_of(&event))?)
}

pub(crate) fn awaited_event(node: usize, out: Out<usize>) -> CudaResult {
    let event = look(node, |operation| match operation {
        Operation::Wait(event) => Some(Arc::clone(event)),
        _ => None,
    })?;
    Ok(out.set(event::handle_of(&event))?)
}

pub(crate) fn set_event_record(node: usize, event: usize) -> CudaResult {
    set(node, Operation::Record(event::resolve(event)?))
}

pub(crate) fn set_event_wait(node: usize, event: usize) -> CudaResult {
    set(node, Operation::Wait(event::resolve(event)?))
}

pub(crate) fn set_event_record_in(exec: usize, node: usize, event: usize) -> CudaResult {
    set_in(exec, node, Operation::Record(event::resolve(event)?))
}

pub(crate) fn set_event_wait_in(exec: usize, node: usize, event: usize) -> CudaResult {
    set_in(exec, node, Operation::Wait(event::resolve(event)?))
}

pub(crate) fn add_child(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, child: usize) -> CudaResult {
    add(out, graph, after, count, || {
        let child = resolve(child)?;
        child.must_not_have_memory()?;
        Ok(Operation::Child(child.copy(true).0))
    })
}

pub(crate) fn child_graph(node: usize, out: Out<usize>) -> CudaResult {
    let graph = look(node, |operation| match operation {
        Operation::Child(graph) => Some(graph.handle()),
        _ => None,
    })?;
    Ok(out.set(graph)?)
}

pub(crate) fn set_child_in(exec: usize, node: usize, child: usize) -> CudaResult {
    exec::resolve(exec)?.replace_child(node, &*resolve(child)?)
}

/// Fills a C array of `count` elements with handles; without an array, returns how many there are.
fn give(handles: &[usize], out: Out<usize>, count: Out<usize>) -> CudaResult {
    if out.is_null() {
        return Ok(count.set(handles.len())?);
    }
    let room = count.get()?;
    for place in 0..room {
        Out(out.0.wrapping_add(place)).set(handles.get(place).copied().unwrap_or(0))?;
    }
    Ok(count.set(room.min(handles.len()))?)
}

pub(crate) fn nodes(graph: usize, out: Out<usize>, count: Out<usize>) -> CudaResult {
    let handles: Vec<usize> = resolve(graph)?.entries().iter().map(|entry| entry.handle).collect();
    give(&handles, out, count)
}

pub(crate) fn root_nodes(graph: usize, out: Out<usize>, count: Out<usize>) -> CudaResult {
    let entries = resolve(graph)?.entries();
    let handles: Vec<usize> = entries.iter().filter(|entry| entry.after.is_empty()).map(|entry| entry.handle).collect();
    give(&handles, out, count)
}

/// Edges have no data here: zeros mean that one node as a whole comes after the other.
fn clear(data: Out<u64>, count: Out<usize>) -> CudaResult {
    if !data.is_null() {
        for place in 0..count.get()? {
            Out(data.0.wrapping_add(place)).set(0)?;
        }
    }
    Ok(())
}

pub(crate) fn edges(graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) -> CudaResult {
    let entries = resolve(graph)?.entries();
    let (starts, ends): (Vec<usize>, Vec<usize>) =
        entries.iter().flat_map(|entry| entry.after.iter().map(|before| (*before, entry.handle))).unzip();
    if from.is_null() != to.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    if !from.is_null() {
        let room = count.get()?;
        give(&ends, to, count)?;
        count.set(room)?;
    }
    give(&starts, from, count)
}

pub(crate) fn edges_v2(
    graph: usize,
    from: Out<usize>,
    to: Out<usize>,
    data: Out<u64>,
    count: Out<usize>,
) -> CudaResult {
    edges(graph, from, to, count)?;
    if from.is_null() { Ok(()) } else { clear(data, count) }
}

pub(crate) fn dependencies(node: usize, out: Out<usize>, count: Out<usize>) -> CudaResult {
    let after = graph_of(node)?.change(node, |entry| Ok(entry.after.clone()))?;
    give(&after, out, count)
}

pub(crate) fn dependencies_v2(node: usize, out: Out<usize>, data: Out<u64>, count: Out<usize>) -> CudaResult {
    dependencies(node, out, count)?;
    if out.is_null() { Ok(()) } else { clear(data, count) }
}

pub(crate) fn dependents(node: usize, out: Out<usize>, count: Out<usize>) -> CudaResult {
    let entries = graph_of(node)?.entries();
    let handles: Vec<usize> =
        entries.iter().filter(|entry| entry.after.contains(&node)).map(|entry| entry.handle).collect();
    give(&handles, out, count)
}

pub(crate) fn dependents_v2(node: usize, out: Out<usize>, data: Out<u64>, count: Out<usize>) -> CudaResult {
    dependents(node, out, count)?;
    if out.is_null() { Ok(()) } else { clear(data, count) }
}

fn connect(graph: usize, from: Out<usize>, to: Out<usize>, count: usize, is_new: bool) -> CudaResult {
    let edges: Vec<(usize, usize)> = from.list(count)?.into_iter().zip(to.list(count)?).collect();
    resolve(graph)?.connect(&edges, is_new)
}

pub(crate) fn add_dependencies(graph: usize, from: Out<usize>, to: Out<usize>, count: usize) -> CudaResult {
    connect(graph, from, to, count, true)
}

pub(crate) fn add_dependencies_v2(
    graph: usize,
    from: Out<usize>,
    to: Out<usize>,
    _data: usize,
    count: usize,
) -> CudaResult {
    connect(graph, from, to, count, true)
}

pub(crate) fn remove_dependencies(graph: usize, from: Out<usize>, to: Out<usize>, count: usize) -> CudaResult {
    connect(graph, from, to, count, false)
}

pub(crate) fn remove_dependencies_v2(
    graph: usize,
    from: Out<usize>,
    to: Out<usize>,
    _data: usize,
    count: usize,
) -> CudaResult {
    connect(graph, from, to, count, false)
}

pub(crate) fn node_type(node: usize, out: Out<c_uint>) -> CudaResult {
    Ok(out.set(look(node, |operation| Some(operation.node_type()))?)?)
}

pub(crate) fn destroy_node(node: usize) -> CudaResult {
    graph_of(node)?.remove(node)
}

pub(crate) fn find_in_clone(out: Out<usize>, node: usize, graph: usize) -> CudaResult {
    let found = resolve(graph)?.entries().iter().find(|entry| entry.origin == node).map(|entry| entry.handle);
    Ok(out.set(found.ok_or(CudaError::INVALID_VALUE)?)?)
}

pub(crate) fn instantiate(out: Out<usize>, graph: usize, flags: c_ulonglong) -> CudaResult {
    const DEVICE_LAUNCH: c_ulonglong = 4;
    let (out, graph) = (out.required()?, resolve(graph)?);
    if flags > 15 {
        return Err(CudaError::INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        gap::record(Library::CudaRuntime, "cudaGraphInstantiate", "for launches from kernels");
        return Err(CudaError::NOT_SUPPORTED);
    }
    Ok(out.set(exec::instantiate(&graph, flags)?)?)
}

/// `cudaGraphInstantiateParams`, `CUDA_GRAPH_INSTANTIATE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InstantiateParams {
    flags: c_ulonglong,
    stream: usize,
    /// Outputs: what goes wrong, and at which node.
    node: usize,
    result: c_uint,
}

pub(crate) fn instantiate_with(out: Out<usize>, graph: usize, params: Out<InstantiateParams>) -> CudaResult {
    const INVALID_STRUCTURE: c_uint = 2;
    let given = params.get()?;
    let done = instantiate(out, graph, given.flags);
    let result = if done.is_ok() { 0 } else { INVALID_STRUCTURE };
    params.set(InstantiateParams { node: 0, result, ..given })?;
    done
}

/// The driver's first version, with a log for people.
pub(crate) fn instantiate_v1(
    out: Out<usize>,
    graph: usize,
    node: Out<usize>,
    _log: usize,
    _bytes: usize,
) -> CudaResult {
    node.set_if_wanted(0);
    instantiate(out, graph, 0)
}

pub(crate) fn launch(exec: usize, handle: usize) -> CudaResult {
    context::enter()?;
    exec::resolve(exec)?.launch(&stream::resolve(handle)?)
}

/// Does nothing: launches read the graph in place.
pub(crate) fn upload(exec: usize, handle: usize) -> CudaResult {
    context::enter()?;
    stream::resolve(handle)?;
    exec::resolve(exec).map(drop)
}

pub(crate) fn destroy_exec(exec: usize) -> CudaResult {
    exec::destroy(exec)
}

pub(crate) fn exec_flags(exec: usize, out: Out<c_ulonglong>) -> CudaResult {
    Ok(out.set(exec::resolve(exec)?.flags)?)
}

pub(crate) fn set_enabled(exec: usize, node: usize, is_enabled: c_uint) -> CudaResult {
    exec::resolve(exec)?.change(node, |entry| {
        // Only kernels, fills and copies can be switched off.
        if entry.operation.node_type() > 2 {
            return Err(CudaError::INVALID_VALUE);
        }
        entry.is_enabled = is_enabled != 0;
        Ok(())
    })
}

pub(crate) fn get_enabled(exec: usize, node: usize, out: Out<c_uint>) -> CudaResult {
    let mut is_enabled = false;
    exec::resolve(exec)?.change(node, |entry| {
        is_enabled = entry.is_enabled;
        Ok(())
    })?;
    Ok(out.set(c_uint::from(is_enabled))?)
}

/// `cudaGraphExecUpdateResultInfo`, `CUgraphExecUpdateResultInfo`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UpdateInfo {
    result: c_uint,
    node: usize,
    from: usize,
}

pub(crate) fn update(exec: usize, graph: usize, info: Out<UpdateInfo>) -> CudaResult {
    let done = exec::resolve(exec)?.update(&*resolve(graph)?);
    let Difference { result, node } = done.err().unwrap_or(Difference { result: 0, node: 0 });
    info.set(UpdateInfo { result, node, from: 0 })?;
    done.map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE)
}

/// The driver's first version.
pub(crate) fn update_v1(exec: usize, graph: usize, node: Out<usize>, result: Out<c_uint>) -> CudaResult {
    let mut info = UpdateInfo { result: 0, node: 0, from: 0 };
    let done = update(exec, graph, Out(&raw mut info));
    node.set_if_wanted(info.node);
    result.set_if_wanted(info.result);
    done
}

/// The graph for `dot`.
pub(crate) fn print(graph: usize, path: Text, _flags: c_uint) -> CudaResult {
    let entries = resolve(graph)?.entries();
    let place = |handle: usize| entries.iter().position(|entry| entry.handle == handle).unwrap_or(0);
    let mut text = "digraph dot {\n".to_owned();
    for (number, entry) in entries.iter().enumerate() {
        let name = entry.operation.name().replace('"', "'");
        text += &format!("  \"{number}\" [label=\"{number}\\n{name}\"];\n");
        for before in &entry.after {
            text += &format!("  \"{}\" -> \"{number}\";\n", place(*before));
        }
    }
    std::fs::write(path.get()?, text + "}\n").map_err(|_| CudaError::OPERATING_SYSTEM)
}

/// User objects: the only valid flag is no destructor synchronization (1).
pub(crate) fn create_object(
    out: Out<usize>,
    data: usize,
    destroy: HostFunction,
    references: c_uint,
    flags: c_uint,
) -> CudaResult {
    let (out, destroy) = (out.required()?, destroy.ok_or(CudaError::INVALID_VALUE)?);
    if flags != 1 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(user_object::create(data, destroy, references as usize)?)?)
}

pub(crate) fn retain_object(object: usize, count: c_uint) -> CudaResult {
    user_object::retain(object, count as usize)
}

pub(crate) fn release_object(object: usize, count: c_uint) -> CudaResult {
    user_object::release(object, count as usize)
}

/// With the flag (1), the caller's references are moved to the graph.
pub(crate) fn hold_object(graph: usize, object: usize, count: c_uint, flags: c_uint) -> CudaResult {
    if flags > 1 {
        return Err(CudaError::INVALID_VALUE);
    }
    resolve(graph)?.held.take(object, count as usize, flags == 1)
}

pub(crate) fn give_object_back(graph: usize, object: usize, count: c_uint) -> CudaResult {
    resolve(graph)?.held.give_back(object, count as usize)
}
