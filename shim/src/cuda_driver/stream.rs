//! Streams and events: `cuStream*`, `cuEvent*`: the shared bodies, once there is a context.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use abi::argument::Out;
use abi::cuda::CudaResult;

use super::context::in_context;
use crate::device::all;
use crate::device::calls::{stream, stream_attribute};
use crate::device::state::context;
use crate::device::work::stream::attribute::Value;
use crate::device::work::stream::resolve;

in_context! {
    create(out: Out<usize>, flags: c_uint) = stream::create_with_flags;
    create_with_priority(out: Out<usize>, flags: c_uint, priority: c_int) = stream::create_with_priority;
    destroy(handle: usize) = stream::destroy;
    synchronize(handle: usize) = stream::synchronize;
    query(handle: usize) = stream::query;
    wait_event(handle: usize, event: usize, flags: c_uint) = stream::wait_event;
    priority(handle: usize, out: Out<c_int>) = stream::priority;
    flags(handle: usize, out: Out<c_uint>) = stream::flags;
    id(handle: usize, out: Out<c_ulonglong>) = stream::id;
    device(handle: usize, out: Out<c_int>) = stream::device;
    host_function(handle: usize, function: stream::HostFunction, data: *mut c_void) = stream::host_function;
    callback(handle: usize, function: stream::Callback, data: *mut c_void, flags: c_uint) = stream::callback;
    get_attribute(handle: usize, id: c_uint, out: Out<Value>) = stream_attribute::get;
    set_attribute(handle: usize, id: c_uint, value: Out<Value>) = stream_attribute::set;
    copy_attributes(to: usize, from: usize) = stream_attribute::copy;
    attach(handle: usize, address: usize, length: usize, flags: c_uint) = stream_attribute::attach;
    event_create(out: Out<usize>, flags: c_uint) = stream::event_create_with_flags;
    event_record(event: usize, stream: usize) = stream::event_record;
    event_record_with_flags(event: usize, stream: usize, flags: c_uint) = stream::event_record_with_flags;
}

// An event knows its context: CUDA's runtime asks for one in threads that have none.
pub(crate) use stream::{event_destroy, event_elapsed, event_query, event_synchronize};

/// The context that the stream was created in; for a default stream the current one, if it belongs to the stream's device, else
/// that device's primary context.
pub(crate) fn context_of(handle: usize, out: Out<usize>) -> CudaResult {
    context::required()?;
    let stream = resolve(handle)?;
    let is_of = |context: usize| context::resolve(context).is_ok_and(|context| context.device == stream.device);
    let of = if stream.context == 0 { context::current() } else { stream.context };
    Ok(out.set(if is_of(of) { of } else { context::primary_of(&all()[stream.device as usize]) })?)
}

/// The same, and no green context.
pub(crate) fn context_of_v2(handle: usize, out: Out<usize>, green: Out<usize>) -> CudaResult {
    context_of(handle, out)?;
    green.set_if_wanted(0);
    Ok(())
}
