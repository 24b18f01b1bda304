//! Kernel launches that the real library accepted, counted by device and name for the report. A launch into a captured stream is
//! part of the graph, whose kernels count whenever it is launched.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};
use std::sync::Arc;

use abi::argument::In;
use abi::cuda::CudaResult;
use dataplane::lock::Mutex;
use protocol::device_report::KernelLaunches;

use crate::context::of_stream;
use crate::guard::exports;
use crate::real::call;

/// Kernels above this many names, and those without a name, are counted as `_other_`, as in a simulation.
const NAMES: usize = 10_000;
const OTHER: &str = "_other_";

type Names = BTreeMap<Arc<str>, u64>;

#[derive(Debug, Default)]
struct Launches {
    /// The kernels of each device, by its ordinal.
    devices: BTreeMap<usize, Names>,
    /// Names by handle: a `CUfunction` or a `CUkernel`.
    names: HashMap<usize, Arc<str>>,
    /// Kernels of a graph that can be launched, by its handle.
    graphs: HashMap<usize, Names>,
}

static LAUNCHES: Mutex<Option<Launches>> = Mutex::new(None);

fn with<R>(body: impl FnOnce(&mut Launches) -> R) -> R {
    body(LAUNCHES.lock().get_or_insert_default())
}

/// Launches on a device.
pub(crate) fn of_device(ordinal: usize) -> KernelLaunches {
    let names = with(|launches| launches.devices.get(&ordinal).cloned()).unwrap_or_default();
    let by_name: BTreeMap<String, u64> = names.into_iter().map(|(name, count)| (name.to_string(), count)).collect();
    KernelLaunches { total: by_name.values().sum(), by_name }
}

impl Launches {
    fn add(&mut self, ordinal: usize, name: &Arc<str>, times: u64) {
        let names = self.devices.entry(ordinal).or_default();
        if let Some(count) = names.get_mut(name) {
            *count += times;
            return;
        }
        let name = if names.len() >= NAMES { OTHER.into() } else { name.clone() };
        *names.entry(name).or_default() += times;
    }

    /// Counts a launch of a function whose name is known; false if it is not.
    fn add_known(&mut self, ordinal: usize, function: usize) -> bool {
        let Some(name) = self.names.get(&function).cloned() else { return false };
        self.add(ordinal, &name, 1);
        true
    }
}

/// The name of a function: of a kernel of a library, if its handle came from one. Drivers before CUDA 12.3 do not name it.
fn name_of(function: usize) -> Arc<str> {
    if let Some(known) = with(|launches| launches.names.get(&function).cloned()) {
        return known;
    }
    let mut text = std::ptr::null();
    let found = call!(cuFuncGetName(&raw mut text => *mut *const c_char, function => usize));
    // SAFETY: the real library keeps the name while the module is loaded.
    let name = found.map(|()| unsafe { named(text) }).unwrap_or_else(|_| OTHER.into());
    with(|launches| launches.names.insert(function, name.clone()));
    name
}

/// # Safety
/// `text` is null or a C string.
unsafe fn named(text: *const c_char) -> Arc<str> {
    // SAFETY: promised by the caller.
    if text.is_null() { OTHER.into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into() }
}

/// A stream, and whether 0 is the thread's default stream (`_ptsz`).
#[derive(Clone, Copy)]
struct Stream(usize, bool);

impl Stream {
    fn is_captured(self) -> bool {
        let Stream(stream, per_thread) = self;
        let mut status: c_uint = 0;
        // The legacy default stream (0 or `CU_STREAM_LEGACY`) cannot be captured.
        let asked = match (stream, per_thread) {
            (0, true) => call!(cuStreamIsCapturing_ptsz(stream => usize, &raw mut status => *mut c_uint)),
            (0 | 1, _) => Ok(()),
            _ => call!(cuStreamIsCapturing(stream => usize, &raw mut status => *mut c_uint)),
        };
        asked.is_ok() && status != 0
    }
}

/// Counts a launch if the real library accepts it.
fn launched(function: usize, stream: Stream, real: impl FnOnce() -> CudaResult) -> CudaResult {
    real()?;
    if !stream.is_captured()
        && let Ok((_, device)) = of_stream(stream.0)
        && !with(|launches| launches.add_known(device.ordinal as usize, function))
    {
        let name = name_of(function);
        with(|launches| launches.add(device.ordinal as usize, &name, 1));
    }
    Ok(())
}

/// Counts the kernels of a graph if the real library accepts its launch.
fn graph_launched(graph: usize, stream: Stream, real: impl FnOnce() -> CudaResult) -> CudaResult {
    real()?;
    if !stream.is_captured()
        && let Ok((_, device)) = of_stream(stream.0)
    {
        with(|launches| {
            for (name, times) in launches.graphs.get(&graph).cloned().unwrap_or_default() {
                launches.add(device.ordinal as usize, &name, times);
            }
        });
    }
    Ok(())
}

