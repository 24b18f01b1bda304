//! Linked PTX of the program: its kernels as code for this machine, compiled on first use, and its variables on each device.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once, OnceLock};

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;
use ptx::{Checks, GlobalSpace, Image, KernelError, Module, RefusalKind};

use super::image::{self, Code};
use crate::call_site::cpp_name;
use crate::device::Device;
use crate::device::memory::{self, HostKind, Kind};
use crate::device::state::{attribute, version};
use crate::settings;

/// Runnable PTX.
#[derive(Debug)]
pub(crate) struct Program {
    image: Image,
    /// `.target` of the first text.
    target: String,
    /// `.version`, major, of the newest text.
    version: u32,
    kernels: Mutex<HashMap<String, Result<Arc<Compiled>, String>>>,
    places: Mutex<HashMap<u32, Placed>>,
}

/// The variables on one device.
#[derive(Debug)]
struct Placed {
    addresses: Arc<[u64]>,
    device_memory: Vec<usize>,
    host_memory: Vec<usize>,
}

/// A kernel that can be launched.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) kernel: Arc<ptx::Kernel>,
    pub(crate) attributes: ptx::Attributes,
    /// Its name in findings.
    pub(crate) called: &'static str,
    /// The value set for `cudaFuncAttributeMaxDynamicSharedMemorySize`, plus one; 0 if not set.
    max_dynamic: AtomicU32,
}

impl Compiled {
    /// Dynamic shared memory that a launch may request, bytes. A block may have `limit` unless the program requests more.
    pub(crate) fn max_dynamic(&self, limit: u32) -> u32 {
        match self.max_dynamic.load(Ordering::Relaxed) {
            0 => limit.saturating_sub(self.attributes.shared_bytes as u32),
            set => set - 1,
        }
    }

    /// Lets launches request this many bytes.
    pub(crate) fn set_max_dynamic(&self, bytes: u32) {
        self.max_dynamic.store(bytes + 1, Ordering::Relaxed);
    }
}

/// The checks made on kernels.
fn checks() -> Checks {
    let Ok(settings) = settings::get() else { return Checks::default() };
    let wanted = settings.sanitize;
    Checks { shared_races: wanted.shared_races, init: wanted.init, sync: wanted.sync }
}

/// Why PTX cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid(pub(crate) String);

impl Program {
    /// Reads and links PTX.
    ///
    /// # Errors
    /// If it is not PTX, or a name is missing.
    pub(crate) fn new(texts: &[String]) -> Result<Self, Invalid> {
        let modules = texts.iter().map(|text| Self::read(text)).collect::<Result<Vec<Module>, _>>()?;
        let image = Image::link(&modules).map_err(|error| Invalid(error.to_string()))?;
        let target = modules.first().map_or_else(String::new, |module| module.target().to_owned());
        let version = modules.iter().map(|module| module.version().0).max().unwrap_or_default();
        Ok(Self { image, target, version, kernels: Mutex::default(), places: Mutex::default() })
    }

    /// Reads one text.
    ///
    /// # Errors
    /// If it is not PTX.
    pub(crate) fn read(text: &str) -> Result<Module, Invalid> {
        let wrong = |error: ptx::ParseError| {
            Invalid(format!("line {}:{}: {}", error.place.line, error.place.column, error.message))
        };
        Module::parse(text).map_err(wrong)
    }

