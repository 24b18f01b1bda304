//! Events: a point in a stream, with the time when the stream reached it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Once, OnceLock};
use std::time::{Duration, Instant};

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use abi::library::Library;
use dataplane::lock::Mutex;

use protocol::operations::Act;
use timing::work::host;

use super::captured::Captured;
use super::clock;
use super::stream::{self, Point, Reached, Stream};
use super::timeline::{self, Work};
use super::unrecorded::Waits;
use crate::boundary::gap;
use crate::device::{Device, all};
use crate::process::at_exit::at_exit;
use crate::report::{left, operations};
use crate::sanitizer::races::{self, Clock};
use crate::settings::{self, EventClock};

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    /// Unique in the process.
    id: u32,
    device: u32,
    /// The program's handle.
    handle: AtomicUsize,
    purpose: Use,
    /// Whether another process has its handle.
    is_shared: AtomicBool,
    waits: Waits,
    state: Mutex<State>,
}

/// The purpose of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// Whether it measures times (not `cudaEventDisableTiming`).
    pub(crate) has_timing: bool,
    /// Whether other processes may wait for it (`cudaEventInterprocess`).
    pub(crate) is_interprocess: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Number of records requested, and the latest that the stream has reached.
    recorded: u64,
    reached: u64,
    /// The number of the latest record among those of all events.
    latest: u64,
    at: Option<Instant>,
    /// The stream of the latest record, and the work submitted to it before.
    worked: Option<(u64, Duration)>,
    /// Where the latest record is in its stream.
    point: Option<Point>,
    /// The latest record on the modeled clock, once the stream has reached it.
    moment: Arc<OnceLock<Reached>>,
    /// What is known to be done once the stream has reached it.
    knowledge: Clock,
    /// Its state in a capture, if it was last recorded in one.
    captured: Option<Captured>,
}

static EVENTS: Handles<Event> = Handles::new(2);

/// Makes an event and returns its handle.
pub(crate) fn create(device: &Device, purpose: Use) -> usize {
    static COUNTED: Once = Once::new();
    static IDS: AtomicU32 = AtomicU32::new(0);
    COUNTED.call_once(|| {
        left::count_with(|left| left.events += EVENTS.all().len() as u64);
        at_exit(|status| {
            // Who ends with an error may not have come to the record.
            if status == 0 {
                EVENTS.all().iter().for_each(|event| event.waits.judge());
            }
        });
    });
    let event = Arc::new(Event {
        id: IDS.fetch_add(1, Ordering::Relaxed) + 1,
        device: device.ordinal,
        handle: AtomicUsize::new(0),
        purpose,
        is_shared: AtomicBool::new(false),
        waits: Waits::default(),
        state: Mutex::default(),
    });
    let handle = EVENTS.insert(Arc::clone(&event));
    event.handle.store(handle, Ordering::Relaxed);
    handle
}

/// The event behind a handle.
///
/// # Errors
/// `INVALID_HANDLE` if it names no live event.
pub(crate) fn resolve(handle: usize) -> CudaResult<Arc<Event>> {
    EVENTS.get(handle).ok_or(CudaError::INVALID_HANDLE)
}

/// The program's handle of an event.
pub(crate) fn handle_of(event: &Event) -> usize {
    event.handle.load(Ordering::Relaxed)
}

/// Destroys an event; waits in progress still finish.
///
/// # Errors
/// `INVALID_HANDLE` if it names no live event.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    let event = EVENTS.remove(handle).ok_or(CudaError::INVALID_HANDLE)?;
    event.waits.judge();
    Ok(())
}

/// Destroys all events of the device, as `cudaDeviceReset` does.
pub(crate) fn destroy_all(device: &Device) {
    EVENTS.remove_all(|event| event.device == device.ordinal);
}

