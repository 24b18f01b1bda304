//! Variables of the program on the device (`__device__`, `__constant__`): given memory on each device at their first use.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use super::Device;
use super::error::{CudaError, CudaResult};
use super::memory::{self, Kind};

#[derive(Clone, Copy)]
struct Variable {
    name: usize,
    size: usize,
}

static VARIABLES: Mutex<BTreeMap<usize, Variable>> = Mutex::new(BTreeMap::new());
static PLACES: Mutex<Option<HashMap<(usize, u32), usize>>> = Mutex::new(None);

/// Keeps a variable of the program: the address of its host twin, its name and size in bytes.
pub(crate) fn register(host: usize, name: *const c_char, size: usize) {
    let variable = Variable { name: name as usize, size };
    VARIABLES.lock().unwrap_or_else(PoisonError::into_inner).insert(host, variable);
}

/// A variable on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub(crate) address: usize,
    /// Bytes.
    pub(crate) size: usize,
    /// True when this call made it: its initial value, which stands in the image, is not there.
    pub(crate) is_new: bool,
    name: usize,
}

impl Symbol {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the compiler-made registration passes a constant C string of the program.
        unsafe { std::ffi::CStr::from_ptr(self.name as *const c_char) }.to_string_lossy().into_owned()
    }
}

/// Size of a variable, bytes.
///
/// # Errors
/// `INVALID_SYMBOL`.
pub(crate) fn size(host: usize) -> CudaResult<usize> {
    let variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    variables.get(&host).map(|variable| variable.size).ok_or(CudaError::INVALID_SYMBOL)
}

/// The variable on `device`.
///
/// # Errors
/// `INVALID_SYMBOL`, `MEMORY_ALLOCATION`.
pub(crate) fn place(host: usize, device: &'static Device) -> CudaResult<Symbol> {
    let variable = {
        let variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
        variables.get(&host).copied().ok_or(CudaError::INVALID_SYMBOL)?
    };
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let places = places.get_or_insert_with(HashMap::new);
    let key = (host, device.ordinal);
    let known = places.get(&key).copied();
    let address = match known {
        Some(address) => address,
        None => {
            let address = memory::allocate(device, variable.size.max(1), Kind::Internal)?;
            places.insert(key, address);
            address
        }
    };
    Ok(Symbol { address, size: variable.size, is_new: known.is_none(), name: variable.name })
}
