//! libcupti: records of calls and of work on the devices, for profilers. Their times are those of this machine, not of a GPU.

mod callback;
mod collect;
mod deliver;
mod error;
mod names;
mod record;

use std::ffi::{c_char, c_uint, c_void};

use abi::argument::Out;
use abi::library::Library;

use super::objects::{Answer, Refusals};
use super::release;
use crate::boundary::table::exports;
use crate::boundary::{calls, gap};
use crate::compute::profile;
use crate::report::finding;
use record::kind;

const REFUSALS: Refusals = Refusals { handle: error::INVALID_PARAMETER.0, value: error::INVALID_PARAMETER.0 };
/// `CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER`, the last of `CUpti_ActivityAttribute` that is about CUPTI's own memory.
const LAST_ATTRIBUTE: u32 = 9;
/// In the trace of PyTorch's profiler.
const NOTE: (&str, &str) =
    ("ftest", "simulated GPU: times of kernels and copies are those of this machine's CPU, not of a GPU");
/// The number of `CUpti_ActivityKind`s.
const KINDS: u32 = 60;

exports! {
    library Cupti;
    bare {
        fn cuptiGetVersion(version: Out<u32>) = |version| version.set(release::current().cupti).map_err(REFUSALS.null());
        fn cuptiGetResultString(result: u32, out: Out<*const c_char>) = |result, out| out.set(error::text(result).as_ptr()).map_err(REFUSALS.null());
        fn cuptiGetTimestamp(time: Out<u64>) = |time| time.set(deliver::now()).map_err(REFUSALS.null());
        fn cuptiGetCallbackName(domain: u32, number: u32, out: Out<*const c_char>) = callback_name;
        fn cuptiSubscribe(subscriber: Out<usize>, callback: callback::Callback, data: *mut c_void) = callback::subscribe;
        fn cuptiUnsubscribe(subscriber: usize) = callback::unsubscribe;
        fn cuptiEnableCallback(enable: u32, subscriber: usize, domain: u32, number: u32) = callback::enable;
        fn cuptiEnableDomain(enable: u32, subscriber: usize, domain: u32) = callback::enable_domain;
        fn cuptiFinalize() = finalize;
        fn cuptiActivityEnable(kind: u32) = enable;
        fn cuptiActivityDisable(kind: u32) = disable;
        fn cuptiActivityEnableRuntimeApi(number: u32, enable: u8) = |number, enable| enable_function(kind::RUNTIME, number, enable);
        fn cuptiActivityEnableDriverApi(number: u32, enable: u8) = |number, enable| enable_function(kind::DRIVER, number, enable);
        fn cuptiActivityEnableCudaEventDeviceTimestamps(enable: u8) = time_events;
        fn cuptiActivityRegisterCallbacks(request: deliver::Request, complete: deliver::Complete) = deliver::register;
        fn cuptiActivityRegisterTimestampCallback(read: deliver::Timestamp) = deliver::register_clock;
        fn cuptiActivityFlushAll(flags: u32) = |_flags| deliver::flush();
        fn cuptiActivityGetNextRecord(buffer: *mut u8, valid: usize, record: *mut *mut u8) = next_record;
        fn cuptiActivityGetNumDroppedRecords(context: usize, stream: u32, dropped: Out<usize>) = |_context, _stream, dropped| dropped.set(deliver::take_dropped()).map_err(REFUSALS.null());
        fn cuptiActivityPushExternalCorrelationId(kind: c_uint, id: u64) = push;
        fn cuptiActivityPopExternalCorrelationId(kind: c_uint, last: Out<u64>) = pop;
        fn cuptiActivitySetAttribute(attribute: u32, bytes: Out<usize>, value: *mut c_void) = set_attribute;
    }
}

fn callback_name(domain: u32, number: u32, out: Out<*const c_char>) -> Answer {
    let name = names::name(domain, number).ok_or(error::INVALID_PARAMETER)?;
    out.set(name.as_ptr()).map_err(REFUSALS.null())
}

/// Enables a kind of record. Kinds that are not recorded here are gaps.
fn enable(kind: u32) -> Answer {
    if kind == 0 || kind >= KINDS {
        return Err(error::INVALID_KIND);
    }
    if !collect::is_known(kind) {
        gap::record(Library::Cupti, finding::function(), &format!("records of kind {kind}"));
        return Err(error::NOT_SUPPORTED);
    }
    collect::enable(kind, true);
    if kind == kind::CONCURRENT_KERNEL {
        profile::annotate(NOTE.0, NOTE.1);
    }
    Ok(())
}

fn disable(kind: u32) -> Answer {
    if kind == 0 || kind >= KINDS {
        return Err(error::INVALID_KIND);
    }
    if collect::is_known(kind) {
        collect::enable(kind, false);
    }
    Ok(())
}

fn enable_function(kind: u32, number: u32, enable: u8) -> Answer {
    collect::enable_function(kind, number, enable != 0);
    Ok(())
}

fn time_events(enable: u8) -> Answer {
    collect::time_events(enable != 0);
    Ok(())
}

fn next_record(buffer: *mut u8, valid: usize, record: *mut *mut u8) -> Answer {
    // SAFETY: C vouches for the buffer that it was given, and for its position in it.
    unsafe { deliver::next(buffer, valid, record) }
}

fn push(kind: c_uint, id: u64) -> Answer {
    calls::push(kind as usize, id).filter(|()| kind > 0).ok_or(error::INVALID_PARAMETER)
}

fn pop(kind: c_uint, last: Out<u64>) -> Answer {
    let id = calls::pop(kind as usize).filter(|_| kind > 0).ok_or(error::INVALID_PARAMETER)?;
    last.set_if_wanted(id.unwrap_or(0));
    id.map(drop).ok_or(error::QUEUE_EMPTY)
}

/// Sizes of CUPTI's own memory have no effect; other attributes are gaps.
fn set_attribute(attribute: u32, bytes: Out<usize>, value: *mut c_void) -> Answer {
    bytes.required().map_err(REFUSALS.null())?;
    if value.is_null() {
        return REFUSALS.value();
    }
    if attribute > LAST_ATTRIBUTE {
        gap::record(Library::Cupti, finding::function(), &format!("attribute {attribute}"));
        return Err(error::NOT_SUPPORTED);
    }
    Ok(())
}

/// Detaches CUPTI.
fn finalize() -> Answer {
    collect::disable_all();
    callback::end();
    Ok(())
}