impl Event {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Places the event after everything submitted to `stream` so far.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if event and stream belong to different devices.
    pub(crate) fn record(self: &Arc<Self>, stream: &Arc<Stream>) -> CudaResult {
        if stream.device != self.device {
            return Err(CudaError::INVALID_HANDLE);
        }
        self.lock().captured = None;
        if self.is_shared.load(Ordering::Relaxed) {
            // The other process would not wait for this record.
            gap::tolerate(Library::CudaRuntime, "cudaEventRecord", "of an event that another process has")?;
        }
        static RECORDS: AtomicU64 = AtomicU64::new(0);
        let latest = RECORDS.fetch_add(1, Ordering::Relaxed) + 1;
        let knowledge = races::point(stream.lane());
        let (number, moment) = {
            let mut state = self.lock();
            if state.recorded == 0 {
                self.waits.forget();
            }
            state.recorded += 1;
            state.latest = latest;
            state.knowledge = knowledge;
            state.worked = Some((stream.id, stream.worked()));
            state.moment = Arc::default();
            (state.recorded, Arc::clone(&state.moment))
        };
        let recorded_ns = if clock::is_modeled() { clock::spend(host::EVENT_US) } else { 0 };
        operations::act(|log| Act::Record(log.stream(stream.times().key()), latest));
        let (event, reached) = (Arc::clone(self), Arc::clone(stream));
        let submitted = timeline::submit(stream, || Work::event(self.id, latest));
        stream.run(move || {
            drop(timeline::begin(submitted));
            let _ = moment.set(reached.times().moment(recorded_ns));
            let mut state = event.lock();
            if state.reached < number {
                state.reached = number;
                state.at = Some(Instant::now());
            }
        });
        let point = stream.tail();
        let mut state = self.lock();
        if state.recorded == number {
            state.point = Some(point);
        }
        Ok(())
    }

    /// Its number, and that of its latest record among those of all events.
    pub(crate) fn latest(&self) -> (u32, u64) {
        (self.id, self.lock().latest)
    }

    /// Its state in a capture, if it was last recorded in one.
    pub(crate) fn captured(&self) -> Option<Captured> {
        self.lock().captured.clone()
    }

    /// Records it in a capture.
    pub(crate) fn in_capture(&self, captured: Captured) {
        self.waits.forget();
        self.lock().captured = Some(captured);
    }

    /// Its device.
    pub(crate) fn device(&self) -> u32 {
        self.device
    }

    /// True if it was never recorded.
    pub(crate) fn is_fresh(&self) -> bool {
        self.lock().recorded == 0
    }

