//! libnvidia-ml: the simulated one of `libfakegpu.so`, which lies beside this library and is opened for NVML alone. It learns
//! what CUDA shows here, and what this process holds, so a monitor sees the same GPUs.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use protocol::hybrid::{Facts, HOLD, START};

use crate::device::{self, Device};
use crate::real::call;
use crate::{child, entry_point, settings, trouble};

/// `NVML_ERROR_LIBRARY_NOT_FOUND`
const LIBRARY_NOT_FOUND: u32 = 12;

type Hold = unsafe extern "C" fn(u32, u64);

/// The simulated library.
struct Simulated {
    library: Library,
    hold: Hold,
}

fn simulated() -> Option<&'static Simulated> {
    static SIMULATED: OnceLock<Option<Simulated>> = OnceLock::new();
    let open = || open().map_err(|error| trouble::say(&error)).ok();
    SIMULATED.get_or_init(open).as_ref()
}

fn open() -> Result<Simulated, String> {
    settings::get();
    let own = entry_point::file().unwrap_or_default();
    let file = Path::new(&own).with_file_name("libfakegpu.so");
    let explained = |error: libloading::Error| {
        let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        format!("NVML is missing, because {} cannot be loaded: {why}", file.display())
    };
    // Not visible to others: it has functions of CUDA and NCCL, too.
    // SAFETY: nothing runs when it is loaded.
    let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) }.map_err(explained)?;
    // SAFETY: `protocol::hybrid` defines both functions.
    unsafe {
        let start = library.get::<unsafe extern "C" fn(*const Facts)>(START.as_bytes()).map_err(explained)?;
        start(&raw const FACTS);
        let hold = *library.get::<Hold>(HOLD.as_bytes()).map_err(explained)?;
        Ok(Simulated { library, hold })
    }
}

static FACTS: Facts = Facts { variable, total_memory, cuda_version };

/// Answers from the environment of the first call.
unsafe extern "C" fn variable(name: *const c_char) -> *const c_char {
    static VALUES: OnceLock<BTreeMap<String, CString>> = OnceLock::new();
    let values = VALUES.get_or_init(|| {
        let given = settings::environment().iter();
        given.filter_map(|(name, value)| Some((name.clone(), CString::new(value.as_str()).ok()?))).collect()
    });
    // SAFETY: a C string, see `Facts`.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().ok().and_then(|name| values.get(name)).map_or(std::ptr::null(), |value| value.as_ptr())
}

extern "C" fn total_memory(index: u32) -> u64 {
    std::panic::catch_unwind(|| device::total_memory(index as usize, child::memory).unwrap_or(0)).unwrap_or(0)
}

extern "C" fn cuda_version() -> c_int {
    let ask = || {
        let mut version: c_int = 0;
        call!(cuDriverGetVersion(&raw mut version => *mut c_int)).map_or(0, |()| version)
    };
    std::panic::catch_unwind(ask).unwrap_or(0)
}

unsafe extern "C" fn missing() -> u32 {
    LIBRARY_NOT_FOUND
}

extern "C" fn missing_text() -> *const c_char {
    c"libfakegpu.so is missing".as_ptr()
}

/// The function of that name; if there is no simulated library, one that returns `NVML_ERROR_LIBRARY_NOT_FOUND`.
pub(crate) fn find(name: &'static str) -> usize {
    // SAFETY: only the address is used.
    let found = simulated().and_then(|simulated| unsafe { simulated.library.get::<*const u8>(name.as_bytes()) }.ok());
    match found {
        Some(symbol) => symbol.as_raw_ptr() as usize,
        None if name == "nvmlErrorString" => missing_text as *const () as usize,
        None => missing as *const () as usize,
    }
}

/// Tells monitors that this process uses the device, and how much of its memory.
pub(crate) fn hold(device: &Device, bytes: u64) {
    if let Some(simulated) = simulated() {
        // SAFETY: see `open`.
        unsafe { (simulated.hold)(device.index as u32, bytes) };
    }
}
