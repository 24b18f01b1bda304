//! Events of the system: a driver that binds or unbinds a GPU. No driver of a simulated machine does this, so every wait ends
//! with its timeout.

use std::ffi::c_uint;
use std::sync::Arc;
use std::time::Duration;

use abi::argument::Out;
use abi::handle::Handles;

use super::error::{NvmlError, NvmlResult};
use super::header::{self, SystemEventSetRequest, SystemRegistration, SystemWait};
use super::system::gpus;

/// `nvmlSystemEventTypeGpuDriverUnbind` and `...Bind`.
const TYPES: u64 = 0x3;

/// `nvmlSystemEventSet_t`. Registrations have no effect.
struct SystemEventSet;

static SETS: Handles<SystemEventSet> = Handles::new(20);

fn check<T>(version: c_uint) -> NvmlResult {
    gpus()?;
    if version == header::version::<T>(1) { Ok(()) } else { Err(NvmlError::ARGUMENT_VERSION_MISMATCH) }
}

fn known(set: usize) -> NvmlResult<Arc<SystemEventSet>> {
    SETS.get(set).ok_or(NvmlError::INVALID_ARGUMENT)
}

pub(crate) fn create(request: Out<SystemEventSetRequest>) -> NvmlResult {
    let asked = request.get()?;
    check::<SystemEventSetRequest>(asked.version)?;
    Ok(request.set(SystemEventSetRequest { set: SETS.insert(Arc::new(SystemEventSet)), ..asked })?)
}

pub(crate) fn free(request: Out<SystemEventSetRequest>) -> NvmlResult {
    let asked = request.get()?;
    check::<SystemEventSetRequest>(asked.version)?;
    SETS.remove(asked.set).map(drop).ok_or(NvmlError::INVALID_ARGUMENT)
}

pub(crate) fn register(request: Out<SystemRegistration>) -> NvmlResult {
    let asked = request.get()?;
    check::<SystemRegistration>(asked.version)?;
    known(asked.set)?;
    if asked.types & !TYPES == 0 { Ok(()) } else { Err(NvmlError::NOT_SUPPORTED) }
}

/// "If timeoutms is zero, skip waiting for event."
pub(crate) fn wait(request: Out<SystemWait>) -> NvmlResult {
    let asked = request.get()?;
    check::<SystemWait>(asked.version)?;
    known(asked.set)?;
    if asked.list == 0 || asked.room == 0 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    request.set(SystemWait { count: 0, ..asked })?;
    std::thread::sleep(Duration::from_millis(u64::from(asked.milliseconds)));
    Err(NvmlError::TIMEOUT)
}
