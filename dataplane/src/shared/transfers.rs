//! Send and recv through mapped memory. All transfers of a group are under way at once: each rank announces what it can, takes
//! what has arrived, and sleeps on its own bell only when nothing moved. A large message stays in its sender's buffer until it
//! is taken. A sender that gives up withdraws messages that are not being copied yet, and waits for the rest.

use std::time::Instant;

use protocol::datatype::Operation;
use protocol::ready::Ready;
use protocol::record::ErrorCode;

use crate::arena::Arena;
use crate::call::{Call, Place};
use crate::failure::{Failure, name_ranks};
use crate::kernels::streaming;
use crate::operation::context::OpContext;
use crate::operation::timing::{Timing, timing};
use crate::operation::transfer::{EAGER_BYTES, Side, difference, mismatch};
use crate::shared::mapping::Mappings;
use crate::shared::reach::reach;
use crate::shared::segment::{Message, RING_SLOTS, Segment};

/// One send or recv on its way.
struct Transfer<'a> {
    call: &'a Call,
    peer: u32,
    /// Position in the ring, once announced (send) or taken (recv).
    index: Option<u64>,
    done: Option<Timing>,
    /// Holds a contribution outside the arenas until the receiver has taken it.
    bounce: Option<Arena>,
}

/// Runs a group's sends and recvs to their end; timings are in the order of `calls`.
pub(crate) fn run(
    segment: &Segment,
    mappings: &mut Mappings,
    context: &OpContext,
    calls: &[Call],
) -> Result<Vec<Timing>, Failure> {
    let start = Instant::now();
    let mut transfers: Vec<Transfer> = calls
        .iter()
        .map(|call| Transfer { call, peer: call.peer.unwrap_or(0), index: None, done: None, bounce: None })
        .collect();
    let result = drive(segment, mappings, context, &mut transfers, start);
    if result.is_err() {
        withdraw(segment, context, &transfers);
    }
    result?;
    Ok(transfers.into_iter().filter_map(|transfer| transfer.done).collect())
}

fn drive(
    segment: &Segment,
    mappings: &mut Mappings,
    context: &OpContext,
    transfers: &mut [Transfer],
    start: Instant,
) -> Result<(), Failure> {
    loop {
        let bell = segment.bell(context.rank);
        let mut moved = false;
        for at in 0..transfers.len() {
            if transfers[at].done.is_some() {
                continue;
            }
            let (before, rest) = transfers.split_at_mut(at);
            let transfer = &mut rest[0];
            // Transfers between two ranks keep their order: one waits until those before it have their place in the ring.
            let queued = before.iter().any(|earlier| {
                earlier.peer == transfer.peer
                    && earlier.call.operation == transfer.call.operation
                    && earlier.index.is_none()
            });
            moved |= match transfer.call.operation {
                Operation::Send => advance_send(segment, context, transfer, start, queued)?,
                _ => !queued && take(segment, mappings, context, transfer, start)?,
            };
            if let Some(timing) = transfer.done {
                context.history.done(at, timing.transfer);
            }
        }
        let waiting: Vec<&Transfer> = transfers.iter().filter(|transfer| transfer.done.is_none()).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        if moved {
            continue;
        }
        if let Some(gone) = lost(segment, context, &waiting) {
            // What it announced before it was lost may have come since we looked.
            if segment.bell(context.rank) == bell || segment.status(context.rank).is_some() {
                return Err(gone);
            }
            continue;
        }
        if Instant::now() >= context.deadline {
            return Err(late(context, &waiting));
        }
        segment.wait_bell(context.rank, bell, context.deadline);
    }
}

/// Withdraws every announced message that is in this rank's buffers, because its program may reuse them. Waits for a rank that is
/// copying one now, unless it is gone.
fn withdraw(segment: &Segment, context: &OpContext, transfers: &[Transfer]) {
    use std::sync::atomic::Ordering::Acquire;
    let deadline = context.deadline_from(Instant::now());
    for transfer in transfers.iter().filter(|transfer| transfer.done.is_none()) {
        let (Operation::Send, Some(index)) = (transfer.call.operation, transfer.index) else { continue };
        let ring = segment.ring(context.rank, transfer.peer);
        if ring.withdraw(index) {
            continue;
        }
        loop {
            let bell = segment.bell(context.rank);
            let taken = ring.tail.0.load(Acquire) > index;
            if taken || segment.is_gone(transfer.peer) || Instant::now() >= deadline {
                break;
            }
            segment.wait_bell(context.rank, bell, deadline);
        }
    }
}

