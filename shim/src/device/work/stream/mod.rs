//! Streams: first in, first out. Work on an idle stream is done immediately by the caller. Work that may have to wait
//! (collectives, host functions, events of a busy stream) goes to the stream's own thread, started when first needed. A
//! thread that waits for a stream does its work in the meantime: with more ranks than cores, handing work to another
//! thread and back costs more than a small collective.

pub(crate) mod attribute;
mod defaults;
mod times;
mod worker;

pub(crate) use defaults::{default_of, legacy, per_thread, per_thread_default};
pub(crate) use times::{Times, follow, hold_until, log_after};
pub(crate) use timing::streams::Reached;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, Once, OnceLock};
use std::time::Duration;

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use dataplane::lock::{Condvar, Mutex};
use dataplane::threads;
use timing::streams::Sharing;

use super::clock;
use crate::device::{Device, all, current, state::context};
use crate::process::delay::{self, Moment};
use crate::process::python::guarded;
use crate::report::left;
use crate::sanitizer::lane;
use crate::sanitizer::races::{self, Lane, Order};
use worker::{DOZE, LONGEST_DOZE, next_doze, with_signals_blocked};

/// If a device's list has this many streams or more, it is cleaned up whenever one is added.
const LISTED: usize = 64;

/// Lowest and highest priority of a stream.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);

/// Of how many items a stream remembers when they ended on the modeled clock.
const REMEMBERED: usize = 256;

/// A piece of work.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// How a stream is ordered against the device's legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The default stream: waits for all blocking streams, and they for it.
    Legacy,
    /// Ordered with the legacy stream.
    Blocking,
    /// Not ordered with any other (`cudaStreamNonBlocking`).
    NonBlocking,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Unique in the process.
    pub(crate) id: u64,
    /// Its device.
    pub(crate) device: u32,
    /// The context that was current when it was created; 0 for none, and for the default streams, which every context has.
    pub(crate) context: usize,
    pub(crate) kind: Kind,
    priority: i32,
    attributes: attribute::Attributes,
    /// Work of the kernels submitted to it, in nanoseconds.
    worked: AtomicU64,
    times: Times,
    /// Items submitted to the queue, and items done: equal when idle.
    issued: AtomicU64,
    done: AtomicU64,
    /// Whether it is listed among the device's busy streams.
    is_listed: AtomicBool,
    queue: Mutex<Queue>,
    /// Wakes the worker: there is work, or the end.
    work: Condvar,
    /// Wakes the waiters: a task is done.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Whether someone is doing the first task.
    is_busy: bool,
    has_worker: bool,
    /// Whether the worker sleeps until it is woken.
    is_parked: bool,
    /// Number of tasks that waiting threads did since the worker last looked.
    helped: u32,
    /// The smallest number of done items that a sleeping thread waits for: no wake-up comes earlier.
    awaited: Option<u64>,
    /// On the modeled clock, when the last items ended: their number and the place after them.
    ends: VecDeque<(u64, Reached)>,
    destroyed: bool,
}

/// An entry of a queue.
enum Item {
    Task(Task),
    /// Continues once another stream has reached this point. Nobody is woken for it.
    After(Point),
    /// On the modeled clock, what follows begins no earlier than that. Nobody is woken for it.
    NotBefore(Arc<OnceLock<Reached>>),
}

impl Queue {
    fn has_task(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Task(_)))
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("items", &self.items.len()).finish_non_exhaustive()
    }
}

/// A device's streams.
#[derive(Debug, Default)]
struct Streams {
    /// When all work of the device ends on the modeled clock, ns, and that of its blocking streams.
    ends_ns: AtomicU64,
    blocking_ends_ns: AtomicU64,
    sharing: Mutex<Sharing<Times>>,
    /// Number of unfinished tasks in the queues of all its streams.
    unfinished: AtomicUsize,
    legacy: OnceLock<Arc<Stream>>,
    /// All streams with pending work, and some without: programs have many streams and use few.
    busy: Mutex<Vec<Arc<Stream>>>,
}

