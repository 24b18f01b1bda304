//! Modules, functions, libraries and launches: `cuModule*`, `cuFunc*`, `cuLibrary*`, `cuKernel*`, `cuLaunch*`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::boundary::args::{Out, Text};
use crate::boundary::gap;
use crate::boundary::library::Library;
use crate::device::calls::abi::Dim3;
use crate::device::calls::kernel::{assumed, check_attribute, one_attribute};
use crate::device::calls::occupancy::{self, SharedBytesOf};
use crate::device::error::{CudaError, CudaResult};
use crate::device::kernel::{self, Kernel, Launch};
use crate::device::{self, Device, context, stream};

/// Images are not read: what they hold is taken on trust, which is a gap.
fn load(out: Out<usize>, call: &'static str) -> CudaResult {
    context::required()?;
    let out = out.required()?;
    gap::tolerate(Library::CudaDriver, call, "the image is not read")?;
    Ok(out.set(kernel::load())?)
}

pub(crate) fn load_file(out: Out<usize>, path: Text) -> CudaResult {
    if !std::path::Path::new(&path.get()?).is_file() {
        return Err(CudaError::FILE_NOT_FOUND);
    }
    load(out, "cuModuleLoad")
}

pub(crate) fn load_data(out: Out<usize>, image: *const c_void) -> CudaResult {
    if image.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    load(out, "cuModuleLoadData")
}

pub(crate) fn load_data_ex(
    out: Out<usize>,
    image: *const c_void,
    _count: c_uint,
    _options: *const c_void,
    _values: *const c_void,
) -> CudaResult {
    load_data(out, image)
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn load_library(
    out: Out<usize>,
    image: *const c_void,
    _jit: *const c_void,
    _jit_values: *const c_void,
    _jit_count: c_uint,
    _options: *const c_void,
    _values: *const c_void,
    _count: c_uint,
) -> CudaResult {
    load_data(out, image)
}

pub(crate) fn unload(module: usize) -> CudaResult {
    kernel::unload(module)
}

pub(crate) fn library_module(out: Out<usize>, library: usize) -> CudaResult {
    if !kernel::is_loaded(library) {
        return Err(CudaError::INVALID_HANDLE);
    }
    Ok(out.set(library)?)
}

/// `cuModuleGetFunction`, `cuLibraryGetKernel`
pub(crate) unsafe fn function(out: Out<usize>, module: usize, name: *const c_char) -> CudaResult {
    let out = out.required()?;
    if name.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: C passed a text that is not null.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(out.set(kernel::lookup(module, name)?)?)
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
    let device = context::required()?;
    find(function)?;
    check_attribute(device, number, value)
}

pub(crate) fn set_kernel_attribute(number: c_uint, value: c_int, kernel: usize, ordinal: c_int) -> CudaResult {
    find(kernel)?;
    check_attribute(device::get(ordinal)?, number, value)
}

pub(crate) fn set_cache_config(function: usize, config: c_uint) -> CudaResult {
    find(function)?;
    if config > 3 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}

fn launch_by(call: &'static str, function: usize, launch: Launch, handle: usize) -> CudaResult {
    context::required()?;
    let stream = stream::resolve(handle)?;
    kernel::launch(stream.device(), &find(function)?, launch, Library::CudaDriver, call)
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
    _parameters: *const c_void,
    _extra: *const c_void,
) -> CudaResult {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    launch_by("cuLaunchKernel", function, Launch { grid, block, shared_bytes: shared_bytes as usize }, stream)
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
    _parameters: *const c_void,
) -> CudaResult {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let launch = Launch { grid, block, shared_bytes: shared_bytes as usize };
    launch_by("cuLaunchCooperativeKernel", function, launch, stream)
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
    _parameters: *const c_void,
    _extra: *const c_void,
) -> CudaResult {
    let configuration = configuration.get()?;
    let launch = Launch {
        grid: configuration.grid.into(),
        block: configuration.block.into(),
        shared_bytes: configuration.shared_bytes as usize,
    };
    launch_by("cuLaunchKernelEx", function, launch, configuration.stream)
}

fn blocks(device: &Device, function: usize, threads: c_int, dynamic: usize) -> CudaResult<c_int> {
    let call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
    occupancy::blocks(device, &find(function)?, threads, dynamic, Library::CudaDriver, call)
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
    assumed(&find(function)?, Library::CudaDriver, "cuOccupancyMaxPotentialBlockSize")?;
    // SAFETY: passed on.
    let best = unsafe { occupancy::best_block(device, shared, dynamic, limit) }?;
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
    assumed(&find(function)?, Library::CudaDriver, "cuOccupancyAvailableDynamicSMemPerBlock")?;
    Ok(out.set(occupancy::available_shared(device, blocks, threads)?)?)
}
