//! `cuIpc*`: the shared bodies, once there is a context.

use std::ffi::c_uint;

use abi::argument::Out;
use abi::cuda::CudaResult;

use super::context::in_context;
use crate::device::calls::ipc;
use crate::device::memory::ipc::Handle;
use crate::device::state::context;

in_context! {
    memory_handle(out: Out<Handle>, address: usize) = ipc::memory_handle;
    open_memory(out: Out<usize>, handle: Handle, flags: c_uint) = ipc::open_memory;
    close_memory(address: usize) = ipc::close_memory;
    event_handle(out: Out<Handle>, event: usize) = ipc::event_handle;
    open_event(out: Out<usize>, handle: Handle) = ipc::open_event;
}
