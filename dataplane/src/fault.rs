//! Injects the faults that a case asks for: which of them concern a rank of a communicator, and what they do to its
//! operations before these begin.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol::datatype::Operation;
use protocol::fault::{Action, Fault, FaultRecord, Link, Trigger};
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::Member;
use protocol::record::ErrorCode;
use protocol::route::{self, Edge};

use crate::call::{Buffer, Call};
use crate::failure::Failure;
use crate::gpu;
use crate::journal::Journal;
use crate::threads;
use crate::wake::Wake;

/// A fault that concerns one rank of one communicator.
pub(crate) struct Armed {
    fault: Fault,
    /// Whether it was announced; a fault at a collective is then over.
    announced: AtomicBool,
    /// When the process joined: a link fault begins a certain time after that.
    joined: Instant,
    after: Duration,
    /// The end of the link that each member is on, in rank order, if the fault is about a link.
    ends: Vec<Option<usize>>,
}

/// An operation that is about to begin, as seen by faults.
pub(crate) struct Site<'a> {
    pub(crate) communicator: CommunicatorId,
    /// The rank in the communicator, and its global rank.
    pub(crate) rank: u32,
    pub(crate) global_rank: Rank,
    pub(crate) size: u32,
    pub(crate) journal: &'a dyn Journal,
    /// Rings when the communicator is aborted.
    pub(crate) wake: &'a Wake,
    /// Why the communicator is over, once it is.
    pub(crate) failure: &'a dyn Fn() -> Option<Failure>,
    pub(crate) timeout: Duration,
}

/// A rank's corrupted contribution; the call reads from it instead.
pub(crate) struct Corrupted {
    pub(crate) call: Call,
    _contribution: Vec<u64>,
}

/// The faults of `faults` that concern rank `rank` among `members`: its communicator number `number`, counted from 1.
pub(crate) fn arm(faults: &[Fault], joined: Instant, members: &[Member], rank: u32, number: u64) -> Vec<Armed> {
    let Some(own) = members.get(rank as usize).map(|member| member.global_rank) else { return Vec::new() };
    let mut armed = Vec::new();
    for fault in faults {
        let mut ends = Vec::new();
        let after = match (&fault.at, fault.action.link()) {
            (Trigger::Collective { rank, communicator, .. }, _) => {
                if *rank != own || communicator.is_some_and(|wanted| wanted != number) {
                    continue;
                }
                Duration::ZERO
            }
            (Trigger::After { elapsed, .. }, Some(link)) => {
                ends = members.iter().map(|member| end_of(link, member.global_rank)).collect();
                *elapsed
            }
            // The process's clock deals with these.
            (Trigger::After { .. }, None) => continue,
        };
        armed.push(Armed { fault: fault.clone(), announced: AtomicBool::new(false), joined, after, ends });
    }
    armed
}

fn end_of(link: &Link, rank: Rank) -> Option<usize> {
    link.0.iter().position(|side| side.ranks.contains(&rank))
}

/// Fires the faults that wait for this collective.
///
/// # Errors
/// The failure that a fault asks for, or the communicator's own if it was aborted in the meantime.
pub(crate) fn before_collective(
    faults: &[Armed],
    site: &Site<'_>,
    sequence: u64,
    call: &Call,
) -> Result<Option<Corrupted>, Failure> {
    let corrupted = fire(faults, site, sequence, call, ErrorCode::TimeoutWaitingForCollective)?;
    cross_links(faults, site, &format!("{} (collective {sequence})", call.operation), || {
        let bytes = route::request_bytes(call.operation, site.size, call.count, call.datatype.size() as u64);
        route::edges(call.operation, site.size, call.root.map(Rank), bytes)
    })?;
    Ok(corrupted.then(|| corrupt(call, call.send_bytes(site.rank, site.size))))
}