    /// Looks for instructions that no GPU accepts; those that only we do not support are left for [`Program::kernel`].
    ///
    /// # Errors
    /// The first of them, with its line.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        for entry in self.image.entries() {
            match self.image.check(&entry.name) {
                Err(KernelError::Refused(refusal)) if refusal.kind == RefusalKind::Invalid => {
                    return Err(Invalid(refusal.to_string()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Names of its kernels.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.image.entries().iter().map(|entry| entry.name.as_str())
    }

    /// The declaration of a kernel.
    pub(crate) fn entry(&self, name: &str) -> Option<&ptx::Entry> {
        self.image.entry_named(name)
    }

    /// The kernel behind a pointer of device code.
    pub(crate) fn entry_at(&self, pointer: u64) -> Option<&ptx::Entry> {
        self.image.kernel_at(pointer)
    }

    /// Code for a kernel, compiled at the first call.
    ///
    /// # Errors
    /// Why there is none: the unsupported instruction, with its line.
    pub(crate) fn kernel(&self, name: &str) -> Result<Arc<Compiled>, String> {
        let mut kernels = self.kernels.lock();
        if let Some(known) = kernels.get(name) {
            return known.clone();
        }
        keep_code();
        let made = match self.image.kernel_with(name, checks()) {
            Ok(kernel) => {
                let attributes = kernel.attributes(&self.image);
                // Findings outlive the module.
                let called = format!("kernel {}", cpp_name::of_kernel(name)).leak();
                Ok(Arc::new(Compiled { kernel, attributes, called, max_dynamic: AtomicU32::new(0) }))
            }
            Err(KernelError::Refused(refusal)) if refusal.function != name => Err(format!("{name}: {refusal}")),
            Err(error) => Err(error.to_string()),
        };
        kernels.insert(name.to_owned(), made.clone());
        made
    }

    /// The variable `name`: its index, bytes, and whether the host may use its address.
    pub(crate) fn variable(&self, name: &str) -> Option<(usize, usize, bool)> {
        let globals = self.image.globals();
        let index = globals.iter().position(|global| global.name == name)?;
        Some((index, globals[index].size as usize, globals[index].space == GlobalSpace::Managed))
    }

    /// Whether it has variables of the device.
    pub(crate) fn has_variables(&self) -> bool {
        !self.image.globals().is_empty()
    }

    /// Whether it has managed variables.
    pub(crate) fn has_managed(&self) -> bool {
        self.image.globals().iter().any(|global| global.space == GlobalSpace::Managed)
    }

    /// Addresses of all variables on `device`, with their initial values. `managed` provides those that already exist
    /// elsewhere.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION`, `OPERATING_SYSTEM`.
    pub(crate) fn places(
        &self,
        device: &'static Device,
        managed: impl Fn(&str) -> Option<usize>,
    ) -> CudaResult<Arc<[u64]>> {
        let mut places = self.places.lock();
        if let Some(placed) = places.get(&device.ordinal) {
            return Ok(Arc::clone(&placed.addresses));
        }
        // One managed variable serves all devices.
        let elsewhere = places.values().next().map(|placed| Arc::clone(&placed.addresses));
        let (mut addresses, mut fresh) = (Vec::new(), Vec::new());
        let (mut device_memory, mut host_memory) = (Vec::new(), Vec::new());
        for (index, global) in self.image.globals().iter().enumerate() {
            let size = (global.size as usize).max(1);
            let known = match global.space {
                GlobalSpace::Managed => {
                    managed(&global.name).or_else(|| elsewhere.as_ref().map(|all| all[index] as usize))
                }
                _ => None,
            };
            let address = match (known, global.space) {
                (Some(address), _) => Ok(address),
                (None, GlobalSpace::Managed) => memory::allocate_host(size, HostKind::Managed, device.ordinal, 1)
                    .inspect(|address| host_memory.push(*address)),
                (None, _) => {
                    memory::allocate(device, size, Kind::Internal).inspect(|address| device_memory.push(*address))
                }
            };
            let address = match address {
                Ok(address) => address,
                Err(error) => {
                    release(&device_memory, &host_memory);
                    return Err(error);
                }
            };
            if known.is_none() {
                fresh.push(index);
            }
            addresses.push(address as u64);
        }
        for index in fresh {
            let bytes = self.image.globals()[index].initial(&addresses);
            // SAFETY: memory of the variable's size, which was just made and not given out yet.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), addresses[index] as *mut u8, bytes.len()) };
        }
        let addresses: Arc<[u64]> = addresses.into();
        places.insert(device.ordinal, Placed { addresses: Arc::clone(&addresses), device_memory, host_memory });
        Ok(addresses)
    }
}

/// Sets the directory for compiled code from the environment.
fn keep_code() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let directory = std::env::var_os(protocol::env::KERNELS.name).filter(|path| !path.is_empty());
        if let Some(directory) = directory {
            ptx::keep_code_in(Path::new(&directory));
        }
    });
}

fn release(device_memory: &[usize], host_memory: &[usize]) {
    device_memory.iter().for_each(|address| memory::free_internal(*address));
    for address in host_memory {
        let _ = memory::free_host(*address, &[HostKind::Managed]);
    }
}

