//! Streams and events: `cudaStream*`, `cudaEvent*`, host functions.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::boundary::args::Out;
use crate::boundary::guard;
use crate::device::error::{CudaError, CudaResult};
use crate::device::stream::{self, Kind, PRIORITIES};
use crate::device::{context, event};
use crate::process::delay::{self, Place};
use crate::sanitizer::races;

pub(crate) fn create_with_flags(out: Out<usize>, flags: c_uint) -> CudaResult {
    create_with_priority(out, flags, 0)
}

pub(crate) fn create_with_priority(out: Out<usize>, flags: c_uint, priority: c_int) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let kind = match flags {
        0 => Kind::Blocking,
        1 => Kind::NonBlocking,
        _ => return Err(CudaError::INVALID_VALUE),
    };
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    Ok(out.set(stream::create(device, kind, priority))?)
}

pub(crate) fn destroy(handle: usize) -> CudaResult {
    context::enter()?;
    stream::destroy(handle)
}

pub(crate) fn synchronize(handle: usize) -> CudaResult {
    context::enter()?;
    let stream = stream::resolve(handle)?;
    stream.synchronize();
    races::host_waited_for(stream.lane());
    delay::at(Place::Wake);
    Ok(())
}

pub(crate) fn query(handle: usize) -> CudaResult {
    context::enter()?;
    let stream = stream::resolve(handle)?;
    if !stream.is_idle() {
        return Err(CudaError::NOT_READY);
    }
    races::host_waited_for(stream.lane());
    Ok(())
}

pub(crate) fn wait_event(handle: usize, event: usize, flags: c_uint) -> CudaResult {
    context::enter()?;
    if flags > 1 {
        return Err(CudaError::INVALID_VALUE);
    }
    let (stream, event) = (stream::resolve(handle)?, event::resolve(event)?);
    event.hold_up(&stream);
    Ok(())
}

pub(crate) fn priority(handle: usize, out: Out<c_int>) -> CudaResult {
    context::enter()?;
    Ok(out.set(stream::resolve(handle)?.priority())?)
}

pub(crate) fn flags(handle: usize, out: Out<c_uint>) -> CudaResult {
    context::enter()?;
    Ok(out.set(c_uint::from(stream::resolve(handle)?.kind == Kind::NonBlocking))?)
}

pub(crate) fn id(handle: usize, out: Out<c_ulonglong>) -> CudaResult {
    context::enter()?;
    Ok(out.set(stream::resolve(handle)?.id)?)
}

pub(crate) fn device(handle: usize, out: Out<c_int>) -> CudaResult {
    context::enter()?;
    Ok(out.set(stream::resolve(handle)?.device as c_int)?)
}

/// `cudaHostFn_t`
pub(crate) type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
/// `cudaStreamCallback_t`
pub(crate) type Callback = Option<unsafe extern "C" fn(usize, c_uint, *mut c_void)>;

/// A pointer of the program that its own function gets back on our thread.
struct Carried(*mut c_void);

// SAFETY: the program gave the pointer to be used on another thread; that is what the call is for.
unsafe impl Send for Carried {}

impl Carried {
    fn get(self) -> *mut c_void {
        self.0
    }
}

pub(crate) fn host_function(handle: usize, function: HostFunction, data: *mut c_void) -> CudaResult {
    let function = function.ok_or(CudaError::INVALID_VALUE);
    // SAFETY: the program passed the function and its argument for exactly this call.
    on_the_host(handle, function.map(|function| move |data| unsafe { function(data) }), data)
}

pub(crate) fn callback(handle: usize, function: Callback, data: *mut c_void, flags: c_uint) -> CudaResult {
    let function = function.filter(|_| flags == 0).ok_or(CudaError::INVALID_VALUE);
    // SAFETY: as above.
    on_the_host(handle, function.map(|function| move |data| unsafe { function(handle, 0, data) }), data)
}

/// Calls the program's function with its argument on our thread, in stream order.
fn on_the_host(
    handle: usize,
    function: CudaResult<impl FnOnce(*mut c_void) + Send + 'static>,
    data: *mut c_void,
) -> CudaResult {
    context::enter()?;
    let (stream, function) = (stream::resolve(handle)?, function?);
    let data = Carried(data);
    let before = races::point(stream.lane());
    let task = move || {
        races::host_waited(&before);
        guard::host_function(|| function(data.get()));
    };
    stream::enqueue(&stream, Box::new(task));
    Ok(())
}

/// No stream ever captures here: `cudaStreamCaptureStatusNone` is 0.
pub(crate) fn is_capturing(handle: usize, out: Out<c_uint>) -> CudaResult {
    stream::resolve(handle)?;
    Ok(out.set(0)?)
}

/// Both layouts of `cudaStreamGetCaptureInfo` begin alike, and without a capture the rest is not written.
pub(crate) fn capture_info(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>) -> CudaResult {
    stream::resolve(handle)?;
    status.set(0)?;
    id.set_if_wanted(0);
    Ok(())
}

thread_local! {
    static CAPTURE_MODE: Cell<c_uint> = const { Cell::new(0) };
}

pub(crate) fn exchange_capture_mode(mode: Out<c_uint>) -> CudaResult {
    let wanted = mode.get()?;
    if wanted > 2 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(mode.set(CAPTURE_MODE.replace(wanted))?)
}

pub(crate) fn event_create_with_flags(out: Out<usize>, flags: c_uint) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let (no_timing, interprocess) = (flags & 2 != 0, flags & 4 != 0);
    if flags > 7 || (interprocess && !no_timing) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(event::create(device, event::Use { has_timing: !no_timing, is_interprocess: interprocess }))?)
}

pub(crate) fn event_destroy(handle: usize) -> CudaResult {
    context::enter()?;
    event::destroy(handle)
}

pub(crate) fn event_record(event: usize, stream: usize) -> CudaResult {
    context::enter()?;
    let (event, stream) = (event::resolve(event)?, stream::resolve(stream)?);
    event.record(&stream)
}

/// The one flag (external, 1) is for captures only.
pub(crate) fn event_record_with_flags(event: usize, stream: usize, flags: c_uint) -> CudaResult {
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    event_record(event, stream)
}

pub(crate) fn event_query(handle: usize) -> CudaResult {
    context::enter()?;
    let event = event::resolve(handle)?;
    if !event.is_reached() {
        return Err(CudaError::NOT_READY);
    }
    races::host_waited(&event.knowledge());
    Ok(())
}

pub(crate) fn event_synchronize(handle: usize) -> CudaResult {
    context::enter()?;
    let event = event::resolve(handle)?;
    event.synchronize();
    races::host_waited(&event.knowledge());
    delay::at(Place::Wake);
    Ok(())
}

pub(crate) fn event_elapsed(out: Out<f32>, start: usize, end: usize) -> CudaResult {
    context::enter()?;
    let out = out.required()?;
    let (start, end) = (event::resolve(start)?, event::resolve(end)?);
    Ok(out.set(start.elapsed_ms(&end)?)?)
}
