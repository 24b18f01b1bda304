//! Event sets, which a monitor registers and waits for. Xids and memory errors occur when the case triggers them (`gpu`); a set
//! only receives events that happen after it registered for them.

use std::collections::BTreeSet;
use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use abi::argument::Out;
use abi::handle::Handles;
use dataplane::futex;
use dataplane::lock::Mutex;

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::header::EventData;
use super::model;
use super::system::gpus;
use crate::device::state::health::{self, Notice};
use crate::device::state::meter;
use protocol::gpu::Gpu;

/// `nvmlEventType*`.
const CORRECTED: u64 = 0x1;
const UNCORRECTED: u64 = 0x2;
const STATE: u64 = 0x4;
const XID: u64 = 0x8;
const CLOCK: u64 = 0x10;

/// `nvmlEventSet_t`.
#[derive(Default)]
pub(crate) struct EventSet {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    registered: Vec<Registered>,
    /// Events already delivered: the GPU, the event of the case, the type.
    given: BTreeSet<(usize, u32, u64)>,
}

/// Event types of one GPU, and when they were registered.
struct Registered {
    gpu: usize,
    types: u64,
    since: u64,
}

static SETS: Handles<EventSet> = Handles::new(16);

/// The types every GPU has, plus ECC errors if they are counted.
fn types(gpu: &Gpu) -> u64 {
    XID | STATE | CLOCK | if model::ecc(&gpu.profile) == Some(true) { CORRECTED | UNCORRECTED } else { 0 }
}

/// The type of a notice, and its data.
fn describe(notice: Notice) -> (u64, u64) {
    match notice {
        Notice::Corrected => (CORRECTED, 0),
        Notice::Uncorrected => (UNCORRECTED, 0),
        Notice::Xid(number) => (XID, u64::from(number)),
    }
}

pub(crate) fn supported(device: Handle, out: Out<u64>) -> NvmlResult {
    Ok(out.set(types(device.gpu()?))?)
}

pub(crate) fn create(out: Out<usize>) -> NvmlResult {
    gpus()?;
    out.required()?;
    Ok(out.set(SETS.insert(Arc::new(EventSet::default())))?)
}

pub(crate) fn free(set: usize) -> NvmlResult {
    gpus()?;
    SETS.remove(set).map(drop).ok_or(NvmlError::INVALID_ARGUMENT)
}

pub(crate) fn register(device: Handle, wanted: u64, set: usize) -> NvmlResult {
    let gpu = device.gpu()?;
    let set = SETS.get(set).ok_or(NvmlError::INVALID_ARGUMENT)?;
    if wanted & !types(gpu) != 0 {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    let registered = Registered { gpu: device.index()?, types: wanted, since: meter::now() };
    set.state.lock().registered.push(registered);
    Ok(())
}

/// What is next for a set.
enum Next {
    Given(EventData),
    /// One of its GPUs has fallen off the bus.
    Lost,
    /// Nothing before this time (us), if known.
    Later(Option<u64>),
}

impl EventSet {
    fn next(&self, now: u64) -> NvmlResult<Next> {
        let all = gpus()?;
        let mut state = self.state.lock();
        let State { registered, given } = &mut *state;
        let mut first: Option<(u64, usize, u32, u64, u64)> = None;
        let mut later: Option<u64> = None;
        for Registered { gpu, types, since } in registered.iter() {
            let (notices, next) = health::notices(&all[*gpu], now);
            later = later.into_iter().chain(next).min();
            let fresh = notices.into_iter().filter_map(|(at, slot, notice)| {
                let (kind, data) = describe(notice);
                let is_wanted = types & kind != 0 && at >= *since && !given.contains(&(*gpu, slot, kind));
                is_wanted.then_some((at, *gpu, slot, kind, data))
            });
            first = first.into_iter().chain(fresh).min();
        }
        if let Some((_, gpu, slot, kind, data)) = first {
            given.insert((gpu, slot, kind));
            let none = c_uint::MAX;
            let device = Handle::from_index(gpu).value();
            return Ok(Next::Given(EventData { device, kind, data, gpu_instance: none, compute_instance: none }));
        }
        let is_lost = registered.iter().any(|registered| health::condition(&all[registered.gpu]).is_lost);
        Ok(if is_lost { Next::Lost } else { Next::Later(later) })
    }
}

/// Waits for an event. "`GPU_IS_LOST` if a GPU has fallen off the bus", once its Xid was delivered.
pub(crate) fn wait(set: usize, data: Out<EventData>, milliseconds: c_uint) -> NvmlResult {
    gpus()?;
    let set = SETS.get(set).ok_or(NvmlError::INVALID_ARGUMENT)?;
    data.required()?;
    let deadline = Instant::now() + Duration::from_millis(u64::from(milliseconds));
    let changes = health::changes();
    loop {
        // Before the look, so that what happens meanwhile ends the wait.
        let seen = changes.load(Ordering::Acquire);
        let now = meter::now();
        let later = match set.next(now)? {
            Next::Given(event) => return Ok(data.set(event)?),
            Next::Lost => return Err(NvmlError::GPU_IS_LOST),
            Next::Later(later) => later,
        };
        if Instant::now() >= deadline {
            return Err(NvmlError::TIMEOUT);
        }
        let due = later.map(|at| Instant::now() + Duration::from_micros(at.saturating_sub(now)));
        futex::wait(changes, seen, due.into_iter().chain([deadline]).min().unwrap_or(deadline));
    }
}
