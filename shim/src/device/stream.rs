//! Streams: first in, first out. Work on an idle stream is done by the caller at once; what may have to wait (collectives,
//! host functions, events of a busy stream) goes to a thread of the stream's own, started when first needed.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::error::{CudaError, CudaResult};
use super::{Device, all, current};
use crate::boundary::handle::Handles;

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
    pub(crate) kind: Kind,
    pub(crate) priority: i32,
    /// Tasks given to the queue, and tasks done: equal when idle.
    issued: AtomicU64,
    done: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    has_worker: bool,
    destroyed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.tasks.len()).finish_non_exhaustive()
    }
}

/// A device's streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Tasks in queues of all its streams that are not done.
    unfinished: AtomicUsize,
    legacy: OnceLock<Arc<Stream>>,
    list: Mutex<Vec<Weak<Stream>>>,
}

static STREAMS: Handles<Stream> = Handles::new(1);

thread_local! {
    static PER_THREAD: std::cell::RefCell<std::collections::HashMap<u32, Arc<Stream>>> = std::cell::RefCell::default();
}

/// A place in a stream: everything issued to it so far.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    stream: Arc<Stream>,
    sequence: u64,
}

impl Point {
    fn is_reached(&self) -> bool {
        self.stream.done.load(Ordering::Acquire) >= self.sequence
    }

    /// Waits until the stream got here. The wait ends: each task in a stream has a deadline of its own, except a
    /// program's host function.
    fn wait(&self) {
        if self.is_reached() {
            return;
        }
        let mut queue = self.stream.lock();
        while !self.is_reached() {
            queue = self.stream.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Streams {
    /// True when no stream of the device owes anything.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) == 0
    }
}

impl Stream {
    fn new(device: &Device, kind: Kind, priority: i32) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let stream = Arc::new(Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            device: device.ordinal,
            kind,
            priority,
            issued: AtomicU64::new(0),
            done: AtomicU64::new(0),
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut list = device.streams.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|known| known.strong_count() > 0);
        list.push(Arc::downgrade(&stream));
        stream
    }

    /// Its device.
    pub(crate) fn device(&self) -> &'static Device {
        &all()[self.device as usize]
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tail(self: &Arc<Self>) -> Point {
        Point { stream: Arc::clone(self), sequence: self.issued.load(Ordering::Acquire) }
    }

    /// What the next piece of work on this stream has to wait for and is not done yet.
    fn pending(self: &Arc<Self>) -> Vec<Point> {
        let streams = &self.device().streams;
        if streams.unfinished.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut points = vec![self.tail()];
        match self.kind {
            Kind::NonBlocking => {}
            Kind::Blocking => points.extend(streams.legacy.get().map(|legacy| legacy.tail())),
            Kind::Legacy => {
                points.extend(
                    streams.each().iter().filter(|other| other.kind == Kind::Blocking).map(|other| other.tail()),
                );
            }
        }
        points.retain(|point| !point.is_reached());
        points
    }

    /// True when everything issued to it, and everything it is ordered after, is done.
    pub(crate) fn is_idle(self: &Arc<Self>) -> bool {
        self.pending().is_empty()
    }

    /// Waits until [`Stream::is_idle`] held for the work issued so far.
    pub(crate) fn synchronize(self: &Arc<Self>) {
        self.pending().iter().for_each(Point::wait);
    }

    /// Does `task` in stream order: at once in the caller when nothing is before it, else on the stream's thread.
    pub(crate) fn run(self: &Arc<Self>, task: impl FnOnce() + Send + 'static) {
        if self.is_idle() {
            task();
        } else {
            enqueue(self, Box::new(task));
        }
    }

    fn work(self: &Arc<Self>) {
        loop {
            let task = {
                let mut queue = self.lock();
                loop {
                    if let Some(task) = queue.tasks.pop_front() {
                        break task;
                    }
                    if queue.destroyed {
                        queue.has_worker = false;
                        return;
                    }
                    queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            };
            // A task's panic was printed by the hook; the stream goes on, as the task's own result says what failed.
            let _ = catch_unwind(AssertUnwindSafe(task));
            let _queue = self.lock();
            self.done.fetch_add(1, Ordering::Release);
            self.device().streams.unfinished.fetch_sub(1, Ordering::Release);
            self.changed.notify_all();
        }
    }

    fn start_worker(self: &Arc<Self>) -> std::io::Result<()> {
        let stream = Arc::clone(self);
        with_signals_blocked(|| {
            std::thread::Builder::new().name("fakegpu-stream".to_owned()).spawn(move || stream.work()).map(drop)
        })
    }
}

/// Gives `task` to the stream's thread, after everything that the stream is ordered after. Never runs it in the caller,
/// unless no thread can be started.
pub(crate) fn enqueue(stream: &Arc<Stream>, task: Task) {
    let others: Vec<Point> = stream.pending().into_iter().filter(|point| !Arc::ptr_eq(&point.stream, stream)).collect();
    let task: Task = if others.is_empty() {
        task
    } else {
        Box::new(move || {
            others.iter().for_each(Point::wait);
            task();
        })
    };
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
    stream.device().streams.unfinished.fetch_add(1, Ordering::Release);
    stream.issued.fetch_add(1, Ordering::Release);
    queue.tasks.push_back(task);
    stream.changed.notify_all();
}

/// Signals go to the program's own threads, never to ours.
fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised by the calls before they are read; the mask is put back below.
    let before = unsafe {
        let mut every = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &every, &mut before);
        before
    };
    let value = body();
    // SAFETY: `before` is the mask that the thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    value
}

