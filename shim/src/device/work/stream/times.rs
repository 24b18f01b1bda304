//! Streams on the modeled clock: when what they did ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use dataplane::lock::Mutex;
use protocol::operations::{Act, StreamOrder};
use timing::streams::{Loss, Reached};
use timing::work::{Demand, Gpu, Load};

use super::{Item, Kind, Stream, hold_up, streams};
use crate::device::work::clock;
use crate::report::operations::{self, StreamKey};
use crate::report::time;

/// A stream on the modeled clock.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// [`Stream::id`]
    pub(super) id: u64,
    /// When all work that it did so far ends, ns.
    pub(super) ends_ns: Arc<AtomicU64>,
    pub(super) load: Arc<Mutex<Load>>,
    pub(super) kind: Kind,
    pub(super) device: u32,
}

impl Times {
    /// The stream in the log of operations.
    pub(crate) fn key(&self) -> StreamKey {
        let order = match self.kind {
            Kind::Legacy => StreamOrder::Legacy,
            Kind::Blocking => StreamOrder::Blocking,
            Kind::NonBlocking => StreamOrder::NonBlocking,
        };
        (self.id, self.device, order)
    }

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

    /// Work ran from when to when. It began `gap_ns` after what is before it in its stream, or later.
    pub(crate) fn ran(&self, interval: (u64, u64), gap_ns: u64, marked: usize, demand: Demand) {
        streams(self.device).sharing.lock().add((self.id, self), interval, gap_ns, marked, demand);
        self.not_before(interval.1);
    }

    /// How long before its end its last work ended, if that was delayed by other work, ns.
    pub(crate) fn lost_ns(&self, ends_ns: u64) -> u64 {
        streams(self.device).sharing.lock().lost_ns(self.id, ends_ns)
    }

    /// The place that it has come to, with the streams that it is ordered after, but no earlier than `least_ns`.
    pub(crate) fn moment(&self, least_ns: u64) -> Reached {
        if !clock::is_modeled() {
            return Reached::default();
        }
        let ns = self.ends_in_order_ns().max(least_ns);
        streams(self.device).sharing.lock().moment(self.id, ns)
    }

    /// The host has waited for everything in it.
    pub(super) fn host_waited(&self) {
        clock::host_waits(|log| Act::Stream(log.stream(self.key())), || self.ends_in_order_ns());
    }

    /// What follows begins no earlier than a place in another stream.
    pub(super) fn follow(&self, moment: &Reached) {
        if !clock::is_modeled() {
            return;
        }
        let (ns, loss) = streams(self.device).sharing.lock().follow((self.id, self), moment);
        if let Some(loss) = loss {
            self.lose(loss);
        }
        self.not_before(ns);
    }

    /// Work beside its own delayed it.
    fn lose(&self, loss: Loss) {
        let Loss { begin_ns, end_ns, is_collective, marked } = loss;
        time::lost(self.device, self.id, (begin_ns, end_ns), is_collective, marked);
        self.not_before(end_ns);
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
pub(crate) fn hold_until(stream: &Arc<Stream>, moment: Arc<OnceLock<Reached>>) {
    if stream.is_idle() {
        moment.get().into_iter().for_each(|moment| stream.times.follow(moment));
    } else {
        stream.push(&mut stream.lock(), Item::NotBefore(moment));
    }
}

/// Makes later work of `stream` wait for everything that was submitted to `other` so far.
pub(crate) fn follow(stream: &Arc<Stream>, other: &Arc<Stream>) {
    log_after(stream, other);
    hold_up(stream, other.tail());
}

/// Says so in the log of operations alone.
pub(crate) fn log_after(stream: &Stream, other: &Stream) {
    operations::act(|log| Act::After(log.stream(stream.times.key()), log.stream(other.times.key())));
}

/// The host has waited for all streams of a device.
pub(super) fn host_waited(device: u32) {
    clock::host_waits(|_| Act::Device(device), || settle(device));
}

/// The host waits for all streams of a device: what each lost beside the others is known. Returns when all ends, ns.
fn settle(device: u32) -> u64 {
    let streams = streams(device);
    let losses = streams.sharing.lock().settle();
    losses.into_iter().for_each(|(times, loss)| times.lose(loss));
    streams.ends_ns.load(Ordering::Acquire)
}
