//! Kernels by name: those that a program registers at load (cheaply: pointers only), and those that it looks up in
//! modules and libraries. None is ever executed; a launch is recorded.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::Arc;

use dataplane::lock::Mutex;

use super::error::{CudaError, CudaResult};
use super::{Device, attribute};
use crate::boundary::gap;
use crate::boundary::handle::Handles;
use crate::boundary::library::Library;
use crate::sanitizer::{init, races};
use crate::settings::GapPolicy;

/// (host function, name) in the order of registration, as C's pointers; sorted by the first lookup that needs it.
struct Registered {
    functions: Vec<(usize, usize)>,
    sorted: usize,
}

static REGISTERED: Mutex<Registered> = Mutex::new(Registered { functions: Vec::new(), sorted: 0 });
static MODULES: Handles<Module> = Handles::new(5);
static FUNCTIONS: Handles<Function> = Handles::new(6);

/// A loaded image; we do not read it.
#[derive(Debug, Default)]
pub(crate) struct Module {
    functions: Mutex<HashMap<String, usize>>,
}

/// A kernel that was looked up by name.
#[derive(Debug)]
pub(crate) struct Function {
    name: std::ffi::CString,
    module: usize,
}

/// Keeps a kernel of the program: the address of its host function and its name, which lives as long as the program.
pub(crate) fn register(host: usize, name: *const c_char) {
    let mut registered = REGISTERED.lock();
    registered.functions.push((host, name as usize));
}

/// A kernel.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    /// Of the program; its name as C's pointer.
    Registered(usize),
    /// Of a module.
    Loaded(Arc<Function>),
}

impl Kernel {
    /// The kernel behind a host function, a `CUfunction` or a `CUkernel`: all three are one kind of handle here.
    pub(crate) fn find(handle: usize) -> Option<Self> {
        if let Some(function) = FUNCTIONS.get(handle) {
            return Some(Self::Loaded(function));
        }
        let mut registered = REGISTERED.lock();
        if registered.sorted < registered.functions.len() {
            registered.functions.sort_unstable();
            registered.sorted = registered.functions.len();
        }
        let index = registered.functions.binary_search_by_key(&handle, |(host, _)| *host).ok()?;
        Some(Self::Registered(registered.functions[index].1))
    }

    /// Its name, which lives as long as the kernel's owner.
    pub(crate) fn name(&self) -> &CStr {
        match self {
            // SAFETY: the compiler-made registration passes a constant C string of the program.
            Self::Registered(name) => unsafe { CStr::from_ptr(*name as *const c_char) },
            Self::Loaded(function) => &function.name,
        }
    }

    /// Handle of the module that it was looked up in.
    pub(crate) fn module(&self) -> Option<usize> {
        match self {
            Self::Registered(_) => None,
            Self::Loaded(function) => Some(function.module),
        }
    }
}

/// Makes a module and returns its handle.
pub(crate) fn load() -> usize {
    MODULES.insert(Arc::new(Module::default()))
}

/// Ends a module.
///
/// # Errors
/// `INVALID_HANDLE`.
pub(crate) fn unload(handle: usize) -> CudaResult {
    let module = MODULES.remove(handle).ok_or(CudaError::INVALID_HANDLE)?;
    for function in module.functions.lock().values() {
        FUNCTIONS.remove(*function);
    }
    Ok(())
}

/// Handle of the kernel `name` of a module. We do not read images, so every name is there.
///
/// # Errors
/// `INVALID_HANDLE`.
pub(crate) fn lookup(module: usize, name: &CStr) -> CudaResult<usize> {
    let owner = MODULES.get(module).ok_or(CudaError::INVALID_HANDLE)?;
    let mut functions = owner.functions.lock();
    let key = name.to_string_lossy().into_owned();
    Ok(*functions.entry(key).or_insert_with(|| FUNCTIONS.insert(Arc::new(Function { name: name.to_owned(), module }))))
}

/// True while the module is loaded.
pub(crate) fn is_loaded(module: usize) -> bool {
    MODULES.get(module).is_some()
}

/// What a launch asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: usize,
}

/// Checks and records a launch. Nothing is computed: that is a gap.
///
/// # Errors
/// `INVALID_CONFIGURATION` and `INVALID_VALUE` as CUDA does. The gap itself is an error under FAKEGPU_UNSUPPORTED_API=stop
/// (`NO_KERNEL_IMAGE`, as for a kernel that was not compiled for this GPU) and `error` (NotSupported).
pub(crate) fn launch(
    device: &Device,
    kernel: &Kernel,
    launch: Launch,
    library: Library,
    call: &'static str,
) -> CudaResult {
    let Launch { grid, block, shared_bytes } = launch;
    let attribute = |number| attribute::get(device, number).unwrap_or(0) as u32;
    let fits = |dimensions: [u32; 3], first: i32| {
        dimensions.iter().zip(first..).all(|(size, number)| (1..=attribute(number)).contains(size))
    };
    let threads: u64 = block.iter().map(|size| u64::from(*size)).product();
    if !fits(grid, 5) || !fits(block, 2) || threads > u64::from(attribute(1)) {
        return Err(CudaError::INVALID_CONFIGURATION);
    }
    if shared_bytes > attribute(97) as usize {
        return Err(CudaError::INVALID_VALUE);
    }
    if gap::is_muted() {
        return Ok(());
    }
    crate::report::used();
    let name = kernel.name().to_string_lossy();
    device.counters.launched(&name);
    gap::tolerate(library, call, &name)?;
    init::all_written();
    races::writes_anywhere();
    // Success would let a program take memory that the kernel never wrote for its result.
    if gap::policy() == GapPolicy::Stop { Err(CudaError::NO_KERNEL_IMAGE) } else { Ok(()) }
}
