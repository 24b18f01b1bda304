//! `cuIpc*`: the bodies are the runtime's, once there is a context.

use std::ffi::c_uint;

use super::context::in_context;
use crate::boundary::args::Out;
use crate::device::calls::ipc as runtime;
use crate::device::context;
use crate::device::error::CudaResult;
use crate::device::ipc::Handle;

in_context! {
    memory_handle(out: Out<Handle>, address: usize) = runtime::memory_handle;
    open_memory(out: Out<usize>, handle: Handle, flags: c_uint) = runtime::open_memory;
    close_memory(address: usize) = runtime::close_memory;
    event_handle(out: Out<Handle>, event: usize) = runtime::event_handle;
    open_event(out: Out<usize>, handle: Handle) = runtime::open_event;
}