/// Announces a send when the ring has room, and completes it once it is taken. True if anything changed.
fn advance_send(
    segment: &Segment,
    context: &OpContext,
    transfer: &mut Transfer,
    start: Instant,
    queued: bool,
) -> Result<bool, Failure> {
    use std::sync::atomic::Ordering::Acquire;
    let ring = segment.ring(context.rank, transfer.peer);
    let call = transfer.call;
    let bytes = call.block_bytes();
    if let Some(index) = transfer.index {
        if ring.tail.0.load(Acquire) <= index {
            return Ok(false);
        }
        let (theirs_ns, answer) = ring.answer(index);
        if let Some((code, count, datatype)) = answer {
            let theirs = Side { count, datatype };
            return Err(mismatch(context, transfer.peer, code, call, theirs));
        }
        let latest = call.ready(context.rank).or_later(Ready { ns: theirs_ns, rank: transfer.peer });
        transfer.done = Some(timing(start, Instant::now(), index + 1).after(latest));
        return Ok(true);
    }
    let index = ring.head.0.load(Acquire);
    if queued || index - ring.tail.0.load(Acquire) >= RING_SLOTS {
        return Ok(false);
    }
    let eager = bytes <= EAGER_BYTES;
    let mut place = call.send.place;
    let mut address = call.send.address;
    let same_process = context.members[transfer.peer as usize].pid == context.members[context.rank as usize].pid;
    if !eager && place.is_none() && !same_process {
        let failed = |error| Failure::system("cannot make a memory file for a buffer outside device memory", &error);
        let arena = Arena::create("ftest bounce", bytes).map_err(failed)?;
        // SAFETY: the file is as long as the buffer, which the caller promised.
        unsafe { std::ptr::copy_nonoverlapping(address, arena.base(), bytes) };
        address = arena.base();
        place = Some(Place {
            file_id: arena.file_id(),
            length: arena.length() as u64,
            offset: 0,
            fd: arena.fd(),
            valid: 1,
        });
        transfer.bounce = Some(arena);
    }
    let message = Message {
        count: call.count,
        datatype: call.datatype.code(),
        eager: u32::from(eager),
        place: place.unwrap_or_default(),
        address: address as u64,
        ready_ns: call.ready_ns,
    };
    // SAFETY: this rank is the ring's one sender and it has room; the buffer is the caller's promise.
    unsafe { ring.announce(index, message, call.send.address, if eager { bytes } else { 0 }) };
    segment.ring_bell(transfer.peer);
    transfer.index = Some(index);
    if eager {
        // It does not wait for its receiver.
        transfer.done = Some(timing(start, Instant::now(), index + 1).after(call.ready(context.rank)));
    }
    Ok(true)
}

/// Takes the next message from the peer if there is one.
fn take(
    segment: &Segment,
    mappings: &mut Mappings,
    context: &OpContext,
    transfer: &mut Transfer,
    start: Instant,
) -> Result<bool, Failure> {
    use std::sync::atomic::Ordering::Acquire;
    let ring = segment.ring(transfer.peer, context.rank);
    let index = ring.tail.0.load(Acquire);
    if ring.head.0.load(Acquire) <= index {
        return Ok(false);
    }
    let call = transfer.call;
    let bytes = call.block_bytes();
    let (message, payload) = ring.message(index);
    if ring.is_withdrawn(index) {
        return Ok(false);
    }
    let met = Instant::now();
    let theirs = Side { count: message.count, datatype: message.datatype };
    if let Some(code) = difference(call, theirs) {
        ring.take(index, Some(code), call);
        segment.ring_bell(transfer.peer);
        return Err(mismatch(context, transfer.peer, code, call, theirs));
    }
    let source = if message.eager == 1 {
        payload
    } else {
        let what = || format!("recv from rank {}", transfer.peer);
        let place = reach(mappings, context, &what, transfer.peer, &message.place, message.address, bytes);
        // The reason why a sender left is more useful than that its memory is gone.
        if place.is_err() && ring.is_withdrawn(index) {
            return Ok(false);
        }
        let place = place?.cast_const();
        // From here on nothing fails: the sender waits for us.
        if !ring.claim(index) {
            return Ok(false);
        }
        place
    };
    let target = call.receive.address;
    if bytes > 0 && source != target.cast_const() {
        let apart = (source as usize).abs_diff(target as usize) >= bytes;
        // SAFETY: the source holds the message (checked by `reach` and claimed, or in its slot); the destination is the caller's
        // promise. A send to self may overlap.
        unsafe {
            if apart {
                streaming::copy(source, target, bytes, bytes, streaming::FROM_MEMORY);
            } else {
                std::ptr::copy(source, target, bytes);
            }
        }
    }
    ring.take(index, None, call);
    segment.ring_bell(transfer.peer);
    transfer.index = Some(index);
    let latest = call.ready(context.rank).or_later(Ready { ns: message.ready_ns, rank: transfer.peer });
    transfer.done = Some(timing(start, met, index + 1).after(latest));
    Ok(true)
}

fn lost(segment: &Segment, context: &OpContext, waiting: &[&Transfer]) -> Option<Failure> {
    if let Some((code, detail)) = segment.status(context.rank) {
        return Some(Failure::new(code, detail).blaming(vec![context.rank]));
    }
    waiting.iter().find_map(|transfer| {
        let reason = segment.absence(transfer.peer)?;
        Some(context.lost(&describe(transfer), &[transfer.peer], Some(reason)))
    })
}

