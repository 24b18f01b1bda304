//! Kernels by name: those that a program registers at load (cheaply: pointers only), and those that it looks up in
//! modules and libraries. Also the code behind them, if any runs here.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, OnceLock};

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use dataplane::lock::Mutex;

use super::program::{self, Compiled, Found, Program};
use super::{published, symbol};
use crate::device::Device;
use crate::settings::{self, Compute};

/// A kernel of the program, as C's pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    host: usize,
    name: usize,
    /// The fat binary that contains it.
    image: usize,
}

/// In order of registration; sorted by the first lookup that needs it.
struct Registered {
    functions: Vec<Function>,
    sorted: usize,
}

static REGISTERED: Mutex<Registered> = Mutex::new(Registered { functions: Vec::new(), sorted: 0 });
static MODULES: Handles<Module> = Handles::new(5);
static FUNCTIONS: Handles<Loaded> = Handles::new(6);

/// A loaded image.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its PTX; `None` for machine code, for which every name is taken on trust.
    program: Option<Arc<Program>>,
    /// The device of the context that it was loaded into; none for a library.
    device: OnceLock<u32>,
    functions: Mutex<HashMap<String, usize>>,
}

/// A kernel that was looked up by name.
#[derive(Debug)]
pub(crate) struct Loaded {
    name: std::ffi::CString,
    module: usize,
    /// As its module.
    device: Option<u32>,
    program: Option<Arc<Program>>,
}

/// Registers a kernel of the program: the address of its host function, its name, which lives as long as the program, and its
/// fat binary.
pub(crate) fn register(host: usize, name: *const c_char, image: usize) {
    let mut registered = REGISTERED.lock();
    registered.functions.push(Function { host, name: name as usize, image });
}

/// Drops the kernels of fat binaries that are no longer in memory.
pub(crate) fn forget(images: &[usize]) {
    let mut registered = REGISTERED.lock();
    registered.functions.retain(|function| !images.contains(&function.image));
    registered.sorted = 0;
}

/// A kernel.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    /// A kernel of the program: its name as a C pointer, and the fat binary.
    Registered { name: usize, image: usize },
    /// A kernel of a module.
    Loaded(Arc<Loaded>),
}

/// A kernel's code, and the program that it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Runnable {
    pub(crate) program: Arc<Program>,
    pub(crate) compiled: Arc<Compiled>,
}

/// Why a kernel has no code here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoCode {
    /// Hardware may run it. Contains the reason, which names the kernel.
    Gap(String),
    /// Hardware has none either.
    NotForDevice,
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
        let index = registered.functions.binary_search_by_key(&handle, |function| function.host).ok()?;
        let Function { name, image, .. } = registered.functions[index];
        Some(Self::Registered { name, image })
    }

    /// A kernel that only device code of `program` names.
    pub(crate) fn of_program(name: &str, program: &Arc<Program>) -> Self {
        let name = std::ffi::CString::new(name).unwrap_or_default();
        Self::Loaded(Arc::new(Loaded { name, module: 0, device: None, program: Some(Arc::clone(program)) }))
    }

    /// Its name, which lives as long as the kernel's owner.
    pub(crate) fn name(&self) -> &CStr {
        match self {
            // SAFETY: the compiler-made registration passes a constant C string of the program.
            Self::Registered { name, .. } => unsafe { CStr::from_ptr(*name as *const c_char) },
            Self::Loaded(function) => &function.name,
        }
    }

    /// Handle of the module that it was looked up in.
    pub(crate) fn module(&self) -> Option<usize> {
        match self {
            Self::Registered { .. } => None,
            Self::Loaded(function) => Some(function.module),
        }
    }

    /// The only device that can run it; none for kernels of the program and of libraries.
    pub(crate) fn device(&self) -> Option<u32> {
        match self {
            Self::Registered { .. } => None,
            Self::Loaded(function) => function.device,
        }
    }

    /// Its PTX for `device`, or ours in its place. There is none where nothing computes.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn program(&self, device: &Device) -> Result<Arc<Program>, NoCode> {
        if settings::get().is_ok_and(|settings| settings.compute == Compute::Skip) {
            return Err(NoCode::Gap(self.name().to_string_lossy().into_owned()));
        }
        self.own_program(device)
    }

    /// [`Kernel::program`], also where nothing computes.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn own_program(&self, device: &Device) -> Result<Arc<Program>, NoCode> {
        let name = || self.name().to_string_lossy().into_owned();
        match self {
            Self::Registered { image: 0, .. } => Err(NoCode::Gap(name())),
            Self::Registered { image, .. } => match program::of_fat_binary(*image, device) {
                Found::Program(program) => Ok(program),
                Found::Gap(why) => published::program(&name()).ok_or_else(|| match why {
                    None => NoCode::Gap(name()),
                    Some(why) => NoCode::Gap(format!("{}: {why}", name())),
                }),
                Found::Nothing => Err(NoCode::NotForDevice),
            },
            Self::Loaded(function) => function.program.clone().ok_or_else(|| NoCode::Gap(name())),
        }
    }

    /// Its code for `device`, compiled at the first call.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn code(&self, device: &Device) -> Result<Runnable, NoCode> {
        let program = self.program(device)?;
        let compiled = program.kernel(&self.name().to_string_lossy()).map_err(NoCode::Gap)?;
        Ok(Runnable { program, compiled })
    }

    /// Addresses of the variables of `program`, which is its own, on `device`.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION`, `OPERATING_SYSTEM`.
    pub(crate) fn variables(&self, program: &Program, device: &'static Device) -> CudaResult<Arc<[u64]>> {
        match self {
            Self::Registered { image, .. } => symbol::places(*image, program, device),
            Self::Loaded(_) => program.places(device, |_| None),
        }
    }
}

/// Makes a module and returns its handle.
pub(crate) fn load(program: Option<Arc<Program>>) -> usize {
    MODULES.insert(Arc::new(Module { program, device: OnceLock::new(), functions: Mutex::default() }))
}

/// Binds a module that was just loaded to the device of its context.
pub(crate) fn bind(handle: usize, device: &Device) {
    if let Some(module) = MODULES.get(handle) {
        let _ = module.device.set(device.ordinal);
    }
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

/// Handle of the kernel `name` of a module. In machine code, which is not read, every name is assumed to exist.
///
/// # Errors
/// `INVALID_HANDLE`, `NOT_FOUND`.
pub(crate) fn lookup(module: usize, name: &CStr) -> CudaResult<usize> {
    let owner = MODULES.get(module).ok_or(CudaError::INVALID_HANDLE)?;
    let key = name.to_string_lossy().into_owned();
    if owner.program.as_ref().is_some_and(|program| program.entry(&key).is_none()) {
        return Err(CudaError::NOT_FOUND);
    }
    let mut functions = owner.functions.lock();
    let make = || {
        let (device, program) = (owner.device.get().copied(), owner.program.clone());
        let function = Loaded { name: name.to_owned(), module, device, program };
        FUNCTIONS.insert(Arc::new(function))
    };
    Ok(*functions.entry(key).or_insert_with(make))
}

/// The program of a module; `None` for machine code.
///
/// # Errors
/// `INVALID_HANDLE`.
pub(crate) fn program_of(module: usize) -> CudaResult<Option<Arc<Program>>> {
    MODULES.get(module).map(|module| module.program.clone()).ok_or(CudaError::INVALID_HANDLE)
}
