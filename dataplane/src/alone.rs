//! Communicators in which this process is the only rank that exists (`FTEST_AS_RANK`), to examine one rank of a large job by
//! itself. It waits for nobody, and its calls are counted. Results are as if every other rank held the same data, so that
//! sizes and objects that ranks agree on make sense; as numbers they mean nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use protocol::datatype::Operation;
use protocol::device_report::AloneCalls;
use protocol::record::{BufferTransport, ErrorCode};

use crate::call::{Buffer, Call};
use crate::failure::Failure;
use crate::lock::Mutex;
use crate::operation::context::OpContext;
use crate::operation::one_sided::PeerWindow;
use crate::operation::timing::{Timing, timing};
use crate::transport::Transport;

/// What calls are counted by: communicator, operation and datatype.
type Key = (u64, &'static str, &'static str);

static CALLS: Mutex<BTreeMap<Key, AloneCalls>> = Mutex::new(BTreeMap::new());

/// The calls of this process, by communicator, operation and datatype.
pub fn calls() -> Vec<AloneCalls> {
    CALLS.lock().values().cloned().collect()
}

/// Counts a call of `rank` of `size` ranks.
pub(crate) fn note(communicator: u64, rank: u32, size: u32, call: &Call) {
    let (operation, datatype) = (call.operation.name(), call.datatype.name());
    let mut calls = CALLS.lock();
    let counted = calls.entry((communicator, operation, datatype)).or_insert_with(|| AloneCalls {
        communicator,
        rank,
        size,
        operation: operation.to_owned(),
        datatype: datatype.to_owned(),
        calls: 0,
        bytes: 0,
    });
    counted.calls += 1;
    counted.bytes += call.block_bytes() as u64;
}

/// The calls of one group. Broadcasts from several roots form an all_gather, as frameworks write one: the others would send
/// the same as this rank.
pub fn grouped(rank: u32, calls: &[Call]) -> Vec<Call> {
    let own = |call: &Call| {
        let is_alike = |other: &&Call| {
            (other.operation, other.root, other.count, other.datatype)
                == (Operation::Broadcast, Some(rank), call.count, call.datatype)
        };
        calls.iter().find(is_alike).filter(|_| call.operation == Operation::Broadcast).map(|other| other.send)
    };
    calls
        .iter()
        .map(|call| match own(call) {
            Some(send) => Call { send, root: Some(rank), ..*call },
            None => *call,
        })
        .collect()
}

/// The transport when the other ranks do not exist.
#[derive(Default)]
pub(crate) struct Alone {
    windows: AtomicU64,
}

impl Transport for Alone {
    fn kind(&self) -> BufferTransport {
        BufferTransport::Control
    }

    fn collective(&self, context: &OpContext, call: &Call) -> Result<Timing, Failure> {
        let start = Instant::now();
        // SAFETY: the caller promises buffers of the call's sizes while it runs.
        unsafe { fill(context.rank, context.size, call) };
        Ok(timing(start, start, 0).after(call.ready(context.rank)))
    }

    fn transfers(&self, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        let now = Instant::now();
        Ok(calls.iter().map(|call| timing(now, now, 0).after(call.ready(context.rank))).collect())
    }

    fn one_sided(&self, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        let now = Instant::now();
        Ok(calls.iter().map(|call| timing(now, now, 0).after(call.ready(context.rank))).collect())
    }

