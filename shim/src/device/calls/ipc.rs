//! `cudaIpc*`: memory and events shared between processes.

use std::ffi::c_uint;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};

use crate::device::memory::ipc::{self, Handle};
use crate::device::state::context;
use crate::device::work::stream;

/// `cudaIpcMemLazyEnablePeerAccess`, the only flag, which must be given.
const LAZY_PEER_ACCESS: c_uint = 1;

pub(crate) fn memory_handle(out: Out<Handle>, address: usize) -> CudaResult {
    let (_, out) = (context::enter()?, out.required()?);
    Ok(out.set(ipc::export(address)?)?)
}

pub(crate) fn open_memory(out: Out<usize>, handle: Handle, flags: c_uint) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    if flags != LAZY_PEER_ACCESS {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(ipc::open(handle, device)?)?)
}

/// Work that may still use the memory happens first.
pub(crate) fn close_memory(address: usize) -> CudaResult {
    let device = context::enter()?;
    stream::synchronize_device(device);
    ipc::close(address)
}

pub(crate) fn event_handle(out: Out<Handle>, event: usize) -> CudaResult {
    let (_, out) = (context::enter()?, out.required()?);
    Ok(out.set(ipc::export_event(event)?)?)
}

pub(crate) fn open_event(out: Out<usize>, handle: Handle) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    Ok(out.set(ipc::open_event(handle, device)?)?)
}
