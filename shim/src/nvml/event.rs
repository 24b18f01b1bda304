//! Event sets: what a monitor registers and waits for. A simulated GPU has no Xid and no ECC error, so a wait ends with its
//! timeout.

use std::ffi::c_uint;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataplane::lock::{Condvar, Mutex};

use super::abi::EventData;
use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::model;
use super::system::gpus;
use crate::boundary::args::Out;
use crate::boundary::handle::Handles;
use crate::settings::Gpu;

/// `nvmlEventSet_t`.
pub(crate) struct EventSet {
    waiting: Mutex<()>,
    happened: Condvar,
}

static SETS: Handles<EventSet> = Handles::new(16);

/// `nvmlEventType*`: ECC errors (1, 2), performance state and clock (4, 0x10), Xid (8).
fn types(gpu: &Gpu) -> u64 {
    0x8 | 0x4 | 0x10 | if model::ecc(&gpu.profile) == Some(true) { 0x3 } else { 0 }
}

pub(crate) fn supported(device: Handle, out: Out<u64>) -> NvmlResult {
    Ok(out.set(types(device.gpu()?))?)
}

pub(crate) fn create(out: Out<usize>) -> NvmlResult {
    gpus()?;
    out.required()?;
    let set = EventSet { waiting: Mutex::default(), happened: Condvar::new() };
    Ok(out.set(SETS.insert(Arc::new(set)))?)
}

pub(crate) fn free(set: usize) -> NvmlResult {
    gpus()?;
    SETS.remove(set).map(drop).ok_or(NvmlError::INVALID_ARGUMENT)
}

pub(crate) fn register(device: Handle, wanted: u64, set: usize) -> NvmlResult {
    let gpu = device.gpu()?;
    SETS.get(set).ok_or(NvmlError::INVALID_ARGUMENT)?;
    if wanted & !types(gpu) != 0 {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    Ok(())
}

/// Waits for an event that does not come.
pub(crate) fn wait(set: usize, data: Out<EventData>, milliseconds: c_uint) -> NvmlResult {
    gpus()?;
    let set = SETS.get(set).ok_or(NvmlError::INVALID_ARGUMENT)?;
    data.required()?;
    // Nobody calls: the time is all that is waited for.
    let deadline = Instant::now() + Duration::from_millis(u64::from(milliseconds));
    let mut guard = set.waiting.lock();
    while let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        guard = set.happened.wait_timeout(guard, left);
    }
    Err(NvmlError::TIMEOUT)
}
