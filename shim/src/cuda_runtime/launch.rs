//! Kernels: registration by compiled code, launches, attributes, libraries.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;

use abi::argument::{Out, Text};
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;
use dataplane::lock::Mutex;

use super::header::{FunctionAttributes, LaunchConfig};
use super::unread;
use crate::compute;
use crate::device::calls::header::Dim3;
use crate::device::calls::kernel::{figures, set_attribute as set_attribute_on};
use crate::device::calls::module::{self, Options};
use crate::device::graph::submit;
use crate::device::kernel::launch::{Arguments, Launch};
use crate::device::kernel::{self, Kernel, program, symbol};
use crate::device::memory;
use crate::device::state::context;
use crate::device::work::stream;

/// Fat binaries of libraries that were closed.
static CLOSED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// `__cudaRegisterFatBinary`. The image is read when one of its kernels or variables is needed; the result is a handle
/// to it.
pub(crate) fn register_fat_binary(image: *const c_void) -> *mut *mut c_void {
    compute::library_loaded();
    // This library may be where one of those was. Locked, because the next one to be registered may be, too.
    let mut closed = CLOSED.lock();
    if !closed.is_empty() {
        kernel::forget(&closed);
        symbol::forget(&closed);
        program::forget(&closed);
        closed.clear();
    }
    Box::into_raw(Box::new(image.cast_mut()))
}

/// `__cudaRegisterFatBinaryEnd`
pub(crate) fn registered(_handle: *mut *mut c_void) {}

/// `__cudaUnregisterFatBinary`, when a library is closed or the program ends. What was kept for the fat binary goes when
/// another is registered: at its end, a program may still use it.
pub(crate) fn unregister_fat_binary(handle: *mut *mut c_void) {
    CLOSED.lock().push(image_of(handle));
}

#[expect(clippy::too_many_arguments, reason = "the compiler's interface")]
pub(crate) fn register_function(
    handle: *mut *mut c_void,
    host: usize,
    _device: *const c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread: *const c_void,
    _block: *const c_void,
    _block_size: *const c_void,
    _grid_size: *const c_void,
    _warp_size: *const c_int,
) {
    kernel::register(host, name, image_of(handle));
}

#[expect(clippy::too_many_arguments, reason = "the compiler's interface")]
pub(crate) fn register_variable(
    handle: *mut *mut c_void,
    host: usize,
    _address: *const c_char,
    name: *const c_char,
    _is_external: c_int,
    size: usize,
    _is_constant: c_int,
    _is_global: c_int,
) {
    symbol::register(host, name, size, image_of(handle));
}

/// The fat binary for a handle from [`register_fat_binary`].
fn image_of(handle: *mut *mut c_void) -> usize {
    // SAFETY: compiled code passes the answer of `register_fat_binary`, which is never freed.
    if handle.is_null() { 0 } else { unsafe { *handle as usize } }
}

/// A managed variable needs its memory immediately, through `*place`; its value is set before the program reads it.
#[expect(clippy::too_many_arguments, reason = "the compiler's interface")]
pub(crate) fn register_managed(
    handle: *mut *mut c_void,
    place: Out<usize>,
    _address: *const c_char,
    name: *const c_char,
    _is_external: c_int,
    size: usize,
    _is_constant: c_int,
    _is_global: c_int,
) {
    if let Ok(address) = memory::allocate_host(size, memory::HostKind::Managed, 0, 1) {
        place.set_if_wanted(address);
        symbol::register_managed(address, name, size, image_of(handle));
    }
}

/// `__cudaInitModule`, which compiled code calls before it reads a managed variable.
pub(crate) fn init_module(handle: *mut *mut c_void) -> u8 {
    symbol::fill_managed(image_of(handle));
    1
}

type Configuration = (Dim3, Dim3, usize, usize);