static STREAMS: Handles<Stream> = Handles::new(1);

/// A place in a stream: everything issued to it so far.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    stream: Arc<Stream>,
    sequence: u64,
    /// Where the stream was on the modeled clock when the point was made.
    made: Reached,
}

impl Point {
    /// True once the stream has reached it.
    pub(crate) fn is_reached(&self) -> bool {
        let reached = || self.stream.done.load(Ordering::Acquire) >= self.sequence;
        reached() || {
            self.stream.pass_reached();
            reached()
        }
    }

    /// It on the modeled clock, if the stream has reached it.
    fn moment(&self) -> Reached {
        let queue = self.stream.lock();
        let known = queue.ends.iter().find(|(number, _)| *number == self.sequence);
        known.map_or(&self.made, |(_, moment)| moment).clone()
    }

    /// Waits until the stream has reached it, and does the stream's work up to it unless the stream's thread is doing so.
    /// The wait is finite: each task in a stream has its own deadline, except a program's host function.
    pub(crate) fn wait(&self) {
        if self.is_reached() {
            return;
        }
        let stream = &self.stream;
        let mut queue = stream.lock();
        while stream.done.load(Ordering::Acquire) < self.sequence {
            if !queue.is_busy
                && let Some(item) = queue.items.pop_front()
            {
                queue.helped += u32::from(matches!(item, Item::Task(_)));
                queue = stream.perform(queue, item);
                continue;
            }
            let least = queue.awaited.map_or(self.sequence, |other| other.min(self.sequence));
            queue.awaited = Some(least);
            queue = stream.changed.wait(queue);
        }
        stream.hand_over(&mut queue);
    }
}

/// The streams of a device.
fn streams(device: u32) -> &'static Streams {
    static ALL: OnceLock<Vec<Streams>> = OnceLock::new();
    &ALL.get_or_init(|| all().iter().map(|_| Streams::default()).collect())[device as usize]
}

/// True if every stream of the device is idle.
pub(crate) fn is_quiet(device: &Device) -> bool {
    streams(device.ordinal).unfinished.load(Ordering::Acquire) == 0
}

impl Stream {
    /// It on the modeled clock.
    pub(crate) fn times(&self) -> &Times {
        &self.times
    }

