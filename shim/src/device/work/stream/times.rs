//! Streams on the modeled clock: when what they did ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dataplane::lock::Mutex;
use timing::work::{Gpu, Load};

use super::{Item, Kind, Stream, streams};

/// A stream on the modeled clock.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// When all work that it did so far ends, ns.
    pub(super) ends_ns: Arc<AtomicU64>,
    pub(super) load: Arc<Mutex<Load>>,
    pub(super) kind: Kind,
    pub(super) device: u32,
}

impl Times {
    /// When all work that it did so far ends, ns.
    pub(super) fn ends_ns(&self) -> u64 {
        self.ends_ns.load(Ordering::Acquire)
    }

    /// As [`Times::ends_ns`], with the streams that it is ordered after.
    pub(crate) fn ends_in_order_ns(&self) -> u64 {
        let streams = streams(self.device);
        let others = match self.kind {
            Kind::NonBlocking => 0,
            Kind::Blocking => streams.legacy.get().map_or(0, |legacy| legacy.times.ends_ns()),
            Kind::Legacy => streams.blocking_ends_ns.load(Ordering::Acquire),
        };
        self.ends_ns().max(others)
    }

    /// How long work takes, us, that begins at `begin_ns` and keeps the tensor cores busy for `us` if nothing ran before it. Streams do
    /// not see each other's, whose order may differ from run to run.
    pub(crate) fn stretched_us(&self, gpu: &Gpu, begin_ns: u64, us: f64) -> f64 {
        self.load.lock().stretched_us(gpu, begin_ns, us)
    }

    /// What follows begins no earlier than `ns`.
    pub(crate) fn not_before(&self, ns: u64) {
        let streams = streams(self.device);
        self.ends_ns.fetch_max(ns, Ordering::AcqRel);
        streams.ends_ns.fetch_max(ns, Ordering::AcqRel);
        if self.kind == Kind::Blocking {
            streams.blocking_ends_ns.fetch_max(ns, Ordering::AcqRel);
        }
    }
}

/// On the modeled clock, later work of `stream` begins no earlier than `moment`, which is known once everything is done that the
/// stream waits for.
pub(crate) fn hold_until(stream: &Arc<Stream>, moment: Arc<AtomicU64>) {
    if stream.is_idle() {
        stream.times.not_before(moment.load(Ordering::Acquire));
    } else {
        stream.push(&mut stream.lock(), Item::NotBefore(moment));
    }
}