thread_local! {
    // Never dropped: exit handlers of the program still call in after a thread's values were destroyed.
    static CONFIGURATIONS: RefCell<ManuallyDrop<Vec<Configuration>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

pub(crate) fn push_configuration(grid: Dim3, block: Dim3, shared_bytes: usize, stream: usize) -> c_uint {
    CONFIGURATIONS.with_borrow_mut(|stack| stack.push((grid, block, shared_bytes, stream)));
    0
}

pub(crate) fn pop_configuration(
    grid: Out<Dim3>,
    block: Out<Dim3>,
    shared_bytes: Out<usize>,
    stream: Out<usize>,
) -> CudaResult {
    let top = CONFIGURATIONS.with_borrow_mut(|stack| stack.pop()).ok_or(CudaError::MISSING_CONFIGURATION)?;
    unread::configured();
    grid.set(top.0)?;
    block.set(top.1)?;
    shared_bytes.set(top.2)?;
    Ok(stream.set(top.3)?)
}

/// A kernel's handle is its host function: both name it in every call.
pub(crate) fn get_kernel(out: Out<usize>, host: usize) -> CudaResult {
    Ok(out.set(host)?)
}

fn launch_by(
    call: &'static str,
    function: usize,
    launch: Launch,
    arguments: *const c_void,
    handle: usize,
) -> CudaResult {
    let (device, stream) = (context::enter()?, stream::resolve(handle)?);
    // Programming Guide, "Stream and Event Behavior": such a launch fails, while copies, waits and allocations do not.
    if stream.device != device.ordinal {
        return Err(CudaError::INVALID_HANDLE);
    }
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
    let launch = Launch { function, ..launch };
    // SAFETY: C passed a pointer to each argument.
    unsafe { submit::launch(&stream, &kernel, launch, Arguments::Each(arguments.cast()), Library::CudaRuntime, call) }
}

pub(crate) fn launch(
    function: usize,
    grid: Dim3,
    block: Dim3,
    arguments: *const c_void,
    shared_bytes: usize,
    stream: usize,
) -> CudaResult {
    let launch = Launch::plain(grid.into(), block.into(), shared_bytes);
    unread::launched(function, launch_by("cudaLaunchKernel", function, launch, arguments, stream))
}

pub(crate) fn launch_cooperative(
    function: usize,
    grid: Dim3,
    block: Dim3,
    arguments: *const c_void,
    shared_bytes: usize,
    stream: usize,
) -> CudaResult {
    let launch = Launch { is_cooperative: true, ..Launch::plain(grid.into(), block.into(), shared_bytes) };
    launch_by("cudaLaunchCooperativeKernel", function, launch, arguments, stream)
}

pub(crate) fn launch_configured(
    configuration: Out<LaunchConfig>,
    function: usize,
    arguments: *const c_void,
) -> CudaResult {
    let configuration = configuration.get()?;
    let launch = Launch::plain(configuration.grid.into(), configuration.block.into(), configuration.shared_bytes);
    // SAFETY: C passed the attributes.
    let launch = unsafe { launch.with_attributes(configuration.attributes, configuration.attribute_count) }?;
    launch_by("cudaLaunchKernelExC", function, launch, arguments, configuration.stream)
}

pub(crate) fn attributes(out: Out<FunctionAttributes>, function: usize) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
    let figures = figures(device, &kernel, Library::CudaRuntime, "cudaFuncGetAttributes")?;
    Ok(out.set(FunctionAttributes {
        shared_bytes: figures.shared_bytes as usize,
        constant_bytes: figures.constant_bytes as usize,
        local_bytes: figures.local_bytes as usize,
        max_threads_per_block: figures.max_threads as c_int,
        registers: figures.registers as c_int,
        ptx_version: figures.written_for as c_int,
        binary_version: figures.compiled_for as c_int,
        cache_mode_ca: 0,
        max_dynamic_shared_bytes: figures.max_dynamic as c_int,
        preferred_carveout: -1,
        rest: [0; 23],
    })?)
}

pub(crate) fn set_attribute(function: usize, number: c_uint, value: c_int) -> CudaResult {
    let device = context::enter()?;
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
    set_attribute_on(device, &kernel, number, value)
}

pub(crate) fn set_attribute_for(function: usize, number: c_uint, value: c_int, ordinal: c_int) -> CudaResult {
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_HANDLE)?;
    set_attribute_on(crate::device::get(ordinal)?, &kernel, number, value)
}

pub(crate) fn set_cache_config(function: usize, config: c_uint) -> CudaResult {
    context::enter()?;
    Kernel::find(function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
    if config > 3 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}

pub(crate) fn name(out: Out<*const c_char>, function: usize) -> CudaResult {
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
    Ok(out.set(kernel.name().as_ptr())?)
}

/// `cudaLibraryLoadData`: a library is a module here.
#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn library_load(
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
    module::load(context::enter()?, out, image, options, Library::CudaRuntime, "cudaLibraryLoadData")
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn library_load_file(
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
    module::load_file(context::enter()?, out, path, options, Library::CudaRuntime, "cudaLibraryLoadFromFile")
}

/// `cudaLibraryGetGlobal`; the runtime creates its context first.
pub(crate) fn library_global(out: Out<usize>, bytes: Out<usize>, library: usize, name: Text) -> CudaResult {
    context::enter()?;
    module::global(out, bytes, library, name)
}
