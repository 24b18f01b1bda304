//! Buffers that overlap where NCCL does not allow it: a call works in place in one way only, and calls of one group have no order,
//! so that none may write what another one reads or writes.

use std::ops::Range;

use dataplane::call::Call;
use protocol::datatype::Operation;
use protocol::finding::FindingKind;
use protocol::ids::CommunicatorId;

use crate::report::finding;
use crate::sanitizer::source_line;

/// A call of a group, as made by one rank of a communicator.
pub(super) struct Made<'a> {
    pub(super) call: &'a Call,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) communicator: CommunicatorId,
}

/// What a call does with a range of memory.
#[derive(Clone, Debug)]
struct Side {
    bytes: Range<usize>,
    writes: bool,
    /// The number of the call in its group.
    call: usize,
}

/// Reports buffers that overlap in the calls of one group.
pub(super) fn judge(group: &[Made<'_>]) {
    for made in group {
        if let Some(sentence) = in_one_call(made) {
            report(made, sentence);
        }
    }
    if group.len() > 1
        && let Some((earlier, later, sentence)) = between_calls(group)
    {
        report(&group[later], sentence + &source_line::called(group[earlier].call.site));
    }
}

fn report(made: &Made<'_>, sentence: String) {
    let Made { call, communicator, .. } = made;
    finding::record_call(FindingKind::BufferOverlap, call.operation.name(), *communicator, sentence, call.site);
}

impl Made<'_> {
    fn sent(&self) -> Range<usize> {
        let start = self.call.send.address as usize;
        start..start + self.call.send_bytes(self.rank, self.size)
    }

    fn received(&self) -> Range<usize> {
        let start = self.call.receive.address as usize;
        start..start + self.call.receive_bytes(self.rank, self.size)
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// What is wrong with a call whose own buffers overlap, if they do where NCCL does not work in place.
fn in_one_call(made: &Made<'_>) -> Option<String> {
    let (sent, received) = (made.sent(), made.received());
    if sent.is_empty() || received.is_empty() || !overlap(&sent, &received) {
        return None;
    }
    let part = made.rank as usize * made.call.block_bytes();
    let rank = made.rank;
    let (is_in_place, rule) = match made.call.operation {
        Operation::AllGather | Operation::Gather => (
            sent.start == received.start + part,
            format!("rank {rank} sends from byte {part} of the buffer into which it receives"),
        ),
        Operation::ReduceScatter | Operation::Scatter => (
            received.start == sent.start + part,
            format!("rank {rank} receives into byte {part} of the buffer from which it sends"),
        ),
        Operation::AllToAll => (false, String::new()),
        _ => (sent.start == received.start, "the two buffers are the same".to_owned()),
    };
    let place = if sent.start >= received.start {
        format!("it sends from byte {} of the buffer into which it receives", sent.start - received.start)
    } else {
        format!("it receives into byte {} of the buffer from which it sends", received.start - sent.start)
    };
    let allowed = if rule.is_empty() {
        "does not do this in place".to_owned()
    } else {
        format!("works in place only where {rule}")
    };
    (!is_in_place).then(|| format!("the buffers of {} overlap: {place}, and NCCL {allowed}", made.call.describe()))
}

/// The first two calls that need an order, with a sentence about them.
fn between_calls(group: &[Made<'_>]) -> Option<(usize, usize, String)> {
    let mut sides: Vec<Side> = Vec::with_capacity(2 * group.len());
    for (call, made) in group.iter().enumerate() {
        for (bytes, writes) in [(made.sent(), false), (made.received(), true)] {
            if !bytes.is_empty() {
                sides.push(Side { bytes, writes, call });
            }
        }
    }
    sides.sort_by_key(|side| side.bytes.start);
    let mut first: Option<(&Side, &Side)> = None;
    let mut open: Vec<&Side> = Vec::new();
    for side in &sides {
        open.retain(|other| other.bytes.end > side.bytes.start);
        for other in &open {
            let (earlier, later) = if other.call < side.call { (*other, side) } else { (side, *other) };
            let is_conflict = earlier.call != later.call && (earlier.writes || later.writes);
            let is_first = first.is_none_or(|(one, two)| (later.call, earlier.call) < (two.call, one.call));
            if is_conflict && is_first && !is_to_itself(group, earlier, later) {
                first = Some((earlier, later));
            }
        }
        open.push(side);
    }
    let (earlier, later) = first?;
    let (from, to) = (earlier.bytes.start.max(later.bytes.start), earlier.bytes.end.min(later.bytes.end));
    let does = |side: &Side| if side.writes { "writes" } else { "reads" };
    let call = |side: &Side| group[side.call].call.describe();
    let sentence = format!(
        "calls of one group have no order: {} {} {} bytes that {} {}",
        call(later),
        does(later),
        to - from,
        call(earlier),
        does(earlier),
    );
    Some((earlier.call, later.call, sentence))
}

/// A rank that sends to itself from where it receives: nothing moves.
fn is_to_itself(group: &[Made<'_>], one: &Side, other: &Side) -> bool {
    let is_own = |side: &Side| {
        let made = &group[side.call];
        made.call.peer == Some(made.rank)
    };
    one.bytes == other.bytes && one.writes != other.writes && is_own(one) && is_own(other)
}

#[cfg(test)]
mod tests {
    use dataplane::call::Buffer;
    use protocol::datatype::{Datatype, ReductionOp};

    use super::*;

    /// A call of 4 float32 per block, which sends from and receives into these bytes of some memory.
    fn call(operation: Operation, send: usize, receive: usize) -> Call {
        let mut call = Call::new(operation, 4, Datatype::Float32);
        call.send = Buffer::host((0x1000 + send) as *mut u8);
        call.receive = Buffer::host((0x1000 + receive) as *mut u8);
        call.reduction = Some(ReductionOp::Sum);
        call
    }

    fn with_peer(operation: Operation, address: usize, peer: u32) -> Call {
        Call { peer: Some(peer), reduction: None, ..call(operation, address, address) }
    }

    fn made(call: &Call) -> Made<'_> {
        Made { call, rank: 1, size: 3, communicator: CommunicatorId(1) }
    }

    #[test]
    fn a_call_works_in_place_in_one_way() {
        use Operation::{AllGather, AllReduce, AllToAll, Broadcast, Gather, ReduceScatter, Scatter};
        let is_wrong = |call: Call| in_one_call(&made(&call)).is_some();
        let with_root = |operation, send, receive| Call { root: Some(1), ..call(operation, send, receive) };
        // Rank 1's part of three blocks of 16 bytes is at byte 16.
        for right in [
            call(AllReduce, 0, 0),
            call(AllReduce, 0, 16),
            call(AllGather, 16, 0),
            call(AllGather, 48, 0),
            call(ReduceScatter, 0, 16),
            call(ReduceScatter, 0, 48),
            call(AllToAll, 0, 48),
            with_root(Broadcast, 8, 8),
            with_root(Gather, 16, 0),
            with_root(Scatter, 0, 16),
            // Not the root: it sends nothing.
            Call { root: Some(0), ..call(Broadcast, 8, 0) },
        ] {
            assert!(!is_wrong(right), "{right:?}");
        }
        for wrong in [
            call(AllReduce, 0, 4),
            call(AllReduce, 4, 0),
            call(AllGather, 0, 0),
            call(AllGather, 32, 0),
            call(ReduceScatter, 0, 0),
            call(AllToAll, 0, 0),
            call(AllToAll, 0, 47),
            with_root(Broadcast, 8, 0),
            with_root(Scatter, 0, 0),
        ] {
            assert!(is_wrong(wrong), "{wrong:?}");
        }
        let sentence = in_one_call(&made(&call(AllGather, 0, 0))).unwrap();
        assert!(sentence.ends_with(
            "it sends from byte 0 of the buffer into which it receives, and NCCL works in place only where rank 1 sends from byte 16 \
             of the buffer into which it receives"
        ));
        let sentence = in_one_call(&made(&call(AllToAll, 0, 16))).unwrap();
        assert!(sentence.ends_with(
            "it receives into byte 16 of the buffer from which it sends, and NCCL does not do this in place"
        ));
    }

    #[test]
    fn calls_of_a_group_may_only_read_the_same() {
        use Operation::{AllReduce, Recv, Send};
        let first = |calls: &[Call]| {
            let group: Vec<Made<'_>> = calls.iter().map(made).collect();
            between_calls(&group).map(|(earlier, later, _)| (earlier, later))
        };
        assert_eq!(first(&[with_peer(Send, 0, 0), with_peer(Send, 0, 2), with_peer(Recv, 16, 0)]), None);
        assert_eq!(first(&[with_peer(Send, 0, 0), with_peer(Recv, 0, 0)]), Some((0, 1)), "an exchange in place");
        assert_eq!(first(&[with_peer(Send, 0, 1), with_peer(Recv, 0, 1)]), None, "to itself, in place");
        assert_eq!(first(&[with_peer(Send, 0, 1), with_peer(Recv, 4, 1)]), Some((0, 1)), "to itself, moved");
        assert_eq!(first(&[with_peer(Recv, 0, 0), with_peer(Recv, 12, 2)]), Some((0, 1)), "two outputs");
        assert_eq!(first(&[call(AllReduce, 0, 0), call(AllReduce, 16, 16)]), None);
        assert_eq!(first(&[call(AllReduce, 0, 32), call(AllReduce, 64, 64), call(AllReduce, 32, 80)]), Some((0, 2)));
        // A long buffer is still open when a later one begins.
        let long = Call { count: 100, ..call(AllReduce, 0, 0) };
        assert_eq!(first(&[long, call(AllReduce, 1000, 1000), call(AllReduce, 320, 1600)]), Some((0, 2)));
        let two = [with_peer(Send, 0, 0), with_peer(Recv, 0, 0)];
        let group: Vec<Made<'_>> = two.iter().map(made).collect();
        assert_eq!(
            between_calls(&group).unwrap().2,
            "calls of one group have no order: recv(count 4, float32, peer 0) writes 16 bytes that send(count 4, float32, peer 0) reads"
        );
    }
}
