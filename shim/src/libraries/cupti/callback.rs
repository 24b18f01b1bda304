//! The callback API as far as profilers of frameworks use it: one subscriber, which learns of contexts. CUPTI passes the arguments
//! of calls to callbacks about calls, which are not kept here, so these are gaps.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use abi::argument::Out;
use abi::library::Library;
use dataplane::lock::Mutex;

use super::error;
use crate::boundary::gap;
use crate::device::state::context;
use crate::libraries::objects::Answer;
use crate::report::finding;

/// `CUpti_CallbackFunc`
pub(super) type Callback = Option<unsafe extern "C" fn(*mut c_void, c_uint, c_uint, *const c_void)>;

/// `CUpti_CallbackDomain`
const RESOURCE: u32 = 3;
const STATE: u32 = 6;
/// `CUPTI_CBID_RESOURCE_CONTEXT_CREATED`
const CONTEXT_CREATED: u32 = 1;
/// `CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING`
const CONTEXT_DESTROY_STARTING: u32 = 2;
/// The handle of the only subscriber.
const SUBSCRIBER: usize = 0x43_5550;

/// `CUpti_ResourceData`
#[repr(C)]
struct ResourceData {
    context: usize,
    handle: usize,
    descriptor: usize,
}

#[derive(Clone, Copy)]
struct Subscriber {
    callback: unsafe extern "C" fn(*mut c_void, c_uint, c_uint, *const c_void),
    data: usize,
}

static SUBSCRIBED: Mutex<Option<Subscriber>> = Mutex::new(None);
/// A bit for each of the two that is enabled.
static WANTED: AtomicU32 = AtomicU32::new(0);

pub(super) fn subscribe(out: Out<usize>, callback: Callback, data: *mut c_void) -> Answer {
    let mut subscribed = SUBSCRIBED.lock();
    if subscribed.is_some() {
        return Err(error::MULTIPLE_SUBSCRIBERS);
    }
    let callback = callback.ok_or(error::INVALID_PARAMETER)?;
    out.set(SUBSCRIBER).map_err(|_| error::INVALID_PARAMETER)?;
    *subscribed = Some(Subscriber { callback, data: data as usize });
    Ok(())
}

pub(super) fn unsubscribe(subscriber: usize) -> Answer {
    check(subscriber)?;
    end();
    Ok(())
}

/// Nobody is subscribed any more.
pub(super) fn end() {
    WANTED.store(0, Ordering::Release);
    *SUBSCRIBED.lock() = None;
}

fn check(subscriber: usize) -> Answer {
    let is_known = subscriber == SUBSCRIBER && SUBSCRIBED.lock().is_some();
    if is_known { Ok(()) } else { Err(error::INVALID_PARAMETER) }
}

/// Enables or disables one callback.
pub(super) fn enable(enable: u32, subscriber: usize, domain: u32, number: u32) -> Answer {
    check(subscriber)?;
    match (domain, number) {
        (RESOURCE, CONTEXT_CREATED | CONTEXT_DESTROY_STARTING) => {
            context::watch(tell);
            if enable == 0 {
                WANTED.fetch_and(!(1 << number), Ordering::AcqRel);
            } else {
                WANTED.fetch_or(1 << number, Ordering::AcqRel);
            }
            Ok(())
        }
        // Of a GPU's fatal errors, of which there are none in CUPTI here.
        (STATE, _) => Ok(()),
        _ => refuse(enable, domain),
    }
}

/// Enables or disables all callbacks of a domain.
pub(super) fn enable_domain(enable: u32, subscriber: usize, domain: u32) -> Answer {
    check(subscriber)?;
    match domain {
        STATE => Ok(()),
        RESOURCE if enable == 0 => {
            WANTED.store(0, Ordering::Release);
            Ok(())
        }
        _ => refuse(enable, domain),
    }
}

/// What is not delivered is a gap, unless it is only disabled.
fn refuse(enable: u32, domain: u32) -> Answer {
    if enable == 0 {
        return Ok(());
    }
    let what = match domain {
        1 => "callbacks for calls of the driver",
        2 => "callbacks for calls of the runtime",
        RESOURCE => "callbacks for resources other than contexts",
        4 => "callbacks for synchronization",
        5 => "callbacks for NVTX",
        _ => return Err(error::INVALID_PARAMETER),
    };
    gap::record(Library::Cupti, finding::function(), what);
    Err(error::NOT_SUPPORTED)
}

/// A context was made, or is about to end.
fn tell(context: usize, is_new: bool) {
    let number = if is_new { CONTEXT_CREATED } else { CONTEXT_DESTROY_STARTING };
    if WANTED.load(Ordering::Acquire) & 1 << number == 0 {
        return;
    }
    let Some(Subscriber { callback, data }) = *SUBSCRIBED.lock() else { return };
    let resource = ResourceData { context, handle: 0, descriptor: 0 };
    // SAFETY: the program subscribed this function with this argument; the data lives for the call.
    unsafe { callback(data as *mut c_void, RESOURCE, number, (&raw const resource).cast()) };
}