    fn register_window(&self, _buffer: Buffer, _bytes: u64) -> Result<u64, Failure> {
        Ok(self.windows.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn deregister_window(&self, _number: u64) {}

    fn peer_window(&self, _context: &OpContext, _number: u64, _peer: u32) -> Result<Option<PeerWindow>, Failure> {
        Ok(None)
    }

    fn lose(&self, _rank: u32, _code: ErrorCode, _detail: &str) {}

    fn fail(&self, _context: &OpContext, _code: ErrorCode, _detail: &str) {}

    fn stop(&self, _context: &OpContext, _code: ErrorCode, _detail: &str, _idle: bool) {}
}

/// # Safety
/// The buffers have the call's sizes.
unsafe fn fill(rank: u32, size: u32, call: &Call) {
    let block = call.block_bytes();
    let (send, receive) = (call.send.address.cast_const(), call.receive.address);
    let at_root = call.root.is_none_or(|root| root == rank);
    // SAFETY: offsets below the sizes that `Call::send_bytes` and `Call::receive_bytes` give; ranges may overlap.
    unsafe {
        match call.operation {
            Operation::AllReduce => std::ptr::copy(send, receive, block),
            Operation::Reduce | Operation::Broadcast if at_root => std::ptr::copy(send, receive, block),
            Operation::AllGather | Operation::Gather if at_root => {
                let blocks = size as usize;
                // If the call is in place, the rank's own block is among them.
                (0..blocks).map(|other| receive.add(other * block)).filter(|to| to.cast_const() != send).for_each(
                    |to| {
                        std::ptr::copy(send, to, block);
                    },
                );
            }
            Operation::ReduceScatter => std::ptr::copy(send.add(rank as usize * block), receive, block),
            Operation::Scatter if at_root => std::ptr::copy(send.add(rank as usize * block), receive, block),
            Operation::AllToAll => std::ptr::copy(send, receive, block * size as usize),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::datatype::{Datatype, ReductionOp};

    use super::*;
    use crate::operation::stage::Stage;

    #[test]
    fn every_other_rank_holds_what_this_one_does() {
        let stage = Stage::new(3);
        let run = |operation, root: Option<u32>, send: &[i32], room: usize| {
            let mut send = send.to_vec();
            let mut receive = vec![-1; room];
            let count =
                if operation == Operation::ReduceScatter || operation == Operation::AllToAll { 1 } else { send.len() };
            let mut call = Call::new(operation, count as u64, Datatype::Int32);
            call.reduction = Some(ReductionOp::Sum);
            call.root = root;
            call.send = Buffer::host(send.as_mut_ptr().cast());
            call.receive = Buffer::host(receive.as_mut_ptr().cast());
            Alone::default().collective(&stage.context(1, Duration::from_secs(1)), &call).unwrap();
            receive
        };
        assert_eq!(run(Operation::AllReduce, None, &[4, 5], 2), [4, 5]);
        assert_eq!(run(Operation::AllGather, None, &[7], 3), [7, 7, 7]);
        assert_eq!(run(Operation::ReduceScatter, None, &[1, 2, 3], 1), [2]);
        assert_eq!(run(Operation::AllToAll, None, &[1, 2, 3], 3), [1, 2, 3]);
        assert_eq!(run(Operation::Reduce, Some(1), &[9], 1), [9]);
        assert_eq!(run(Operation::Reduce, Some(0), &[9], 1), [-1], "only the root gets a result");
        assert_eq!(run(Operation::Broadcast, Some(0), &[9], 1), [-1], "what rank 0 has is not known");
    }

    #[test]
    fn broadcasts_of_a_group_are_an_all_gather() {
        let (mut own, mut results) = ([6_i32], [0_i32; 3]);
        let calls: Vec<Call> = (0..3)
            .map(|root| {
                let mut call = Call::new(Operation::Broadcast, 1, Datatype::Int32);
                call.root = Some(root);
                call.send = Buffer::host(own.as_mut_ptr().cast());
                call.receive = Buffer::host((&raw mut results[root as usize]).cast());
                call
            })
            .collect();
        let stage = Stage::new(3);
        for call in grouped(1, &calls) {
            Alone::default().collective(&stage.context(1, Duration::from_secs(1)), &call).unwrap();
        }
        assert_eq!(results, [6; 3]);
        assert_eq!(grouped(1, &calls[..1])[0].root, Some(0), "a broadcast by itself stays one");
    }

    #[test]
    fn calls_are_counted_by_communicator_operation_and_datatype() {
        for count in [4, 6] {
            note(77, 1, 8, &Call::new(Operation::AllReduce, count, Datatype::Float16));
        }
        note(77, 1, 8, &Call::new(Operation::AllGather, 3, Datatype::Float16));
        let counted: Vec<AloneCalls> = calls().into_iter().filter(|calls| calls.communicator == 77).collect();
        let all_reduce = counted.iter().find(|calls| calls.operation == "all_reduce").unwrap();
        assert_eq!((counted.len(), all_reduce.calls, all_reduce.bytes, all_reduce.size), (2, 2, 20, 8));
    }
}
