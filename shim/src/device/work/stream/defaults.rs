//! The default streams: each device's legacy one, and each thread's own.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use super::{Kind, Stream, streams};
use crate::device::Device;

/// The default streams of a thread, by device; they end with it.
#[derive(Default)]
struct PerThread(HashMap<u32, Arc<Stream>>);

impl Drop for PerThread {
    fn drop(&mut self) {
        self.0.values().for_each(Stream::end);
    }
}

thread_local! {
    static PER_THREAD: RefCell<PerThread> = RefCell::default();
}

/// The device's legacy default stream.
pub(crate) fn legacy(device: &Device) -> Arc<Stream> {
    Arc::clone(streams(device.ordinal).legacy.get_or_init(|| Stream::new(device, 0, Kind::Legacy, 0)))
}

/// The calling thread's default stream on `device` (`cudaStreamPerThread`). A thread that is exiting (exit handlers of the
/// program may call in then) has the legacy stream instead, which waits for the thread's own.
pub(crate) fn per_thread(device: &Device) -> Arc<Stream> {
    let own = |streams: &RefCell<PerThread>| {
        let mut streams = streams.borrow_mut();
        let stream = streams.0.entry(device.ordinal).or_insert_with(|| Stream::new(device, 0, Kind::Blocking, 0));
        Arc::clone(stream)
    };
    PER_THREAD.try_with(own).unwrap_or_else(|_| legacy(device))
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
