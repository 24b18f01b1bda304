//! Stream and event functions that only libcudart has.

use std::ffi::{c_uint, c_void};

use abi::argument::Out;
use abi::cuda::CudaResult;

use crate::device::calls::stream::{HostFunction, create_with_priority, event_create_with_flags, host_function};

pub(crate) fn create(out: Out<usize>) -> CudaResult {
    create_with_priority(out, 0, 0)
}

pub(crate) fn host_function_v2(handle: usize, function: HostFunction, data: *mut c_void, _sync: c_uint) -> CudaResult {
    host_function(handle, function, data)
}

pub(crate) fn event_create(out: Out<usize>) -> CudaResult {
    event_create_with_flags(out, 0)
}