fn late(context: &OpContext, waiting: &[&Transfer]) -> Failure {
    let mut missing: Vec<u32> = waiting.iter().map(|transfer| transfer.peer).collect();
    missing.sort_unstable();
    missing.dedup();
    let what: Vec<String> = waiting.iter().take(8).map(|transfer| describe(transfer)).collect();
    let detail = format!(
        "rank {} waited {} ms for {}: {}",
        context.rank,
        context.timeout_ms(),
        name_ranks(&missing),
        what.join(", ")
    );
    Failure::new(ErrorCode::TimeoutWaitingForP2p, detail).blaming(missing)
}

fn describe(transfer: &Transfer) -> String {
    let way = if transfer.call.operation == Operation::Send { "to" } else { "from" };
    let call = transfer.call;
    format!("{} of {} {} {way} rank {}", call.operation, call.count, call.datatype, transfer.peer)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::datatype::Datatype;

    use super::*;
    use crate::call::Buffer;
    use crate::operation::stage::Stage;

    const BYTES: usize = 1 << 20;
    const SOON: Duration = Duration::from_millis(200);
    const LATER: Duration = Duration::from_secs(20);

    fn segment() -> Segment {
        Segment::found(Arena::create("transfers test", Segment::bytes(2)).unwrap(), 2)
    }

    /// Rank 0's send to rank 1, or rank 1's recv from rank 0.
    fn half(operation: Operation, buffer: &mut [u8]) -> Call {
        let mut call = Call::new(operation, buffer.len() as u64, Datatype::Uint8);
        let sends = operation == Operation::Send;
        call.peer = Some(u32::from(sends));
        let buffer = Buffer::host(buffer.as_mut_ptr());
        if sends {
            call.send = buffer
        } else {
            call.receive = buffer
        }
        call
    }

    #[test]
    fn a_message_is_not_taken_once_its_sender_gave_up() {
        use ErrorCode::{Aborted, Revoked, TimeoutWaitingForP2p};
        for given_up in [Aborted, Revoked, TimeoutWaitingForP2p] {
            let (segment, stage) = (segment(), Stage::new(2));
            let (mut sent, mut received) = (vec![1u8; BYTES], vec![0u8; BYTES]);
            let (send, receive) = (half(Operation::Send, &mut sent), half(Operation::Recv, &mut received));
            let timeout = if given_up == TimeoutWaitingForP2p { Duration::ZERO } else { LATER };
            if given_up != TimeoutWaitingForP2p {
                segment.lose(0, given_up, "rank 0 stopped");
            }
            let first = run(&segment, &mut Mappings::default(), &stage.context(0, timeout), &[send]).unwrap_err();
            assert_eq!(first.code, given_up, "{first}");
            segment.lose(0, first.code, &first.detail);
            sent.fill(7);
            let second = run(&segment, &mut Mappings::default(), &stage.context(1, SOON), &[receive]).unwrap_err();
            // A revoke is a rank's own: rank 1 waits for it.
            let expected = if given_up == Revoked { TimeoutWaitingForP2p } else { given_up };
            assert_eq!((second.code, &second.culprits[..]), (expected, &[protocol::ids::Rank(0)][..]), "{second}");
            assert!(received.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_sender_that_gives_up_waits_for_the_receiver_that_copies_its_message() {
        enum Receiver {
            Takes,
            Dies,
            GoesOn,
        }
        for receiver in [Receiver::Takes, Receiver::Dies, Receiver::GoesOn] {
            let (segment, stage) = (segment(), Stage::new(2));
            let mut sent = vec![1u8; BYTES];
            let send = half(Operation::Send, &mut sent);
            let mut transfer = Transfer { call: &send, peer: 1, index: None, done: None, bounce: None };
            let start = Instant::now();
            assert!(advance_send(&segment, &stage.context(0, LATER), &mut transfer, start, false).unwrap());
            let ring = segment.ring(0, 1);
            assert!(ring.claim(0), "it is announced and not withdrawn");
            std::thread::scope(|scope| {
                let timeout = if matches!(receiver, Receiver::GoesOn) { SOON } else { LATER };
                let (segment, stage, transfer) = (&segment, &stage, std::slice::from_ref(&transfer));
                scope.spawn(move || withdraw(segment, &stage.context(0, timeout), transfer));
                match receiver {
                    Receiver::Takes => {
                        ring.take(0, None, &send);
                        segment.ring_bell(0);
                    }
                    Receiver::Dies => segment.lose(1, ErrorCode::RankLost, "rank 1 is gone"),
                    Receiver::GoesOn => {}
                }
            });
            let waited = start.elapsed();
            assert!(waited < LATER && (waited >= SOON || !matches!(receiver, Receiver::GoesOn)));
        }
    }
}