    fn new(device: &Device, context: usize, kind: Kind, priority: i32) -> Arc<Self> {
        // From now on there may be work.
        clock::is_modeled();
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            id,
            device: device.ordinal,
            context,
            kind,
            priority,
            attributes: attribute::Attributes::default(),
            worked: AtomicU64::new(0),
            times: Times { id, ends_ns: Arc::default(), load: Arc::default(), kind, device: device.ordinal },
            issued: AtomicU64::new(0),
            done: AtomicU64::new(0),
            is_listed: AtomicBool::new(false),
            queue: Mutex::default(),
            work: Condvar::new(),
            changed: Condvar::new(),
        })
    }

    /// Its device.
    pub(crate) fn device(&self) -> &'static Device {
        &all()[self.device as usize]
    }

    /// Its identity for ordering.
    pub(crate) fn lane(&self) -> Lane {
        let order = match self.kind {
            Kind::Legacy => Order::Legacy,
            Kind::Blocking => Order::Blocking,
            Kind::NonBlocking => Order::NonBlocking,
        };
        lane::current(Lane { id: self.id, device: self.device, order })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Adds the work of a kernel submitted to it.
    pub(crate) fn count_work(&self, work: Duration) {
        self.worked.fetch_add(u64::try_from(work.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The work of all kernels submitted to it so far.
    pub(crate) fn worked(&self) -> Duration {
        Duration::from_nanos(self.worked.load(Ordering::Relaxed))
    }

    /// The program has waited for everything in it.
    pub(crate) fn host_waited(&self) {
        self.times.host_waited();
    }

    /// Everything issued to it so far.
    pub(crate) fn tail(self: &Arc<Self>) -> Point {
        let made = self.times.moment(0);
        Point { stream: Arc::clone(self), sequence: self.issued.load(Ordering::Acquire), made }
    }

    /// The unfinished points that the next piece of work on this stream has to wait for.
    pub(crate) fn pending(self: &Arc<Self>) -> Vec<Point> {
        let streams = streams(self.device);
        if streams.unfinished.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut points = vec![self.tail()];
        match self.kind {
            Kind::NonBlocking => {}
            Kind::Blocking => points.extend(streams.legacy.get().map(|legacy| legacy.tail())),
            Kind::Legacy => {
                let others = streams.busy();
                points.extend(others.iter().filter(|other| other.kind == Kind::Blocking).map(|other| other.tail()));
            }
        }
        points.retain(|point| !point.is_reached());
        points
    }

    /// True if everything issued to it, and everything it is ordered after, is done.
    pub(crate) fn is_idle(self: &Arc<Self>) -> bool {
        self.pending().is_empty()
    }

    /// Waits until [`Stream::is_idle`] holds for the work issued so far.
    pub(crate) fn synchronize(self: &Arc<Self>) {
        self.settle();
        self.device().synchronized();
    }

    /// The same where the program does not synchronize: it sees neither output nor errors of kernels.
    pub(crate) fn settle(self: &Arc<Self>) {
        self.pending().iter().for_each(Point::wait);
    }

    /// Does `task` in stream order: immediately in the caller if nothing precedes it, else on the stream's thread.
    pub(crate) fn run(self: &Arc<Self>, task: impl FnOnce() + Send + 'static) {
        if let Some(delay) = delay::draw(Moment::Stream) {
            let task = move || {
                std::thread::sleep(delay);
                task();
            };
            return enqueue(self, Box::new(task));
        }
        if self.is_idle() {
            task();
        } else {
            enqueue(self, Box::new(task));
        }
    }

    /// Does an item that was taken from the front of the queue.
    fn perform<'a>(&'a self, mut queue: MutexGuard<'a, Queue>, item: Item) -> MutexGuard<'a, Queue> {
        queue.is_busy = true;
        drop(queue);
        match item {
            // A task's panic was printed by the hook; the stream goes on, as the task's own result has what failed.
            Item::Task(task) => drop(catch_unwind(AssertUnwindSafe(task))),
            Item::After(point) => {
                point.wait();
                self.times.follow(&point.moment());
            }
            Item::NotBefore(moment) => moment.get().into_iter().for_each(|moment| self.times.follow(moment)),
        }
        let mut queue = self.lock();
        queue.is_busy = false;
        self.count_done(&mut queue);
        queue
    }

    fn count_done(&self, queue: &mut MutexGuard<'_, Queue>) {
        if clock::is_modeled() {
            if queue.ends.len() == REMEMBERED {
                queue.ends.pop_front();
            }
            queue.ends.push_back((self.done.load(Ordering::Acquire) + 1, self.times.moment(0)));
        }
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        streams(self.device).unfinished.fetch_sub(1, Ordering::Release);
        if queue.awaited.is_some_and(|least| done >= least) {
            self.call_waiters(queue);
        }
        self.call_worker(queue);
    }

    /// Wakes the sleepers in [`Point::wait`]; those that have to keep sleeping register again.
    fn call_waiters(&self, queue: &mut MutexGuard<'_, Queue>) {
        if queue.awaited.take().is_some() {
            self.changed.notify_all();
        }
    }

    /// Called when the caller leaves the queue: what is left is for its waiters.
    fn hand_over(&self, queue: &mut MutexGuard<'_, Queue>) {
        if !queue.is_busy && !queue.items.is_empty() {
            self.call_waiters(queue);
        }
    }

    /// Wakes the worker if there is something for it.
    fn call_worker(&self, queue: &mut MutexGuard<'_, Queue>) {
        if queue.is_parked && !queue.is_busy && (queue.has_task() || queue.destroyed) {
            queue.is_parked = false;
            self.work.notify_one();
        }
    }

    /// Drops points that have been reached from the front of the queue.
    fn pass_reached(&self) {
        loop {
            let (point, at) = {
                let mut queue = self.lock();
                if queue.is_busy {
                    return;
                }
                if let Some(Item::NotBefore(moment)) = queue.items.front() {
                    moment.get().into_iter().for_each(|moment| self.times.follow(moment));
                    queue.items.pop_front();
                    self.count_done(&mut queue);
                    continue;
                }
                match queue.items.front() {
                    Some(Item::After(point)) => (point.clone(), self.done.load(Ordering::Acquire)),
                    _ => return,
                }
            };
            // Not under the lock: it looks at other queues, which may look at this one.
            if !point.is_reached() {
                return;
            }
            let moment = point.moment();
            let mut queue = self.lock();
            let is_same = !queue.is_busy && self.done.load(Ordering::Acquire) == at;
            if is_same && queue.items.pop_front().is_some() {
                self.times.follow(&moment);
                self.count_done(&mut queue);
            }
        }
    }

    fn work(self: &Arc<Self>) {
        let mut queue = self.lock();
        let mut doze = DOZE;
        loop {
            let wanted = queue.has_task() || queue.destroyed;
            if !queue.is_busy
                && wanted
                && let Some(item) = queue.items.pop_front()
            {
                // Nobody waited for it.
                doze = DOZE;
                queue = self.perform(queue, item);
            } else if queue.destroyed && queue.items.is_empty() {
                queue.has_worker = false;
                return;
            } else if queue.helped > 0 || (queue.is_busy && doze < LONGEST_DOZE) {
                self.hand_over(&mut queue);
                queue = self.work.wait_timeout(queue, doze);
                doze = next_doze(doze, std::mem::take(&mut queue.helped));
            } else {
                self.hand_over(&mut queue);
                queue.is_parked = true;
                queue = self.work.wait(queue);
                queue.is_parked = false;
            }
        }
    }

    fn push(self: &Arc<Self>, queue: &mut MutexGuard<'_, Queue>, item: Item) {
        let streams = streams(self.device);
        streams.unfinished.fetch_add(1, Ordering::Release);
        // Before the flag, and read after it in `Streams::busy`.
        self.issued.fetch_add(1, Ordering::SeqCst);
        queue.items.push_back(item);
        if !self.is_listed.swap(true, Ordering::SeqCst) {
            let mut busy = streams.busy.lock();
            busy.push(Arc::clone(self));
            // Nobody may ever ask for them.
            if busy.len() >= LISTED {
                Streams::drop_idle(&mut busy);
            }
        }
    }

    /// Called when no program uses it any more. Its remaining work is still done.
    fn end(self: &Arc<Self>) {
        let mut queue = self.lock();
        queue.destroyed = true;
        // What it still waits for is waited for, so that the device owes nothing in the end.
        if !queue.has_worker && !queue.items.is_empty() {
            queue.has_worker = self.start_worker().is_ok();
        }
        self.call_worker(&mut queue);
    }

    fn start_worker(self: &Arc<Self>) -> std::io::Result<()> {
        let stream = Arc::clone(self);
        with_signals_blocked(|| threads::start("fakegpu-stream", move || stream.work()).map(drop))
    }
}

/// Submits `task` to the stream's thread, after everything that the stream is ordered after. Never runs it in the
/// caller, unless no thread can be started.
pub(crate) fn enqueue(stream: &Arc<Stream>, task: Task) {
    let others: Vec<Point> = stream.pending().into_iter().filter(|point| !Arc::ptr_eq(&point.stream, stream)).collect();
    let mut queue = stream.lock();
    if !queue.has_worker {
        if let Err(error) = stream.start_worker() {
            drop(queue);
            eprintln!("fakegpu: no thread for a stream ({error}); its work is done by the caller");
            stream.synchronize();
            task();
            return;
        }
        queue.has_worker = true;
    }
    for item in others.into_iter().map(Item::After).chain([Item::Task(task)]) {
        stream.push(&mut queue, item);
    }
    stream.call_worker(&mut queue);
}

/// Makes later work of `stream` wait until `point` is reached.
pub(crate) fn hold_up(stream: &Arc<Stream>, point: Point) {
    stream.push(&mut stream.lock(), Item::After(point));
}

impl Streams {
    /// The streams with pending work.
    fn busy(&self) -> Vec<Arc<Stream>> {
        let mut busy = self.busy.lock();
        Self::drop_idle(&mut busy);
        busy.clone()
    }

    fn drop_idle(busy: &mut Vec<Arc<Stream>>) {
        busy.retain(|stream| {
            let owes = || stream.issued.load(Ordering::SeqCst) > stream.done.load(Ordering::SeqCst);
            if owes() {
                return true;
            }
            // Whoever sets the flag lists the stream: us, if it got work just now and found the flag still set.
            stream.is_listed.store(false, Ordering::SeqCst);
            owes() && !stream.is_listed.swap(true, Ordering::SeqCst)
        });
    }
}

/// The stream behind a `cudaStream_t`: 0 is the current device's default stream, 1 its legacy one, 2 the thread's.
///
/// # Errors
/// `INVALID_HANDLE` for a handle that names no live stream.
pub(crate) fn resolve(handle: usize) -> CudaResult<Arc<Stream>> {
    match handle {
        0 => Ok(default_of(current()?)),
        1 => Ok(legacy(current()?)),
        2 => Ok(per_thread(current()?)),
        handle => STREAMS.get(handle).ok_or(CudaError::INVALID_HANDLE),
    }
}

/// For Python code of ours: waits for the work of a stream of the current device, without counting as a wait by the program in
/// findings about races.
pub(crate) extern "C" fn wait(handle: usize) {
    guarded(|| {
        if let Ok(stream) = resolve(handle) {
            stream.synchronize();
        }
    });
}

/// Makes a stream on `device` and returns its handle.
pub(crate) fn create(device: &Device, kind: Kind, priority: i32) -> usize {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| left::count_with(|left| left.streams += STREAMS.all().len() as u64));
    STREAMS.insert(Stream::new(device, context::current(), kind, priority))
}

/// Destroys a stream. Work already in it is still done.
///
/// # Errors
/// `INVALID_HANDLE` for a default stream or a handle that names no live stream.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    let stream = STREAMS.remove(handle).ok_or(CudaError::INVALID_HANDLE)?;
    stream.end();
    Ok(())
}

/// A stream on `device` without a handle for the program.
pub(crate) fn unnamed(device: &Device, kind: Kind) -> Arc<Stream> {
    Stream::new(device, 0, kind, 0)
}

/// Destroys a stream from [`unnamed`]. Work already in it is still done.
pub(crate) fn retire(stream: &Arc<Stream>) {
    stream.end();
}

/// Destroys all streams of the device, as `cudaDeviceReset` does.
pub(crate) fn destroy_all(device: &Device) {
    STREAMS.remove_all(|stream| stream.device == device.ordinal).iter().for_each(Stream::end);
}

/// Waits for all work of the device.
pub(crate) fn synchronize_device(device: &Device) {
    races::host_waited_for_device(device.ordinal);
    if !is_quiet(device) {
        for stream in streams(device.ordinal).busy() {
            stream.tail().wait();
        }
    }
    times::host_waited(device.ordinal);
    device.synchronized();
}

#[cfg(test)]
mod tests;
