//! Streams and events: `cudaStream*`, `cudaEvent*`, host functions.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use protocol::operations::Act;

use crate::boundary::calls::{self, Wait, WaitKind};
use crate::boundary::guard;
use crate::device::graph::capture;
use crate::device::graph::structure::{HostCall, Operation};
use crate::device::graph::submit::submit;
use crate::device::state::context;
use crate::device::work::clock;
use crate::device::work::event;
use crate::device::work::stream::{self, Kind, PRIORITIES, Stream};
use crate::device::work::timeline::{self, Work};
use crate::process::delay::{self, Moment};
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
    if handle > 2 {
        capture::ends(&*stream::resolve(handle)?);
    }
    stream::destroy(handle)
}

pub(crate) fn synchronize(handle: usize) -> CudaResult {
    context::enter()?;
    let stream = stream::resolve(handle)?;
    capture::host_waits(&stream)?;
    calls::waits(|| about(WaitKind::Stream, &stream, None));
    stream.synchronize();
    stream.host_waited();
    races::host_waited_for(stream.lane());
    delay::wait(Moment::Wake);
    Ok(())
}

/// What a call about a stream waits for.
fn about(kind: WaitKind, stream: &Stream, event: Option<(u32, u64)>) -> Wait {
    Wait { kind, device: stream.device, context: stream.context, stream: Some(stream.id), event }
}

pub(crate) fn query(handle: usize) -> CudaResult {
    context::enter()?;
    let stream = stream::resolve(handle)?;
    capture::host_waits(&stream)?;
    if !stream.is_idle()
        || !clock::sees(|log| Act::SawStream(log.stream(stream.times().key())), || stream.times().ends_in_order_ns())
    {
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
    // External (1): not a part of the capture, but something that each launch waits for.
    if flags == 1 {
        return submit(Operation::Wait(event), &stream);
    }
    if !capture::wait(&stream, event.captured(), event.is_fresh())? {
        calls::waits(|| about(WaitKind::StreamForEvent, &stream, Some(event.latest())));
        event.hold_up(&stream);
    }
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

/// A pointer of the program that is passed to its own function on our thread.
struct Carried(*mut c_void);

// SAFETY: the program gave the pointer to be used on another thread; that is what the call is for.
unsafe impl Send for Carried {}

impl Carried {
    fn get(self) -> *mut c_void {
        self.0
    }
}

pub(crate) fn host_function(handle: usize, function: HostFunction, data: *mut c_void) -> CudaResult {
    context::enter()?;
    let (stream, function) = (stream::resolve(handle)?, function.ok_or(CudaError::INVALID_VALUE)?);
    submit(Operation::Host(HostCall { function, data: data as usize }), &stream)
}

impl HostCall {
    /// Calls the program's function on our thread, in stream order.
    pub(crate) fn issue(self, stream: &Arc<Stream>) {
        let Self { function, data } = self;
        // SAFETY: the program passed the function and its argument for exactly this call.
        on_the_host(stream, move |data| unsafe { function(data) }, data as *mut c_void);
    }
}

/// Not in a capture, as CUDA documents.
pub(crate) fn callback(handle: usize, function: Callback, data: *mut c_void, flags: c_uint) -> CudaResult {
    context::enter()?;
    let stream = stream::resolve(handle)?;
    let function = function.filter(|_| flags == 0).ok_or(CudaError::INVALID_VALUE)?;
    capture::refuse(&stream)?;
    // SAFETY: as above.
    on_the_host(&stream, move |data| unsafe { function(handle, 0, data) }, data);
    Ok(())
}

fn on_the_host(stream: &Arc<Stream>, function: impl FnOnce(*mut c_void) + Send + 'static, data: *mut c_void) {
    let data = Carried(data);
    let before = races::point(stream.lane());
    let submitted = timeline::submit(stream, Work::host_function);
    let task = move || {
        let _running = timeline::begin(submitted);
        races::host_waited(&before);
        guard::host_function(|| function(data.get()));
    };
    stream::enqueue(stream, Box::new(task));
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
    event::destroy(handle)
}

pub(crate) fn event_record(event: usize, stream: usize) -> CudaResult {
    context::enter()?;
    let (event, stream) = (event::resolve(event)?, stream::resolve(stream)?);
    if event.device() != stream.device {
        return Err(CudaError::INVALID_HANDLE);
    }
    match capture::record(&stream)? {
        Some(captured) => event.in_capture(captured),
        None => event.record(&stream)?,
    }
    Ok(())
}

/// External (1) is for captures: the event is not part of the graph, but recorded by each launch.
pub(crate) fn event_record_with_flags(event: usize, stream: usize, flags: c_uint) -> CudaResult {
    if flags == 0 {
        return event_record(event, stream);
    }
    context::enter()?;
    let (event, stream) = (event::resolve(event)?, stream::resolve(stream)?);
    if flags > 1 || capture::info(&stream).is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    if event.device() != stream.device {
        return Err(CudaError::INVALID_HANDLE);
    }
    submit(Operation::Record(event), &stream)
}

pub(crate) fn event_query(handle: usize) -> CudaResult {
    let event = event::resolve(handle)?;
    capture::host_uses(event.captured())?;
    capture::unsafe_call()?;
    if !event.is_reached() || !clock::sees(|_| Act::SawEvent(event.latest().1), || event.moment_ns()) {
        return Err(CudaError::NOT_READY);
    }
    races::host_waited(&event.knowledge());
    Ok(())
}

pub(crate) fn event_synchronize(handle: usize) -> CudaResult {
    let event = event::resolve(handle)?;
    capture::host_uses(event.captured())?;
    capture::unsafe_call()?;
    let latest = || Some(event.latest());
    calls::waits(|| Wait { kind: WaitKind::Event, device: event.device(), context: 0, stream: None, event: latest() });
    event.synchronize();
    clock::host_waits(|_| Act::Event(event.latest().1), || event.moment_ns());
    races::host_waited(&event.knowledge());
    delay::wait(Moment::Wake);
    Ok(())
}

pub(crate) fn event_elapsed(out: Out<f32>, start: usize, end: usize) -> CudaResult {
    let out = out.required()?;
    let (start, end) = (event::resolve(start)?, event::resolve(end)?);
    capture::host_uses(start.captured())?;
    capture::host_uses(end.captured())?;
    Ok(out.set(start.elapsed_ms(&end)?)?)
}