/// The beginning of `CUlaunchConfig`: grid, block, bytes of shared memory, stream.
#[repr(C)]
#[derive(Clone, Copy)]
struct Configuration {
    sizes: [c_uint; 7],
    stream: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`: the function or, where it is null, the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct KernelNode {
    function: usize,
    sizes: [c_uint; 7],
    arguments: [usize; 2],
    kernel: usize,
    context: usize,
}

const _: () = assert!(size_of::<KernelNode>() == 72 && std::mem::offset_of!(Configuration, stream) == 32);

/// Adds the kernels of a graph, those of its child graphs included. Bodies of conditional nodes are not known to run.
fn kernels(graph: usize, found: &mut Names) -> CudaResult {
    let mut count = 0;
    call!(cuGraphGetNodes(graph => usize, std::ptr::null_mut() => *mut usize, &raw mut count => *mut usize))?;
    let mut nodes = vec![0; count];
    call!(cuGraphGetNodes(graph => usize, nodes.as_mut_ptr() => *mut usize, &raw mut count => *mut usize))?;
    for node in nodes {
        let mut kind: c_int = -1;
        call!(cuGraphNodeGetType(node => usize, &raw mut kind => *mut c_int))?;
        match kind {
            // `CU_GRAPH_NODE_TYPE_KERNEL`
            0 => {
                let mut of = KernelNode::default();
                call!(cuGraphKernelNodeGetParams_v2(node => usize, &raw mut of => *mut KernelNode))?;
                *found.entry(name_of(if of.function == 0 { of.kernel } else { of.function })).or_default() += 1;
            }
            // `CU_GRAPH_NODE_TYPE_GRAPH`
            4 => {
                let mut child = 0;
                call!(cuGraphChildGraphNodeGetGraph(node => usize, &raw mut child => *mut usize))?;
                kernels(child, found)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Notes the kernels of a graph that was made launchable, or updated.
fn note(executable: usize, graph: usize) -> CudaResult {
    let mut found = Names::new();
    // The program's call has succeeded: what cannot be found out is not counted.
    let _ = kernels(graph, &mut found);
    with(|launches| launches.graphs.insert(executable, found));
    Ok(())
}

/// `real` writes the graph that can be launched to `made`.
fn instantiated(made: *mut usize, graph: usize, real: impl FnOnce() -> CudaResult) -> CudaResult {
    real()?;
    note(In(made).get()?, graph)
}

/// Handles of an unloaded module may be given to others.
fn unloaded(real: impl FnOnce() -> CudaResult) -> CudaResult {
    real()?;
    with(|launches| launches.names.clear());
    Ok(())
}

macro_rules! kernel_launches {
    ($($name:ident, $cooperative:ident, $by_configuration:ident, $graph:ident, $instantiate:ident, $per_thread:literal;)*) => {
        exports! {$(
            fn $name(function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, x: c_uint, y: c_uint, z: c_uint, shared: c_uint, stream: usize, arguments: usize, extra: usize) =
                |function, grid_x, grid_y, grid_z, x, y, z, shared, stream, arguments, extra| launched(function, Stream(stream, $per_thread), || {
                    call!($name(function => usize, grid_x => c_uint, grid_y => c_uint, grid_z => c_uint, x => c_uint, y => c_uint, z => c_uint, shared => c_uint, stream => usize, arguments => usize, extra => usize))
                });
            fn $cooperative(function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, x: c_uint, y: c_uint, z: c_uint, shared: c_uint, stream: usize, arguments: usize) =
                |function, grid_x, grid_y, grid_z, x, y, z, shared, stream, arguments| launched(function, Stream(stream, $per_thread), || {
                    call!($cooperative(function => usize, grid_x => c_uint, grid_y => c_uint, grid_z => c_uint, x => c_uint, y => c_uint, z => c_uint, shared => c_uint, stream => usize, arguments => usize))
                });
            fn $by_configuration(configuration: *const Configuration, function: usize, arguments: usize, extra: usize) = |configuration, function, arguments, extra| {
                let real = || call!($by_configuration(configuration => *const Configuration, function => usize, arguments => usize, extra => usize));
                if configuration.is_null() {
                    return real();
                }
                // SAFETY: not null, and promised by the caller.
                let stream = In(unsafe { &raw const (*configuration).stream }).get()?;
                launched(function, Stream(stream, $per_thread), real)
            };
            fn $graph(graph: usize, stream: usize) =
                |graph, stream| graph_launched(graph, Stream(stream, $per_thread), || call!($graph(graph => usize, stream => usize)));
            fn $instantiate(made: *mut usize, graph: usize, parameters: usize) = |made, graph, parameters| {
                instantiated(made, graph, || call!($instantiate(made => *mut usize, graph => usize, parameters => usize)))
            };
        )*}
    };
}

kernel_launches! {
    cuLaunchKernel, cuLaunchCooperativeKernel, cuLaunchKernelEx, cuGraphLaunch, cuGraphInstantiateWithParams, false;
    cuLaunchKernel_ptsz, cuLaunchCooperativeKernel_ptsz, cuLaunchKernelEx_ptsz, cuGraphLaunch_ptsz, cuGraphInstantiateWithParams_ptsz, true;
}

exports! {
    fn cuLaunch(function: usize) = |function| launched(function, Stream(0, false), || call!(cuLaunch(function => usize)));
    fn cuLaunchGrid(function: usize, width: c_int, height: c_int) =
        |function, width, height| launched(function, Stream(0, false), || call!(cuLaunchGrid(function => usize, width => c_int, height => c_int)));
    fn cuLaunchGridAsync(function: usize, width: c_int, height: c_int, stream: usize) =
        |function, width, height, stream| launched(function, Stream(stream, false), || call!(cuLaunchGridAsync(function => usize, width => c_int, height => c_int, stream => usize)));
    fn cuGraphInstantiate(made: *mut usize, graph: usize, node: usize, log: usize, size: usize) = |made, graph, node, log, size| {
        instantiated(made, graph, || call!(cuGraphInstantiate(made => *mut usize, graph => usize, node => usize, log => usize, size => usize)))
    };
    fn cuGraphInstantiate_v2(made: *mut usize, graph: usize, node: usize, log: usize, size: usize) = |made, graph, node, log, size| {
        instantiated(made, graph, || call!(cuGraphInstantiate_v2(made => *mut usize, graph => usize, node => usize, log => usize, size => usize)))
    };
    fn cuGraphInstantiateWithFlags(made: *mut usize, graph: usize, flags: c_ulonglong) = |made, graph, flags| {
        instantiated(made, graph, || call!(cuGraphInstantiateWithFlags(made => *mut usize, graph => usize, flags => c_ulonglong)))
    };
    fn cuGraphExecUpdate(executable: usize, graph: usize, node: usize, result: usize) = |executable, graph, node, result| {
        call!(cuGraphExecUpdate(executable => usize, graph => usize, node => usize, result => usize))?;
        note(executable, graph)
    };
    fn cuGraphExecUpdate_v2(executable: usize, graph: usize, result: usize) = |executable, graph, result| {
        call!(cuGraphExecUpdate_v2(executable => usize, graph => usize, result => usize))?;
        note(executable, graph)
    };
    fn cuGraphExecDestroy(executable: usize) = |executable| {
        // Before the call: the real library may give the handle to another thread before it returns.
        with(|launches| launches.graphs.remove(&executable));
        call!(cuGraphExecDestroy(executable => usize))
    };
    fn cuLibraryGetKernel(out: *mut usize, library: usize, name: *const c_char) = |out, library, name| {
        call!(cuLibraryGetKernel(out => *mut usize, library => usize, name => *const c_char))?;
        // SAFETY: both were valid for the real library.
        let (kernel, name) = (In(out).get()?, unsafe { named(name) });
        with(|launches| launches.names.insert(kernel, name));
        Ok(())
    };
    fn cuLibraryEnumerateKernels(list: *mut usize, count: c_uint, library: usize) = |list, count, library| {
        call!(cuLibraryEnumerateKernels(list => *mut usize, count => c_uint, library => usize))?;
        for index in 0..count as usize {
            let mut text = std::ptr::null();
            let kernel = In(list.wrapping_add(index)).get()?;
            if kernel != 0 && call!(cuKernelGetName(&raw mut text => *mut *const c_char, kernel => usize)).is_ok() {
                // SAFETY: the real library has written it.
                with(|launches| launches.names.insert(kernel, unsafe { named(text) }));
            }
        }
        Ok(())
    };
    fn cuModuleUnload(module: usize) = |module| unloaded(|| call!(cuModuleUnload(module => usize)));
    fn cuLibraryUnload(library: usize) = |library| unloaded(|| call!(cuLibraryUnload(library => usize)));
    fn cuLaunchCooperativeKernelMultiDevice(list: *const MultiDevice, count: c_uint, flags: c_uint) = |list, count, flags| {
        call!(cuLaunchCooperativeKernelMultiDevice(list => *const MultiDevice, count => c_uint, flags => c_uint))?;
        for index in 0..count as usize {
            let of = In(list.wrapping_add(index)).get()?;
            launched(of.function, Stream(of.stream, false), || Ok(()))?;
        }
        Ok(())
    };
}

/// `CUDA_LAUNCH_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
struct MultiDevice {
    function: usize,
    sizes: [c_uint; 7],
    stream: usize,
    arguments: usize,
}
