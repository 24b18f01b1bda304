//! The timeline of the devices: what each piece of work on a stream is, and when it began and ended. Where work is submitted, the
//! calling thread describes it ([`submit`]); the task that does the work has [`begin`] around it. While nobody asks, they
//! cost two loads.

mod cost;
mod modeled;
mod work;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::clock;
use super::stream::Stream;
use crate::boundary::calls::{self, Origin};

pub(crate) use crate::boundary::calls::Node;

pub(crate) use cost::of_collective;
pub(crate) use modeled::{Modeled, Within};
pub(crate) use timing::work::Cost;
pub(crate) use work::{Element, Form, Grid, Kind, Part, Place, Work, product_kernel};

/// Work that was submitted to a stream and has not begun.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    work: Work,
    device: u32,
    context: usize,
    stream: u64,
    origin: Origin,
    called_ns: u64,
    submitted_ns: u64,
    /// It on the modeled clock, if that tells the time.
    modeled: Option<modeled::Submitted>,
    /// Whose bits were set.
    wanted: u32,
}

/// Work that is over.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) work: Work,
    pub(crate) device: u32,
    /// The context of the stream ([`Stream::context`]).
    pub(crate) context: usize,
    /// [`Stream::id`]
    pub(crate) stream: u64,
    /// Connects it with the call that submitted it.
    pub(crate) origin: Origin,
    /// Between these two times, the program's thread submitted it.
    pub(crate) called_ns: u64,
    pub(crate) submitted_ns: u64,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// The same on the modeled clock, if that tells the time.
    pub(crate) modeled: Option<Modeled>,
}

impl Submitted {
    /// Its number in the log of operations.
    pub(crate) fn logged(&self) -> Option<usize> {
        self.modeled.as_ref()?.logged
    }
}

/// Who may subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscriber {
    /// CUPTI's activity records.
    Activity,
    /// The tests of this module.
    #[cfg(test)]
    Tests,
}

/// A bit for each subscriber.
static WANTED: AtomicU32 = AtomicU32::new(0);
static TOLD: [OnceLock<fn(&Done)>; 2] = [const { OnceLock::new() }; 2];

/// From now on, `told` gets all work that is submitted, when it is over. It must not submit work.
pub(crate) fn subscribe(subscriber: Subscriber, told: fn(&Done)) {
    let _ = TOLD[subscriber as usize].set(told);
    WANTED.fetch_or(1 << subscriber as u32, Ordering::Release);
}

/// Ends a subscription; work that was submitted before is still told.
pub(crate) fn unsubscribe(subscriber: Subscriber) {
    WANTED.fetch_and(!(1 << subscriber as u32), Ordering::Release);
}

/// Whether anybody asks about what this thread submits now.
#[inline]
pub(crate) fn is_wanted() -> bool {
    (WANTED.load(Ordering::Relaxed) != 0 || clock::is_modeled()) && !modeled::is_within()
}

/// The time of all records, in nanoseconds since 1970 by this machine's clock.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Work that this thread submits is that of a graph's node, until this is dropped.
pub(crate) struct InNode(Option<Node>);

impl InNode {
    /// The thread submits the work of `node`.
    pub(crate) fn begin(node: Node) -> Self {
        Self(calls::exchange_node(Some(node)))
    }
}

impl Drop for InNode {
    fn drop(&mut self) {
        calls::exchange_node(self.0);
    }
}

/// Called where work is submitted, in the calling thread. `None` if nobody asks.
#[inline]
pub(crate) fn submit(stream: &Stream, describe: impl FnOnce() -> Work) -> Option<Submitted> {
    is_wanted().then(|| {
        let wanted = WANTED.load(Ordering::Relaxed);
        let called_ns = now();
        let (work, origin) = (describe(), calls::origin());
        Submitted {
            modeled: modeled::submit(stream, &work, &origin),
            work,
            device: stream.device,
            context: stream.context,
            stream: stream.id,
            origin,
            called_ns,
            submitted_ns: now(),
            wanted,
        }
    })
}

/// Called by the task that does the work: it runs until the result is dropped.
#[inline]
pub(crate) fn begin(submitted: Option<Submitted>) -> Option<Running> {
    submitted.map(|mut submitted| {
        let modeled = submitted.modeled.take().map(modeled::Submitted::begin);
        Running { begin_ns: now(), modeled, submitted: Some(submitted) }
    })
}

/// Work in progress. Dropping it records the end.
pub(crate) struct Running {
    submitted: Option<Submitted>,
    begin_ns: u64,
    modeled: Option<modeled::Running>,
}

impl Running {
    /// On the modeled clock: when this rank is ready for it, ns; 0 without one.
    pub(crate) fn ready_ns(&self) -> u64 {
        self.modeled.as_ref().map_or(0, modeled::Running::ready_ns)
    }

    /// On the modeled clock: it began when the last of its ranks was ready, ns, and costs that.
    pub(crate) fn met(&mut self, latest_ns: u64, rank: impl FnOnce() -> Option<u32>, cost: Option<Cost>) {
        if let Some(modeled) = &mut self.modeled {
            modeled.met(latest_ns, rank, cost);
        }
    }

    /// Adds what is known only when the work is done.
    pub(crate) fn complete(&mut self, complete: impl FnOnce(&mut Work)) {
        if let Some(submitted) = &mut self.submitted {
            complete(&mut submitted.work);
        }
    }

    /// Forgets it: there was no work.
    pub(crate) fn discard(mut self) {
        self.submitted = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(submitted) = self.submitted.take() else { return };
        let Submitted { work, device, context, stream, origin, called_ns, submitted_ns, wanted, .. } = submitted;
        let (begin_ns, end_ns) = (self.begin_ns, now().max(self.begin_ns));
        let modeled = self.modeled.take().map(|modeled| modeled.end(device, &work));
        let done = Done { modeled, work, device, context, stream, origin, called_ns, submitted_ns, begin_ns, end_ns };
        modeled::add(&done);
        let asked = TOLD.iter().enumerate().filter(|(subscriber, _)| wanted & 1 << subscriber != 0);
        asked.filter_map(|(_, told)| told.get()).for_each(|told| told(&done));
    }
}

#[cfg(test)]
mod tests;
