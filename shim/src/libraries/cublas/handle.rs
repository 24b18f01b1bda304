//! A cuBLAS handle: its stream, modes and workspace, and the names of statuses.

use std::ffi::{c_int, c_void};

use abi::argument::Out;
use dataplane::lock::Mutex;

use crate::device;
use crate::libraries::objects::{Answer, Code, Objects, Refusals, Stream, kind};
use crate::libraries::release;

/// CUBLAS_STATUS_NOT_INITIALIZED and CUBLAS_STATUS_INVALID_VALUE.
pub(crate) const REFUSALS: Refusals = Refusals { handle: 1, value: 7 };
static HANDLES: Objects<Handle> = Objects::new(kind::CUBLAS, REFUSALS);

#[derive(Debug, Default)]
struct Handle {
    stream: Stream,
    modes: Mutex<Modes>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Modes {
    pub(super) pointer: c_int,
    pub(super) math: c_int,
    pub(super) atomics: c_int,
    pub(super) sm_count_target: c_int,
    /// Address and bytes.
    workspace: (usize, usize),
}

pub(super) fn create(handle: Out<usize>) -> Answer {
    device::current().map_err(|_| Code(REFUSALS.handle))?;
    HANDLES.create(handle, Handle::default())
}

pub(super) fn destroy(handle: usize) -> Answer {
    HANDLES.destroy(handle)
}

/// The stream that `handle` works in, and whether alpha and beta are device pointers.
pub(crate) fn working(handle: usize) -> Answer<(usize, bool)> {
    let handle = HANDLES.get(handle)?;
    let pointer = handle.modes.lock().pointer;
    Ok((handle.stream.get(), pointer == 1))
}

/// Whether products of f32 may use TF32 (`CUBLAS_TF32_TENSOR_OP_MATH`).
pub(crate) fn allows_tf32(handle: usize) -> Answer<bool> {
    Ok(HANDLES.get(handle)?.modes.lock().math & !16 == 3)
}

/// The handle may be null (NVIDIA's library accepts that; JAX calls it that way).
pub(super) fn get_version(handle: usize, version: Out<c_int>) -> Answer {
    if handle != 0 {
        HANDLES.get(handle)?;
    }
    version.set(release::current().cublas.ten_thousands()).map_err(REFUSALS.null())
}

pub(super) fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cublas.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}

pub(super) fn set_stream(handle: usize, stream: usize) -> Answer {
    let handle = HANDLES.get(handle)?;
    handle.stream.set(stream);
    // NVIDIA's documentation: choosing a stream resets the workspace to the library's own.
    handle.modes.lock().workspace = (0, 0);
    Ok(())
}

pub(super) fn get_stream(handle: usize, stream: Out<usize>) -> Answer {
    stream.set(HANDLES.get(handle)?.stream.get()).map_err(REFUSALS.null())
}

pub(super) fn set_workspace(handle: usize, workspace: *mut c_void, bytes: usize) -> Answer {
    let handle = HANDLES.get(handle)?;
    if !(workspace as usize).is_multiple_of(256) {
        return REFUSALS.value();
    }
    handle.modes.lock().workspace = (workspace as usize, bytes);
    Ok(())
}

/// A math mode: one of the listed ones, with or without "disallow reduced precision reduction" (16).
pub(super) fn set_math_mode(handle: usize, mode: c_int) -> Answer {
    if !(0..=5).contains(&(mode & !16)) {
        HANDLES.get(handle)?;
        return REFUSALS.value();
    }
    set(handle, mode, 0..=21, |modes| &mut modes.math)
}

/// Sets a mode to one of the `allowed` values.
pub(super) fn set(
    handle: usize,
    value: c_int,
    allowed: std::ops::RangeInclusive<c_int>,
    field: fn(&mut Modes) -> &mut c_int,
) -> Answer {
    let handle = HANDLES.get(handle)?;
    if !allowed.contains(&value) {
        return REFUSALS.value();
    }
    *field(&mut handle.modes.lock()) = value;
    Ok(())
}

/// Returns a mode.
pub(super) fn get(handle: usize, out: Out<c_int>, field: fn(&Modes) -> c_int) -> Answer {
    let handle = HANDLES.get(handle)?;
    let value = field(&handle.modes.lock());
    out.set(value).map_err(REFUSALS.null())
}

/// Name and description of a status, for cuBLAS and cuBLASLt.
pub(crate) fn text(status: c_int) -> (&'static std::ffi::CStr, &'static std::ffi::CStr) {
    match status {
        0 => (c"CUBLAS_STATUS_SUCCESS", c"success"),
        1 => (c"CUBLAS_STATUS_NOT_INITIALIZED", c"the library was not initialized"),
        3 => (c"CUBLAS_STATUS_ALLOC_FAILED", c"the resource allocation failed"),
        7 => (c"CUBLAS_STATUS_INVALID_VALUE", c"an invalid value was used as an argument"),
        8 => (c"CUBLAS_STATUS_ARCH_MISMATCH", c"an absent device architectural feature is required"),
        11 => (c"CUBLAS_STATUS_MAPPING_ERROR", c"an access to GPU memory space failed"),
        13 => (c"CUBLAS_STATUS_EXECUTION_FAILED", c"the function failed to launch on the GPU"),
        14 => (c"CUBLAS_STATUS_INTERNAL_ERROR", c"an internal operation failed"),
        15 => (c"CUBLAS_STATUS_NOT_SUPPORTED", c"the functionality is not supported"),
        16 => (c"CUBLAS_STATUS_LICENSE_ERROR", c"license error"),
        _ => (c"CUBLAS_STATUS_UNKNOWN", c"unknown status"),
    }
}