impl Streams {
    fn each(&self) -> Vec<Arc<Stream>> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The device's legacy default stream.
pub(crate) fn legacy(device: &Device) -> Arc<Stream> {
    Arc::clone(device.streams.legacy.get_or_init(|| Stream::new(device, Kind::Legacy, 0)))
}

/// The calling thread's default stream on `device` (`cudaStreamPerThread`).
pub(crate) fn per_thread(device: &Device) -> Arc<Stream> {
    PER_THREAD.with_borrow_mut(|streams| {
        Arc::clone(streams.entry(device.ordinal).or_insert_with(|| Stream::new(device, Kind::Blocking, 0)))
    })
}

thread_local! {
    static DEFAULT_IS_PER_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of a `_ptsz` or `_ptds` call, for which the default stream is the thread's own.
pub(crate) fn per_thread_default<T>(body: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            DEFAULT_IS_PER_THREAD.set(self.0);
        }
    }
    let _back = Back(DEFAULT_IS_PER_THREAD.replace(true));
    body()
}

/// The default stream of the call under way, on `device`.
pub(crate) fn default_of(device: &Device) -> Arc<Stream> {
    if DEFAULT_IS_PER_THREAD.get() { per_thread(device) } else { legacy(device) }
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

/// Makes a stream on `device` and returns its handle.
pub(crate) fn create(device: &Device, kind: Kind, priority: i32) -> usize {
    STREAMS.insert(Stream::new(device, kind, priority))
}

/// Ends a stream. Work already in it is still done.
///
/// # Errors
/// `INVALID_HANDLE` for a default stream or a handle that names no live stream.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    let stream = STREAMS.remove(handle).ok_or(CudaError::INVALID_HANDLE)?;
    stream.lock().destroyed = true;
    stream.changed.notify_all();
    Ok(())
}

/// Waits for all work of the device.
pub(crate) fn synchronize_device(device: &Device) {
    for stream in device.streams.each() {
        stream.tail().wait();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(10);

    /// Every test that uses a device works on one of its own, so that tests do not wait for each other.
    fn device(ordinal: i32) -> &'static Device {
        crate::device::get(ordinal).unwrap()
    }

    fn stream(device: &Device, kind: Kind) -> Arc<Stream> {
        STREAMS.get(create(device, kind, 0)).unwrap()
    }

    /// A task that waits until it is told to go on.
    fn gate(stream: &Arc<Stream>) -> mpsc::Sender<()> {
        let (open, wait) = mpsc::channel();
        enqueue(stream, Box::new(move || wait.recv_timeout(DEADLINE).unwrap()));
        open
    }

    #[test]
    fn work_behind_a_busy_task_keeps_its_order() {
        let stream = stream(device(0), Kind::NonBlocking);
        let (said, heard) = mpsc::channel();
        let open = gate(&stream);
        for number in 0..100 {
            let said = said.clone();
            stream.run(move || said.send(number).unwrap());
        }
        assert!(!stream.is_idle());
        assert!(heard.try_recv().is_err(), "nothing ran before the gate");
        open.send(()).unwrap();
        stream.synchronize();
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        let here = std::thread::current().id();
        let (said, heard) = mpsc::channel();
        stream.run(move || said.send(std::thread::current().id()).unwrap());
        assert_eq!(heard.try_recv(), Ok(here), "an idle stream works in the caller");
    }

    #[test]
    fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
        let device = device(1);
        let (legacy, blocking, free) =
            (legacy(device), stream(device, Kind::Blocking), stream(device, Kind::NonBlocking));
        let (said, heard) = mpsc::channel();
        let say = |word: &'static str| {
            let said = said.clone();
            move || said.send(word).unwrap()
        };
        let open = gate(&blocking);
        legacy.run(say("legacy"));
        free.run(say("free"));
        assert_eq!(heard.recv_timeout(DEADLINE), Ok("free"));
        blocking.run(say("blocking after legacy"));
        assert!(!legacy.is_idle() && heard.try_recv().is_err());
        open.send(()).unwrap();
        synchronize_device(device);
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["legacy", "blocking after legacy"]);
    }

    #[test]
    fn a_destroyed_stream_finishes_its_work_and_its_handle_is_dead() {
        let device = device(2);
        let handle = create(device, Kind::NonBlocking, 0);
        let stream = resolve(handle).unwrap();
        let (said, heard) = mpsc::channel();
        let open = gate(&stream);
        stream.run(move || said.send(()).unwrap());
        destroy(handle).unwrap();
        assert_eq!(destroy(handle), Err(CudaError::INVALID_HANDLE));
        assert!(resolve(handle).is_err());
        open.send(()).unwrap();
        heard.recv_timeout(DEADLINE).unwrap();
    }
}