/// Launches hold the program, so nothing uses its variables any more at this point.
impl Drop for Program {
    fn drop(&mut self) {
        for placed in self.places.lock().values() {
            release(&placed.device_memory, &placed.host_memory);
        }
    }
}

/// The code for a device in a fat binary of the program.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Kernels that run.
    Program(Arc<Program>),
    /// Code that hardware may run but we do not; the reason, if it is PTX.
    Gap(Option<String>),
    /// Nothing for this device, not even on hardware.
    Nothing,
}

/// Fat binaries by the address of their wrapper and compute capability.
type FatBinaries = HashMap<(usize, (i32, i32)), Found>;

static KNOWN: OnceLock<Mutex<FatBinaries>> = OnceLock::new();

/// Drops the programs of fat binaries that are no longer in memory.
pub(crate) fn forget(wrappers: &[usize]) {
    KNOWN.get_or_init(Mutex::default).lock().retain(|(wrapper, _), _| !wrappers.contains(wrapper));
}

/// The code for `device` in the fat binary that the program registered; read at the first call.
pub(crate) fn of_fat_binary(wrapper: usize, device: &Device) -> Found {
    let capability = attribute::capability(device);
    let mut known = KNOWN.get_or_init(Mutex::default).lock();
    let read = || {
        // SAFETY: the compiler-made registration passes the program's own fat binary.
        match unsafe { image::for_device(wrapper, capability) } {
            Ok(Code::Ptx(texts)) => match Program::new(&texts) {
                Ok(program) => Found::Program(Arc::new(program)),
                Err(Invalid(why)) => Found::Gap(Some(why)),
            },
            Ok(Code::Machine { ptx_from: Some(from) }) => {
                let (major, minor) = (from / 10, from % 10);
                Found::Gap(Some(format!("machine code, whose PTX needs compute capability {major}.{minor}")))
            }
            Ok(Code::Machine { ptx_from: None }) | Err(_) => Found::Gap(None),
            Ok(Code::Nothing) => Found::Nothing,
        }
    };
    known.entry((wrapper, capability)).or_insert_with(read).clone()
}

/// Why an image cannot be loaded: the error code, and a human-readable reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotLoaded {
    pub(crate) error: CudaError,
    pub(crate) why: String,
}

impl From<Invalid> for NotLoaded {
    fn from(Invalid(why): Invalid) -> Self {
        Self { error: CudaError::INVALID_PTX, why }
    }
}

/// The program in an image that is loaded for `device`; `None` for machine code, which is taken on trust.
///
/// # Errors
/// `INVALID_IMAGE` for anything that is not an image, `NO_KERNEL_IMAGE` if the device can run nothing of it,
/// `INVALID_PTX`, `UNSUPPORTED_PTX_VERSION` for PTX of a later CUDA than the driver's.
pub(crate) fn load(code: Result<Code, image::Unusable>, device: &Device) -> Result<Option<Arc<Program>>, NotLoaded> {
    let texts = match code {
        Ok(Code::Ptx(texts)) => texts,
        Ok(Code::Machine { .. }) => return Ok(None),
        Ok(Code::Nothing) => {
            let why = "nothing in it is for the device's compute capability".to_owned();
            return Err(NotLoaded { error: CudaError::NO_KERNEL_IMAGE, why });
        }
        Err(image::Unusable(why)) => return Err(NotLoaded { error: CudaError::INVALID_IMAGE, why }),
    };
    let program = Program::new(&texts)?;
    // CUDA 11 came with PTX 7, 12 with 8, 13 with 9 (PTX ISA, "Release Notes").
    let newest = version::driver() / 1000 - 4;
    if i64::from(program.version) > i64::from(newest) {
        let why = format!("it is PTX {}, and the driver's CUDA reads PTX {newest}", program.version);
        return Err(NotLoaded { error: CudaError::UNSUPPORTED_PTX_VERSION, why });
    }
    if !image::runs_on(&program.target, attribute::capability(device)) {
        let why = format!("it is for {}, which the device cannot run", program.target);
        return Err(NotLoaded { error: CudaError::NO_KERNEL_IMAGE, why });
    }
    program.check()?;
    Ok(Some(Arc::new(program)))
}
