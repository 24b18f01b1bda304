//! Devices and versions: `cuInit`, `cuDevice*`.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use abi::argument::{Out, Text};
use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use abi::library::Library;

use crate::boundary::gap;
use crate::device;
use crate::device::state::{attribute, context, version};

/// `cuInit`; without a device it returns an error, as NVIDIA's does.
pub(crate) fn init(flags: c_uint) -> CudaResult {
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    if device::all().is_empty() {
        return Err(CudaError::NO_DEVICE);
    }
    context::initialize();
    Ok(())
}

pub(crate) fn driver_version(out: Out<c_int>) -> CudaResult {
    Ok(out.set(version::driver())?)
}

/// `cuGetExportTable`, which NVIDIA does not document: a gap. A CUDA runtime that was not led to ours asks for tables first, and then
/// whether the driver is NVIDIA's: docs/adr/shim.md.
pub(crate) fn export_table(_table: Out<usize>, _id: Out<[u8; 16]>) -> CudaResult {
    let advice = "asked for by a CUDA runtime that is part of a program or library: one without symbols, as in many Python packages, \
                  or of CUDA 11; in your own, leave the symbols in (no strip, no -s), or link with -cudart shared";
    gap::record(Library::CudaDriver, "cuGetExportTable", advice);
    Err(CudaError::NOT_SUPPORTED)
}

/// `cuProfilerInitialize`: "starting with CUDA 12.0, it always returns error code CUDA_ERROR_NOT_SUPPORTED" (cudaProfiler.h).
pub(crate) fn initialize_profiler(_configuration: Text, _output: Text, _mode: c_uint) -> CudaResult {
    Err(CudaError::NOT_SUPPORTED)
}

pub(crate) fn get(out: Out<c_int>, ordinal: c_int) -> CudaResult {
    Ok(out.set(device::get(ordinal)?.ordinal as c_int)?)
}

pub(crate) fn count(out: Out<c_int>) -> CudaResult {
    Ok(out.set(device::all().len() as c_int)?)
}

pub(crate) fn name(out: *mut c_char, length: c_int, ordinal: c_int) -> CudaResult {
    let length = usize::try_from(length).map_err(|_| CudaError::INVALID_VALUE)?;
    Ok(Out(out).fill(length, &device::get(ordinal)?.gpu.profile.name)?)
}

pub(crate) fn uuid(out: Out<[u8; 16]>, ordinal: c_int) -> CudaResult {
    Ok(out.set(device::get(ordinal)?.gpu.uuid())?)
}

pub(crate) fn total_memory(out: Out<usize>, ordinal: c_int) -> CudaResult {
    Ok(out.set(device::get(ordinal)?.gpu.profile.memory.bytes as usize)?)
}

pub(crate) fn capability(major: Out<c_int>, minor: Out<c_int>, ordinal: c_int) -> CudaResult {
    let capability = attribute::capability(device::get(ordinal)?);
    major.set(capability.0)?;
    Ok(minor.set(capability.1)?)
}

pub(crate) fn primary_state(ordinal: c_int, flags: Out<c_uint>, is_active: Out<c_int>) -> CudaResult {
    let device = device::get(ordinal)?;
    flags.set(device.flags.load(Ordering::Relaxed))?;
    is_active.set(c_int::from(device.primary.is_active()))?;
    // Not of the device's work: PyTorch asks in destructors, also of a device that failed.
    device::answer_before_failure();
    Ok(())
}

pub(crate) fn primary_flags(ordinal: c_int, flags: c_uint) -> CudaResult {
    let device = device::get(ordinal)?;
    context::check_flags(flags)?;
    device.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

/// A log callback. It is called for the driver's own log lines, of which there are none.
struct LogCallback;

static LOG_CALLBACKS: Handles<LogCallback> = Handles::new(8);

/// `cuLogsRegisterCallback`
pub(crate) fn register_log(function: usize, _data: usize, out: Out<usize>) -> CudaResult {
    if function == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    out.set_if_wanted(LOG_CALLBACKS.insert(Arc::new(LogCallback)));
    Ok(())
}

/// `cuLogsUnregisterCallback`
pub(crate) fn unregister_log(handle: usize) -> CudaResult {
    LOG_CALLBACKS.remove(handle).map(drop).ok_or(CudaError::INVALID_VALUE)
}
