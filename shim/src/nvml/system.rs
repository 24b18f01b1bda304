//! Initialization, which is counted, and what NVML reports about the driver.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::{NvmlError, NvmlResult};
use super::hybrid;
use abi::argument::Out;
use protocol::gpu::Gpu;

use crate::device::state::version;
use crate::settings;

static USERS: AtomicU32 = AtomicU32::new(0);

/// The driver's version.
///
/// # Errors
/// `UNINITIALIZED` for bad settings; `NOT_SUPPORTED` if the real driver's is unknown.
pub(crate) fn driver() -> NvmlResult<&'static str> {
    if let Some(real) = hybrid::driver() {
        return real;
    }
    settings::get().map(|settings| settings.driver.version.as_str()).map_err(|_| NvmlError::UNINITIALIZED)
}

/// Adds a user. Bad settings have been reported on stderr and return "uninitialized" before this is reached.
#[doc(alias = "nvmlInit_v2")]
pub(crate) fn init() -> NvmlResult {
    USERS.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// One user less.
#[doc(alias = "nvmlShutdown")]
pub(crate) fn shutdown() -> NvmlResult {
    let less = USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |users| users.checked_sub(1));
    less.map(drop).map_err(|_| NvmlError::UNINITIALIZED)
}

/// The GPUs of this node. `CUDA_VISIBLE_DEVICES` does not hide any from NVML.
///
/// # Errors
/// `UNINITIALIZED` before the first init and after the last shutdown.
pub(crate) fn gpus() -> NvmlResult<&'static [Gpu]> {
    if USERS.load(Ordering::Acquire) == 0 {
        return Err(NvmlError::UNINITIALIZED);
    }
    settings::get().map(|settings| settings.gpus.as_slice()).map_err(|_| NvmlError::UNINITIALIZED)
}

/// Copies a text out; a buffer that is too short is an error and stays unchanged.
pub(crate) fn put(buffer: *mut c_char, length: c_uint, text: &str) -> NvmlResult {
    if !buffer.is_null() && (length as usize) <= text.len() {
        return Err(NvmlError::INSUFFICIENT_SIZE);
    }
    Ok(Out(buffer).fill(length as usize, text)?)
}

pub(crate) fn driver_version(buffer: *mut c_char, length: c_uint) -> NvmlResult {
    gpus()?;
    put(buffer, length, driver()?)
}

pub(crate) fn nvml_version(buffer: *mut c_char, length: c_uint) -> NvmlResult {
    gpus()?;
    put(buffer, length, &format!("{}.{}", cuda()? / 1000, driver()?))
}

pub(crate) fn cuda_driver_version(out: Out<c_int>) -> NvmlResult {
    // The only NVML query that needs no initialization.
    Ok(out.set(cuda()?)?)
}

/// The version of CUDA that the driver supports.
fn cuda() -> NvmlResult<c_int> {
    hybrid::cuda_version().unwrap_or_else(|| Ok(version::driver()))
}

/// The name of a process, from the kernel.
pub(crate) fn process_name(pid: c_uint, buffer: *mut c_char, length: c_uint) -> NvmlResult {
    gpus()?;
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).map_err(|_| NvmlError::NOT_FOUND)?;
    Ok(Out(buffer).fill(length as usize, &path.to_string_lossy())?)
}

/// There are no S-class units, and no GPU is excluded.
pub(crate) fn unit_count(count: Out<c_uint>) -> NvmlResult {
    gpus()?;
    Ok(count.set(0)?)
}

/// The answer about a unit: there are none.
pub(crate) fn no_such_unit(_unit: usize) -> NvmlResult {
    gpus()?;
    Err(NvmlError::INVALID_ARGUMENT)
}