/// Fires the faults that wait for this call, which is number `sequence` by their count. True if it is to be corrupted.
fn fire(faults: &[Armed], site: &Site<'_>, sequence: u64, call: &Call, late: ErrorCode) -> Result<bool, Failure> {
    let mut corrupted = false;
    for armed in faults {
        let Trigger::Collective { operation, sequence: wanted, .. } = &armed.fault.at else { continue };
        let elsewhere = *operation != call.operation || wanted.is_some_and(|wanted| wanted.0 != sequence);
        // A rank that contributes nothing has nothing to corrupt; a recv spoils what it gets.
        let moved = match call.operation {
            Operation::Recv => call.block_bytes(),
            _ => call.send_bytes(site.rank, site.size),
        };
        if elsewhere || (armed.fault.action == Action::Corrupt && moved == 0) || !armed.begin(site, sequence) {
            continue;
        }
        let origin = &armed.fault.origin;
        match &armed.fault.action {
            Action::Kill => signal(libc::SIGKILL),
            Action::Stop => signal(libc::SIGSTOP),
            Action::Delay(delay) => site.pause(*delay)?,
            Action::NcclError => {
                let detail = format!("{origin}: injected failure in {operation}");
                return Err(Failure::new(ErrorCode::InjectedRankFailure, detail).blaming(vec![site.rank]));
            }
            Action::Corrupt => corrupted = true,
            Action::Drop => {
                site.pause(site.timeout)?;
                let which = if operation.is_for_two() { "number" } else { "collective" };
                let detail = format!("{origin}: rank {} was kept from {operation} ({which} {sequence})", site.rank);
                return Err(Failure::new(late, detail).blaming(vec![site.rank]));
            }
            Action::Gpu(event) => {
                gpu::happens(event);
                if event.health.is_fatal() {
                    let detail = format!("{origin}: GPU {} of the rank: {}", event.gpu, event.health);
                    return Err(Failure::new(ErrorCode::InjectedRankFailure, detail).blaming(vec![site.rank]));
                }
            }
            Action::SlowLink { .. } | Action::CutLink { .. } => {}
        }
    }
    Ok(corrupted)
}

/// Number of sends and recvs of a rank in one communicator so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    sends: u64,
    recvs: u64,
}

/// A group's sends and recvs, as modified by faults.
pub(crate) struct Spoiled {
    pub(crate) calls: Vec<Call>,
    /// Data sent in place of the program's own buffers.
    _sent: Vec<Corrupted>,
    /// Positions in `calls`.
    received: Vec<usize>,
}

impl Spoiled {
    /// Corrupts received data, once it has arrived.
    pub(crate) fn finish(&self) {
        for call in self.received.iter().filter_map(|at| self.calls.get(*at)) {
            // SAFETY: the receive buffer is the caller's promise; the operation is done and nothing else writes there yet.
            unsafe { flip(call.receive.address, call.block_bytes(), call.datatype.size()) };
        }
    }
}

/// Fires the faults that concern a group's sends and recvs, or one-sided operations.
///
/// # Errors
/// As [`before_collective`].
pub(crate) fn before_transfers(
    faults: &[Armed],
    site: &Site<'_>,
    counted: &mut Counted,
    calls: &[Call],
) -> Result<Spoiled, Failure> {
    let mut spoiled = Spoiled { calls: calls.to_vec(), _sent: Vec::new(), received: Vec::new() };
    for (at, call) in calls.iter().enumerate() {
        let number = match call.operation {
            Operation::Send => &mut counted.sends,
            Operation::Recv => &mut counted.recvs,
            _ => continue,
        };
        *number += 1;
        if !fire(faults, site, *number, call, ErrorCode::TimeoutWaitingForP2p)? {
            continue;
        }
        if call.operation == Operation::Recv {
            spoiled.received.push(at);
        } else {
            let corrupted = corrupt(call, call.block_bytes());
            spoiled.calls[at] = corrupted.call;
            spoiled._sent.push(corrupted);
        }
    }
    cross_links(faults, site, "send and recv", || {
        let (own, edge) =
            (Rank(site.rank), |src, dst, call: &Call| Edge { src, dst, bytes: call.block_bytes() as u64 });
        let peers = calls.iter().filter_map(|call| Some((Rank(call.peer?), call)));
        peers
            .map(|(peer, call)| match call.operation {
                Operation::Send | Operation::PutSignal => edge(own, peer, call),
                _ => edge(peer, own, call),
            })
            .collect()
    })?;
    Ok(spoiled)
}

