//! The real libcuda: found once, opened alongside this library, and asked for its functions by name.

use std::error::Error;
use std::sync::OnceLock;

use abi::cuda::{CudaError, CudaResult};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use protocol::{env, real_cuda};

use crate::settings;
use crate::trouble;

fn open() -> Result<Library, String> {
    // They are the program's, and the real library's changes to the environment must not affect them.
    settings::get();
    let mut tried = Vec::new();
    for file in real_cuda::candidates(|name| std::env::var(name).ok()) {
        // By its path, and with its own symbols before ours: its calls must not come back to this library.
        // SAFETY: libcuda may be loaded at any time, from any thread.
        match unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL | libc::RTLD_DEEPBIND) } {
            // SAFETY: only the address is used.
            Ok(library) if unsafe { library.get::<*const u8>(b"fakegpu_cuda_hybrid\0") }.is_ok() => {
                tried.push(format!("{}: that is this library itself", file.display()));
            }
            Ok(library) => return Ok(library),
            Err(error) => {
                let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                tried.push(format!("{}: {why}", file.display()));
            }
        }
    }
    Err(format!(
        "the real libcuda, which {}=hybrid needs, cannot be loaded: set {} to its directory (tried {})",
        env::MODE.name,
        env::REAL_CUDA_LIB_DIR.name,
        tried.join("; ")
    ))
}

fn library() -> CudaResult<&'static Library> {
    static REAL: OnceLock<Result<Library, ()>> = OnceLock::new();
    REAL.get_or_init(|| open().map_err(|error| trouble::say(&error))).as_ref().map_err(|()| CudaError::STUB_LIBRARY)
}

/// The address of the real `name`.
///
/// # Errors
/// `CUDA_ERROR_STUB_LIBRARY` if there is no real library; `CUDA_ERROR_NOT_SUPPORTED` for a function that it does not have.
pub(crate) fn address(name: &str) -> CudaResult<usize> {
    // SAFETY: only the address is used.
    let found = unsafe { library()?.get::<*const u8>(name.as_bytes()) };
    found.map(|symbol| symbol.as_raw_ptr() as usize).map_err(|_| CudaError::NOT_SUPPORTED)
}

/// The real function of that name and signature, looked up once.
macro_rules! real {
    ($name:ident($($type:ty),*)) => {
        $crate::real::real!(stringify!($name), ($($type),*))
    };
    ($name:expr, ($($type:ty),*)) => {{
        type Function = unsafe extern "C" fn($($type),*) -> u32;
        static FOUND: std::sync::OnceLock<Function> = std::sync::OnceLock::new();
        match FOUND.get() {
            Some(found) => Ok(*found),
            None => $crate::real::address($name).map(|address| {
                // SAFETY: the signature is the one in NVIDIA's header.
                *FOUND.get_or_init(|| unsafe { std::mem::transmute::<usize, Function>(address) })
            }),
        }
    }};
}

/// Calls the real function of that name with these arguments: `CudaResult`.
macro_rules! call {
    ($name:ident($($argument:expr => $type:ty),* $(,)?)) => {
        match $crate::real::real!($name($($type),*)) {
            // SAFETY: the caller's promises are the real library's.
            Ok(function) => abi::cuda::check(unsafe { function($($argument),*) }),
            Err(code) => Err(code),
        }
    };
}

pub(crate) use {call, real};
