//! What the devices of this process did on the modeled clock, for the device report: the state behind `timing::steps`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use dataplane::lock::Mutex;
use protocol::device_report::DeviceTime;
use protocol::ids::Rank;
use protocol::operations::Act;
use protocol::report::StepMark;
use timing::steps::{Interval, Mark, Recorder};
pub(crate) use timing::steps::{Part, Piece as Detail, Ran, is_sampled};

use super::operations;
use crate::process::rank;

static RECORDER: Mutex<Recorder> = Mutex::new(Recorder::new());

/// How many marks there are.
static MARKED: AtomicUsize = AtomicUsize::new(0);

/// How many marks there are: what is submitted now belongs to what comes after them.
#[inline]
pub(crate) fn marked() -> usize {
    MARKED.load(Ordering::Acquire)
}

/// The host has come to the beginning or the end of a step.
pub(crate) fn mark(by: StepMark, is_begin: bool) {
    let Some(host_ns) = host_ns() else { return };
    operations::act(|_| Act::Mark(by, is_begin));
    let marked = RECORDER.lock().mark(Mark { by, is_begin, host_ns });
    MARKED.store(marked, Ordering::Release);
}

/// The host has waited for the device.
pub(crate) fn host_waited(interval: Interval) {
    RECORDER.lock().host_waited(interval);
}

/// As [`Recorder::lost`].
pub(crate) fn lost(device: u32, stream: u64, interval: Interval, is_collective: bool, marked: usize) {
    RECORDER.lock().lost(device, stream, interval, is_collective, marked);
}

/// As [`Recorder::add`].
pub(crate) fn add(ran: Ran, unknown: Option<&str>, detail: impl FnOnce() -> Detail) {
    RECORDER.lock().add(ran, unknown, detail);
}

static HOST: OnceLock<fn() -> u64> = OnceLock::new();

/// From now on, `host_ns` tells the host's time.
pub(crate) fn tell(host_ns: fn() -> u64) {
    let _ = HOST.set(host_ns);
}

/// The host's time, ns; `None` without a modeled clock.
pub(super) fn host_ns() -> Option<u64> {
    HOST.get().map(|host_ns| host_ns())
}

/// The totals of a device and its steps; `None` if it did nothing.
pub(super) fn totals(device: u32, is_calibrated: bool) -> Option<DeviceTime> {
    RECORDER.lock().totals(rank().map(Rank), device, is_calibrated)
}