    /// Shares it with other processes once its latest record is reached, so that they need not wait.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an event not created for sharing.
    pub(crate) fn share(&self) -> CudaResult {
        if !self.purpose.is_interprocess {
            return Err(CudaError::INVALID_VALUE);
        }
        self.synchronize();
        self.is_shared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What is known to be done once its latest record is reached.
    pub(crate) fn knowledge(&self) -> Clock {
        self.lock().knowledge.clone()
    }

    /// True if its latest record was reached, or it was never recorded.
    pub(crate) fn is_reached(&self) -> bool {
        let state = self.lock();
        state.reached >= state.recorded
    }

    /// Where its latest record is in its stream, unless already reached.
    fn ahead(&self) -> Option<Point> {
        let state = self.lock();
        if state.reached >= state.recorded { None } else { state.point.clone() }
    }

    /// Called when the program waits for it. Another process may record an event that was made for sharing.
    fn is_waited_for(&self) {
        if self.is_fresh() && !self.purpose.is_interprocess {
            self.waits.note();
        }
    }

    /// When its latest record is reached on the modeled clock, ns, once that is known.
    pub(crate) fn moment_ns(&self) -> u64 {
        self.lock().moment.get().map_or(0, |moment| moment.ns)
    }

    /// Waits until its latest record is reached.
    pub(crate) fn synchronize(&self) {
        self.is_waited_for();
        if let Some(point) = self.ahead() {
            point.wait();
        }
        all()[self.device as usize].synchronized();
    }

    /// Makes later work of `stream` wait for the event's latest record so far.
    pub(crate) fn hold_up(&self, stream: &Arc<Stream>) {
        self.is_waited_for();
        races::wait(stream.lane(), &self.knowledge());
        if let Some(point) = self.ahead() {
            stream::hold_up(stream, point);
        }
        if clock::is_modeled() {
            clock::spend(host::EVENT_US);
            let (moment, record) = {
                let state = self.lock();
                (Arc::clone(&state.moment), state.latest)
            };
            operations::act(|log| Act::Wait(log.stream(stream.times().key()), record));
            stream::hold_until(stream, moment);
        }
    }

    /// Milliseconds from this event to `end`. Between two places of one stream with kernels in between, it is the work
    /// of those kernels, unless wall-clock time was requested: a tuner's choice must not depend on other load on the
    /// machine.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if one was never recorded, has no timing or belongs to another device; `NOT_READY` if one is
    /// not reached yet.
    pub(crate) fn elapsed_ms(&self, end: &Self) -> CudaResult<f32> {
        if !self.purpose.has_timing || !end.purpose.has_timing || self.device != end.device {
            return Err(CudaError::INVALID_HANDLE);
        }
        let time = |event: &Self| {
            let state = event.lock();
            if state.recorded == 0 {
                return Err(CudaError::INVALID_HANDLE);
            }
            state.at.filter(|_| state.reached >= state.recorded).ok_or(CudaError::NOT_READY)
        };
        let worked = self.worked_until(end);
        let moments = [self.moment_ns(), end.moment_ns()].map(|ns| ns as f64);
        let (start, end) = (time(self)?, time(end)?);
        if clock::is_modeled() {
            return Ok(((moments[1] - moments[0]) / 1e6) as f32);
        }
        if let Some(worked) = worked {
            return Ok((worked.as_secs_f64() * 1e3) as f32);
        }
        let seconds = match end.checked_duration_since(start) {
            Some(after) => after.as_secs_f64(),
            None => -(start - end).as_secs_f64(),
        };
        Ok((seconds * 1e3) as f32)
    }

    /// The work of kernels between this event and a later one of its stream, if there was any.
    fn worked_until(&self, end: &Self) -> Option<Duration> {
        if settings::get().is_ok_and(|settings| settings.event_clock == EventClock::Wall) {
            return None;
        }
        let (stream, before) = self.lock().worked?;
        let (other, after) = end.lock().worked?;
        after.checked_sub(before).filter(|worked| stream == other && !worked.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::device::work::stream::{self, Kind};

    const TIMED: Use = Use { has_timing: true, is_interprocess: false };

    #[test]
    fn an_event_orders_two_streams_and_measures_the_time_between() {
        let device = crate::device::get(3).unwrap();
        let first = stream::resolve(stream::create(device, Kind::NonBlocking, 0)).unwrap();
        let second = stream::resolve(stream::create(device, Kind::NonBlocking, 0)).unwrap();
        let start = resolve(create(device, TIMED)).unwrap();
        let end = resolve(create(device, TIMED)).unwrap();
        assert!(start.is_reached(), "never recorded");
        assert_eq!(start.elapsed_ms(&end), Err(CudaError::INVALID_HANDLE));
        start.record(&first).unwrap();
        let (open, wait) = mpsc::channel();
        stream::enqueue(&first, Box::new(move || wait.recv_timeout(Duration::from_secs(10)).unwrap()));
        end.record(&first).unwrap();
        assert!(start.is_reached() && !end.is_reached());
        assert_eq!(start.elapsed_ms(&end), Err(CudaError::NOT_READY));
        end.hold_up(&second);
        let (sender, receiver) = mpsc::channel();
        second.run(move || sender.send(()).unwrap());
        assert!(receiver.try_recv().is_err(), "the second stream waits for the event");
        open.send(()).unwrap();
        second.synchronize();
        assert_eq!(receiver.try_recv(), Ok(()));
        assert!(end.is_reached() && start.elapsed_ms(&end).unwrap() > 0.0);
        // Kernels count by themselves, however long they took.
        let measured = start.elapsed_ms(&end).unwrap();
        start.record(&first).unwrap();
        first.count_work(Duration::from_millis(40));
        end.record(&first).unwrap();
        assert_eq!(start.elapsed_ms(&end), Ok(40.0));
        assert!(measured != 40.0 && end.elapsed_ms(&start).unwrap() <= 0.0);
        end.record(&second).unwrap();
        assert_ne!(start.elapsed_ms(&end), Ok(40.0), "between two streams the wall clock counts");
        let elsewhere = stream::legacy(crate::device::get(4).unwrap());
        assert_eq!(start.record(&elsewhere), Err(CudaError::INVALID_HANDLE));
    }
}
