//! One-sided operations: a rank writes into another's registered memory and signals it. That rank waits for signals and makes
//! no call to match the write.
//!
//! Windows are identified by number: the n-th window that a rank registered with the communicator corresponds to the n-th of
//! the others.

use std::collections::HashMap;
use std::time::Instant;

use protocol::datatype::Operation;
use protocol::record::ErrorCode;

use super::context::OpContext;
use super::timing::{Timing, timing};
use crate::call::{Call, Place};
use crate::failure::Failure;

/// Another rank's window, as registered by that rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerWindow {
    /// The place of the window's first byte in a memory file; not valid for memory outside the arenas.
    pub place: Place,
    /// The address of the window's first byte in the owner's process.
    pub address: u64,
    /// The window's length.
    pub bytes: u64,
}

/// A rank's counters in one communicator.
#[derive(Default)]
pub(crate) struct Counts {
    /// Number of signals already waited for, per rank.
    consumed: HashMap<u32, u64>,
    /// Number of operations on each rank.
    operations: HashMap<(Operation, u32), u64>,
}

/// How puts and signals reach other ranks.
pub(crate) trait Path {
    /// Writes and signals; returns when the window became available. `what` describes the call.
    fn put(&mut self, context: &OpContext, call: &Call, what: &str) -> Result<Instant, Failure>;

    /// Number of signals that this rank got from `from` so far.
    fn received(&self, context: &OpContext, from: u32) -> u64;

    /// Call before checking the signals: anything that arrives from now on ends [`Self::sleep`].
    fn watch(&mut self, context: &OpContext) -> u32;

    /// Sleeps until something may have arrived since [`Self::watch`] returned `seen`, at most until the deadline. `open` holds
    /// the unfinished waits, each with the total number of signals it needs.
    ///
    /// # Errors
    /// A lost rank, or the deadline has passed.
    fn sleep(&mut self, context: &OpContext, seen: u32, open: &[(&Call, u64)]) -> Result<(), Failure>;
}

/// Runs the first operation of `calls`, or all leading waits; returns the timings of the calls that were run.
pub(crate) fn run(
    path: &mut dyn Path,
    counts: &mut Counts,
    context: &OpContext,
    calls: &[Call],
) -> Result<Vec<Timing>, Failure> {
    let Some(first) = calls.first() else { return Ok(Vec::new()) };
    let start = Instant::now();
    let mut timings = if first.operation == Operation::WaitSignal {
        wait(path, counts, context, calls)?
    } else {
        let met = path.put(context, first, &describe(first))?;
        vec![timing(start, met, 0)]
    };
    for (timing, call) in timings.iter_mut().zip(calls) {
        let counted = counts.operations.entry((call.operation, call.peer.unwrap_or(0))).or_default();
        *counted += 1;
        timing.transfer = *counted;
        timing.latest = call.ready(context.rank);
    }
    Ok(timings)
}

/// Waits until every rank of the leading waits of `calls` has signaled often enough.
fn wait(path: &mut dyn Path, counts: &mut Counts, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
    let start = Instant::now();
    let waits: Vec<&Call> = calls.iter().take_while(|call| call.operation == Operation::WaitSignal).collect();
    // Signals that each wait needs from its rank, counted from the communicator's first.
    let mut needed = Vec::with_capacity(waits.len());
    for call in &waits {
        let consumed = counts.consumed.entry(call.peer.unwrap_or(0)).or_default();
        *consumed += call.count;
        needed.push(*consumed);
    }
    let mut met: Vec<Option<Instant>> = vec![None; waits.len()];
    loop {
        let seen = path.watch(context);
        for at in 0..waits.len() {
            if met[at].is_none() && path.received(context, waits[at].peer.unwrap_or(0)) >= needed[at] {
                met[at] = Some(Instant::now());
                context.history.done(at, 0);
            }
        }
        let open: Vec<(&Call, u64)> =
            (0..waits.len()).filter(|at| met[*at].is_none()).map(|at| (waits[at], needed[at])).collect();
        if open.is_empty() {
            break;
        }
        path.sleep(context, seen, &open)?;
    }
    let end = Instant::now();
    Ok(met.into_iter().map(|met| timing(start, met.unwrap_or(end), 0)).collect())
}

/// The failure at the deadline.
pub(crate) fn late(context: &OpContext, what: &str, peer: u32) -> Failure {
    let detail = format!("rank {} waited {} ms for rank {peer}: {what}", context.rank, context.timeout_ms());
    Failure::new(ErrorCode::TimeoutWaitingForP2p, detail).blaming(vec![peer])
}

/// Checks that a range is within a window of `length` bytes.
pub(crate) fn within(offset: u64, bytes: u64, length: u64) -> Result<(), String> {
    match offset.checked_add(bytes) {
        Some(end) if end <= length => Ok(()),
        _ => Err(format!("{bytes} bytes at {offset} exceed the window of {length} bytes")),
    }
}

/// The failure of a put that leaves its window or names none.
pub(crate) fn invalid(context: &OpContext, what: &str, detail: &str) -> Failure {
    Failure::new(ErrorCode::InvalidArgument, format!("{what}: {detail}")).blaming(vec![context.rank])
}

/// The call in a sentence.
pub(crate) fn describe(call: &Call) -> String {
    let peer = call.peer.unwrap_or(0);
    match call.operation {
        Operation::WaitSignal if call.count == 1 => format!("a wait for a signal from rank {peer}"),
        Operation::WaitSignal => format!("a wait for {} signals from rank {peer}", call.count),
        Operation::Signal => format!("a signal to rank {peer}"),
        _ => format!("a put of {} {} to rank {peer}", call.count, call.datatype),
    }
}
