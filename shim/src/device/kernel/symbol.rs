//! Variables of the program on the device (`__device__`, `__constant__`, `__managed__`): allocated on each device at first use,
//! with the initial values in the device code.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char};
use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;
use dataplane::lock::Mutex;

use super::image::{self, Initial};
use super::program::{self, Found, Program};
use crate::boundary::gap;
use crate::device::memory::{self, Kind};
use crate::device::{Device, current};

#[derive(Clone, Copy)]
struct Variable {
    name: usize,
    size: usize,
    /// The fat binary that contains it.
    image: usize,
    /// Whether it is managed: its memory is at the host twin, and filled when the program first accesses it.
    is_managed: bool,
    is_filled: bool,
}

static VARIABLES: Mutex<BTreeMap<usize, Variable>> = Mutex::new(BTreeMap::new());
static PLACES: Mutex<Option<Places>> = Mutex::new(None);

/// Addresses by host twin and ordinal.
type Places = HashMap<(usize, u32), usize>;

/// Registers a variable of the program: the address of its host twin, its name, its size in bytes and its fat binary.
pub(crate) fn register(host: usize, name: *const c_char, size: usize, image: usize) {
    let variable = Variable { name: name as usize, size, image, is_managed: false, is_filled: false };
    VARIABLES.lock().insert(host, variable);
}

/// [`register`], for managed memory at `address`.
pub(crate) fn register_managed(address: usize, name: *const c_char, size: usize, image: usize) {
    let variable = Variable { name: name as usize, size, image, is_managed: true, is_filled: false };
    VARIABLES.lock().insert(address, variable);
}

/// Drops the variables of fat binaries that are no longer in memory, and their memory.
pub(crate) fn forget(images: &[usize]) {
    let mut variables = VARIABLES.lock();
    let gone: Vec<usize> =
        variables.iter().filter(|(_, variable)| images.contains(&variable.image)).map(|(host, _)| *host).collect();
    for host in &gone {
        if variables.remove(host).is_some_and(|variable| variable.is_managed) {
            let _ = memory::free_host(*host, &[memory::HostKind::Managed]);
        }
    }
    drop(variables);
    let mut places = PLACES.lock();
    for (_, address) in places.iter_mut().flat_map(|places| places.extract_if(|(host, _), _| gone.contains(host))) {
        memory::free_internal(address);
    }
}

/// A variable on a device.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) address: usize,
    /// Bytes.
    pub(crate) size: usize,
    /// Why it does not hold its initial value; only set by the call that created it.
    pub(crate) unknown: Option<String>,
    name: usize,
}

impl Symbol {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        text(self.name)
    }
}

fn text(name: usize) -> String {
    // SAFETY: the compiler-made registration passes a constant C string of the program.
    unsafe { CStr::from_ptr(name as *const c_char) }.to_string_lossy().into_owned()
}

/// Size of a variable, bytes.
///
/// # Errors
/// `INVALID_SYMBOL`.
pub(crate) fn size(host: usize) -> CudaResult<usize> {
    find(host).map(|variable| variable.size)
}

fn find(host: usize) -> CudaResult<Variable> {
    let variables = VARIABLES.lock();
    variables.get(&host).copied().ok_or(CudaError::INVALID_SYMBOL)
}

/// The host twin of the variable that a fat binary calls `name`.
fn twin(image: usize, name: &str) -> Option<usize> {
    let variables = VARIABLES.lock();
    variables.iter().find(|(_, known)| known.image == image && text(known.name) == name).map(|(host, _)| *host)
}

/// The addresses on `device` of all variables in a fat binary's PTX, which its kernels use: managed ones are at their host
/// twins.
///
/// # Errors
/// `MEMORY_ALLOCATION`, `OPERATING_SYSTEM`.
pub(crate) fn places(image: usize, program: &Program, device: &'static Device) -> CudaResult<Arc<[u64]>> {
    if program.has_managed() {
        fill_managed(image);
    }
    program.places(device, |name| twin(image, name).filter(|host| find(*host).is_ok_and(|known| known.is_managed)))
}

/// The variable on `device`, in the memory that kernels use if any run here.
///
/// # Errors
/// `INVALID_SYMBOL`, `MEMORY_ALLOCATION`.
pub(crate) fn place(host: usize, device: &'static Device) -> CudaResult<Symbol> {
    let variable = find(host)?;
    if !variable.is_managed
        && let Found::Program(program) = program::of_fat_binary(variable.image, device)
        && let Some((index, size, _)) = program.variable(&text(variable.name))
        && size >= variable.size
    {
        let address = places(variable.image, &program, device)?[index] as usize;
        return Ok(Symbol { address, size: variable.size, unknown: None, name: variable.name });
    }
    let mut places = PLACES.lock();
    place_in(places.get_or_insert_with(HashMap::new), host, device)
}

fn place_in(places: &mut Places, host: usize, device: &'static Device) -> CudaResult<Symbol> {
    let variable = find(host)?;
    let symbol = |address, unknown| Symbol { address, size: variable.size, unknown, name: variable.name };
    if variable.is_managed {
        return Ok(symbol(host, None));
    }
    let key = (host, device.ordinal);
    if let Some(address) = places.get(&key) {
        return Ok(symbol(*address, None));
    }
    let address = memory::allocate(device, variable.size.max(1), Kind::Internal)?;
    places.insert(key, address);
    let unknown =
        fill(&variable, address, |image, name| Some(place_in(places, twin(image, name)?, device).ok()?.address));
    Ok(symbol(address, unknown))
}

/// Writes the variable's initial value to its memory. Returns the reason if it is not known.
fn fill(variable: &Variable, address: usize, mut place_of: impl FnMut(usize, &str) -> Option<usize>) -> Option<String> {
    // SAFETY: the compiler-made registration passes the program's own fat binary.
    let found = unsafe { image::initial(variable.image, &text(variable.name)) };
    let (initial, unknown) = match found {
        Ok(initial) if initial.bytes.len() <= variable.size => (initial, None),
        Ok(_) => (Initial::default(), Some("it is larger in the device code".to_owned())),
        Err(why) => (Initial::default(), Some(why)),
    };
    let mut bytes = initial.bytes;
    bytes.resize(variable.size, 0);
    let mut missing = None;
    for (at, target, added) in initial.addresses {
        match (place_of(variable.image, &target), bytes.get_mut(at..at + 8)) {
            (Some(address), Some(place)) => place.copy_from_slice(&(address as u64).wrapping_add(added).to_le_bytes()),
            _ => missing = Some(format!("it holds the address of {target}")),
        }
    }
    // SAFETY: fresh memory of the variable's size, which was not given out yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    unknown.or(missing)
}

/// Fills the managed variables of a fat binary, which the program is about to read directly.
pub(crate) fn fill_managed(image: usize) {
    let waiting: Vec<(usize, Variable)> = {
        let mut variables = VARIABLES.lock();
        let waiting =
            variables.iter_mut().filter(|(_, known)| known.image == image && known.is_managed && !known.is_filled);
        waiting
            .map(|(address, known)| (*address, std::mem::replace(known, Variable { is_filled: true, ..*known })))
            .collect()
    };
    for (address, variable) in waiting {
        let device = current().ok();
        let unknown = fill(&variable, address, |image, name| Some(place(twin(image, name)?, device?).ok()?.address));
        if let Some(why) = unknown {
            let detail = format!("initial value of {}: {why}", text(variable.name));
            gap::record(Library::CudaRuntime, "__cudaRegisterManagedVar", &detail);
        }
    }
}
