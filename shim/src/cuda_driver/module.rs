//! Modules, functions, libraries and launches: `cuModule*`, `cuFunc*`, `cuLibrary*`, `cuKernel*`, `cuLaunch*`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use abi::argument::{Out, Text};
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use crate::device::calls::header::Dim3;
use crate::device::calls::kernel::{figures, one_attribute, set_attribute};
use crate::device::calls::module::{self, Options};
use crate::device::calls::occupancy::{self, SharedBytesOf};
use crate::device::graph::submit;
use crate::device::kernel::launch::{Arguments, Launch};
use crate::device::kernel::{self, Kernel};
use crate::device::state::context;
use crate::device::work::stream;
use crate::device::{self, Device};

const DRIVER: Library = Library::CudaDriver;

/// A module belongs to the context that it is loaded into; a library to none.
fn into_context(out: Out<usize>, load: impl FnOnce(&'static Device) -> CudaResult) -> CudaResult {
    let device = context::required()?;
    load(device)?;
    kernel::bind(out.get()?, device);
    Ok(())
}

pub(crate) fn load_file(out: Out<usize>, path: Text) -> CudaResult {
    into_context(out, |device| module::load_file(device, out, path, Options::NONE, DRIVER, "cuModuleLoad"))
}

pub(crate) fn load_data(out: Out<usize>, image: *const c_void) -> CudaResult {
    into_context(out, |device| module::load(device, out, image, Options::NONE, DRIVER, "cuModuleLoadData"))
}

pub(crate) fn load_data_ex(
    out: Out<usize>,
    image: *const c_void,
    count: c_uint,
    numbers: *const c_void,
    values: *const c_void,
) -> CudaResult {
    let options = Options { count, numbers, values };
    into_context(out, |device| module::load(device, out, image, options, DRIVER, "cuModuleLoadDataEx"))
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn load_library(
    out: Out<usize>,
    image: *const c_void,
    jit: *const c_void,
    jit_values: *const c_void,
    jit_count: c_uint,
    _options: *const c_void,
    _values: *const c_void,
    _count: c_uint,
) -> CudaResult {
    let options = Options { count: jit_count, numbers: jit, values: jit_values };
    module::load(module::any_device()?, out, image, options, DRIVER, "cuLibraryLoadData")
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn load_library_file(
    out: Out<usize>,
    path: Text,
    jit: *const c_void,
    jit_values: *const c_void,
    jit_count: c_uint,
    _options: *const c_void,
    _values: *const c_void,
    _count: c_uint,
) -> CudaResult {
    let options = Options { count: jit_count, numbers: jit, values: jit_values };
    module::load_file(module::any_device()?, out, path, options, DRIVER, "cuLibraryLoadFromFile")
}

pub(crate) fn library_module(out: Out<usize>, library: usize) -> CudaResult {
    kernel::program_of(library)?;
    Ok(out.set(library)?)
}

pub(crate) fn function_count(out: Out<c_uint>, module: usize) -> CudaResult {
    module::count(out, module, DRIVER, "cuModuleGetFunctionCount")
}

pub(crate) fn kernel_count(out: Out<c_uint>, library: usize) -> CudaResult {
    module::count(out, library, DRIVER, "cuLibraryGetKernelCount")
}

/// Kernels are compiled on demand.
pub(crate) fn is_function_loaded(out: Out<c_uint>, function: usize) -> CudaResult {
    find(function)?;
    Ok(out.set(1)?)
}

pub(crate) fn load_function(function: usize) -> CudaResult {
    find(function).map(drop)
}

pub(crate) fn kernel_library(out: Out<usize>, kernel: usize) -> CudaResult {
    function_module(out, kernel)
}

pub(crate) fn function_parameter(function: usize, index: usize, offset: Out<usize>, bytes: Out<usize>) -> CudaResult {
    module::parameter(function, index, offset, bytes, "cuFuncGetParamInfo")
}

pub(crate) fn function_parameters(function: usize, count: Out<usize>) -> CudaResult {
    module::parameters(function, count, "cuFuncGetParamCount")
}

/// `cuKernelGetFunction`: both are one handle here.
pub(crate) fn kernel_function(out: Out<usize>, kernel: usize) -> CudaResult {
    find(kernel)?;
    Ok(out.set(kernel)?)
}

fn find(handle: usize) -> CudaResult<Kernel> {
    Kernel::find(handle).ok_or(CudaError::INVALID_HANDLE)
}

pub(crate) fn function_name(out: Out<*const c_char>, function: usize) -> CudaResult {
    Ok(out.set(find(function)?.name().as_ptr())?)
}

pub(crate) fn function_module(out: Out<usize>, function: usize) -> CudaResult {
    Ok(out.set(find(function)?.module().ok_or(CudaError::INVALID_HANDLE)?)?)
}

pub(crate) fn function_attribute(out: Out<c_int>, number: c_uint, function: usize) -> CudaResult {
    let (device, out) = (context::required()?, out.required()?);
    Ok(out.set(one_attribute(device, &find(function)?, number, "cuFuncGetAttribute")?)?)
}

pub(crate) fn kernel_attribute(out: Out<c_int>, number: c_uint, kernel: usize, ordinal: c_int) -> CudaResult {
    let (device, out) = (device::get(ordinal)?, out.required()?);
    Ok(out.set(one_attribute(device, &find(kernel)?, number, "cuKernelGetAttribute")?)?)
}

pub(crate) fn set_function_attribute(function: usize, number: c_uint, value: c_int) -> CudaResult {
    set_attribute(context::required()?, &find(function)?, number, value)
}

pub(crate) fn set_kernel_attribute(number: c_uint, value: c_int, kernel: usize, ordinal: c_int) -> CudaResult {
    set_attribute(device::get(ordinal)?, &find(kernel)?, number, value)
}

pub(crate) fn set_cache_config(function: usize, config: c_uint) -> CudaResult {
    find(function)?;
    if config > 3 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}

fn launch_by(
    call: &'static str,
    function: usize,
    launch: Launch,
    parameters: *const c_void,
    extra: *const c_void,
    handle: usize,
) -> CudaResult {
    context::required()?;
    let (stream, kernel) = (stream::resolve(handle)?, find(function)?);
    if kernel.device().is_some_and(|device| device != stream.device) {
        return Err(CudaError::INVALID_HANDLE);
    }
    let launch = Launch { function, ..launch };
    // SAFETY: C passed the arguments in one of the two ways.
    let launched = unsafe {
        let arguments = Arguments::of_driver(parameters, extra)?;
        submit::launch(&stream, &kernel, launch, arguments, DRIVER, call)
    };
    // The driver has no code of its own for it.
    launched.map_err(|error| if error == CudaError::INVALID_CONFIGURATION { CudaError::INVALID_VALUE } else { error })
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn launch(
    function: usize,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: usize,
    parameters: *const c_void,
    extra: *const c_void,
) -> CudaResult {
    let launch = Launch::plain([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes as usize);
    launch_by("cuLaunchKernel", function, launch, parameters, extra, stream)
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn launch_cooperative(
    function: usize,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: usize,
    parameters: *const c_void,
) -> CudaResult {
    let launch = Launch::plain([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes as usize);
    let launch = Launch { is_cooperative: true, ..launch };
    launch_by("cuLaunchCooperativeKernel", function, launch, parameters, std::ptr::null(), stream)
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: c_uint,
    stream: usize,
    attributes: *const c_void,
    attribute_count: c_uint,
}

const _: () = assert!(size_of::<LaunchConfig>() == 56);

pub(crate) fn launch_configured(
    configuration: Out<LaunchConfig>,
    function: usize,
    parameters: *const c_void,
    extra: *const c_void,
) -> CudaResult {
    let LaunchConfig { grid, block, shared_bytes, stream, attributes, attribute_count } = configuration.get()?;
    let launch = Launch::plain(grid.into(), block.into(), shared_bytes as usize);
    // SAFETY: C passed the attributes.
    let launch = unsafe { launch.with_attributes(attributes, attribute_count) }?;
    launch_by("cuLaunchKernelEx", function, launch, parameters, extra, stream)
}

fn blocks(device: &Device, function: usize, threads: c_int, dynamic: usize) -> CudaResult<c_int> {
    let call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
    occupancy::blocks(device, &figures(device, &find(function)?, DRIVER, call)?, threads, dynamic)
}

pub(crate) fn max_active(out: Out<c_int>, function: usize, threads: c_int, dynamic: usize) -> CudaResult {
    let (device, out) = (context::required()?, out.required()?);
    Ok(out.set(blocks(device, function, threads, dynamic)?)?)
}

pub(crate) fn max_active_with_flags(
    out: Out<c_int>,
    function: usize,
    threads: c_int,
    dynamic: usize,
    _flags: c_uint,
) -> CudaResult {
    max_active(out, function, threads, dynamic)
}

/// # Safety
/// `shared` is the program's function for this call.
pub(crate) unsafe fn best_block(
    grid: Out<c_int>,
    block: Out<c_int>,
    function: usize,
    shared: SharedBytesOf,
    dynamic: usize,
    limit: c_int,
) -> CudaResult {
    let (device, grid, block) = (context::required()?, grid.required()?, block.required()?);
    let figures = figures(device, &find(function)?, DRIVER, "cuOccupancyMaxPotentialBlockSize")?;
    // SAFETY: passed on.
    let best = unsafe { occupancy::best_block(device, &figures, shared, dynamic, limit) }?;
    grid.set(best.0)?;
    Ok(block.set(best.1)?)
}

/// # Safety
/// As [`best_block`].
pub(crate) unsafe fn best_block_with_flags(
    grid: Out<c_int>,
    block: Out<c_int>,
    function: usize,
    shared: SharedBytesOf,
    dynamic: usize,
    limit: c_int,
    _flags: c_uint,
) -> CudaResult {
    // SAFETY: passed on.
    unsafe { best_block(grid, block, function, shared, dynamic, limit) }
}

pub(crate) fn available_shared(out: Out<usize>, function: usize, blocks: c_int, threads: c_int) -> CudaResult {
    let (device, out) = (context::required()?, out.required()?);
    let figures = figures(device, &find(function)?, DRIVER, "cuOccupancyAvailableDynamicSMemPerBlock")?;
    Ok(out.set(occupancy::available_shared(device, &figures, blocks, threads)?)?)
}