/// Waits for slow links and fails at cut ones.
fn cross_links(faults: &[Armed], site: &Site<'_>, what: &str, edges: impl Fn() -> Vec<Edge>) -> Result<(), Failure> {
    for armed in faults.iter().filter(|armed| !armed.ends.is_empty() && armed.joined.elapsed() >= armed.after) {
        let Some(bytes) = crossing(&armed.ends, &edges()) else { continue };
        if !armed.announced.swap(true, Ordering::AcqRel) {
            let record = FaultRecord {
                number: armed.fault.number,
                kind: armed.fault.action.kind(),
                rank: None,
                collective: None,
            };
            site.journal.fault_fires(record);
        }
        match &armed.fault.action {
            Action::SlowLink { delay, gbps, .. } => {
                let on_the_wire = gbps.map_or(0.0, |gbps| 8.0 * bytes as f64 / (gbps * 1e9));
                site.pause(delay.saturating_add(Duration::try_from_secs_f64(on_the_wire).unwrap_or(Duration::MAX)))?;
            }
            Action::CutLink { link } => {
                let origin = &armed.fault.origin;
                let detail = format!("{what} needs the link between {link}, which is cut ({origin})");
                return Err(Failure::new(ErrorCode::InjectedRankFailure, detail));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The bytes that cross from one end to the other, in the busier direction; `None` if no edge crosses.
fn crossing(ends: &[Option<usize>], edges: &[Edge]) -> Option<u64> {
    let end = |rank: Rank| ends.get(rank.0 as usize).copied().flatten();
    let mut bytes = [None::<u64>; 2];
    for edge in edges {
        if let (Some(from), Some(to)) = (end(edge.src), end(edge.dst))
            && from != to
        {
            bytes[from] = Some(bytes[from].unwrap_or(0).saturating_add(edge.bytes));
        }
    }
    bytes.into_iter().flatten().max()
}

/// Flips the second-highest bit of the middle element of the rank's contribution. In a float of ordinary size, that is the
/// top of the exponent, so the value changes by many orders of magnitude.
fn corrupt(call: &Call, contributed: usize) -> Corrupted {
    let mut contribution = vec![0u64; contributed.div_ceil(8)];
    let start = contribution.as_mut_ptr().cast::<u8>();
    // SAFETY: the copy has room for what the caller promised to be readable.
    unsafe {
        std::ptr::copy_nonoverlapping(call.send.address, start, contributed);
        flip(start, contributed, call.datatype.size());
    }
    Corrupted { call: Call { send: Buffer::host(start), ..*call }, _contribution: contribution }
}

/// Flips the second-highest bit of the middle element of `bytes` at `start`.
///
/// # Safety
/// They are writable, at least one element of `size` bytes.
unsafe fn flip(start: *mut u8, bytes: usize, size: usize) {
    let highest = (bytes / size / 2) * size + size - 1;
    // SAFETY: the last byte of an element of the range.
    unsafe { *start.add(highest) ^= 0x40 };
}

fn signal(number: i32) {
    // To this thread, which comes no further: a process that is stopped by way of another thread runs on for a moment.
    // SAFETY: signals this process, which is what the case asks for.
    unsafe { libc::raise(number) };
}

impl Armed {
    /// Announces that the fault fires at an operation; false if it must not.
    fn begin(&self, site: &Site<'_>, sequence: u64) -> bool {
        // FakeGPU's variables name a position of every communicator.
        if self.fault.number == 0 {
            return true;
        }
        let Trigger::Collective { operation, .. } = self.fault.at else { return false };
        !self.announced.swap(true, Ordering::AcqRel)
            && site.journal.fault_fires(FaultRecord {
                number: self.fault.number,
                kind: self.fault.action.kind(),
                rank: Some(site.global_rank),
                collective: Some((site.communicator, Sequence(sequence), operation)),
            })
    }
}

impl Site<'_> {
    /// Lets `time` pass, unless the communicator is aborted in the meantime.
    fn pause(&self, time: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            self.wake.clear();
            if let Some(failure) = (self.failure)() {
                return Err(failure);
            }
            let left = time.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            self.wake.wait(left);
        }
    }
}

/// Starts the clock of the faults that hit this process some time after it joined; without any, no thread is started. A process
/// without its own rank gets all of them.
pub(crate) fn start_clock(
    faults: &[Fault],
    rank: Option<u32>,
    joined: Instant,
    fires: impl Fn(FaultRecord) -> Option<bool> + Send + 'static,
) {
    let own = rank.map(Rank);
    let mut due: Vec<(Duration, Rank, Fault)> = faults
        .iter()
        .filter_map(|fault| match fault.at {
            // When something happens to a GPU, everybody reads in the machine's file.
            _ if fault.action.gpu().is_some() => None,
            Trigger::After { rank: Some(rank), elapsed } if own.is_none_or(|own| own == rank) => {
                Some((elapsed, rank, fault.clone()))
            }
            _ => None,
        })
        .collect();
    due.sort_by_key(|(elapsed, ..)| *elapsed);
    // False when the process is about to end.
    let fire = move |rank, fault: &Fault| {
        let record =
            FaultRecord { number: fault.number, kind: fault.action.kind(), rank: Some(rank), collective: None };
        let Some(fires) = fires(record) else { return false };
        match fault.action {
            Action::Kill if fires => signal(libc::SIGKILL),
            Action::Stop if fires => signal(libc::SIGSTOP),
            _ => {}
        }
        true
    };
    let later = due.split_off(due.partition_point(|(elapsed, ..)| elapsed.is_zero()));
    // A thread might get its turn only when the process has ended.
    for (_, rank, fault) in due {
        fire(rank, &fault);
    }
    if later.is_empty() {
        return;
    }
    let clock = move || {
        for (elapsed, rank, fault) in later {
            std::thread::sleep(elapsed.saturating_sub(joined.elapsed()));
            if !fire(rank, &fault) {
                return;
            }
        }
    };
    // Without the thread the fault never fires, which fails the case.
    let _ = threads::start("ftest-faults", clock);
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::datatype::{Datatype, ReductionOp};

    #[test]
    fn only_what_goes_from_end_to_end_crosses() {
        let ends = [Some(0), Some(0), Some(1), None];
        let ring = |bytes| route::edges(Operation::Broadcast, 4, Some(Rank(0)), bytes);
        assert_eq!(crossing(&ends, &ring(10)), Some(10), "1 to 2");
        assert_eq!(crossing(&[Some(0), None, Some(1), None], &ring(10)), None);
        let gather = route::edges(Operation::Gather, 4, Some(Rank(2)), 10);
        assert_eq!(crossing(&ends, &gather), Some(20), "0 and 1 to 2");
    }

    #[test]
    fn one_bit_of_the_middle_element_is_flipped() {
        let mut values = [1.5f32, 1.5, 1.5];
        let mut call = Call::new(Operation::AllReduce, 3, Datatype::Float32);
        (call.reduction, call.send) = (Some(ReductionOp::Sum), Buffer::host(values.as_mut_ptr().cast()));
        let corrupted = corrupt(&call, 12);
        let at = corrupted.call.send.address.cast::<f32>().cast_const();
        // SAFETY: three elements, which `corrupted` holds.
        let seen: Vec<u32> = unsafe { std::slice::from_raw_parts(at, 3) }.iter().map(|value| value.to_bits()).collect();
        let right = 1.5f32.to_bits();
        assert_eq!(seen, [right, right ^ 0x4000_0000, right]);
        assert_eq!(values, [1.5; 3], "the program's own buffer stays");
    }
}
