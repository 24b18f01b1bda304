//! Which ranks an operation sends bytes between. A ring over the ranks in communicator order carries every collective that
//! FakeGPU has; gather and scatter, which it does not have, are transfers to and from the root.

use crate::datatype::Operation;
use crate::ids::Rank;

/// Bytes from one rank to another within one operation. Ranks are those of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Sender.
    pub src: Rank,
    /// Receiver.
    pub dst: Rank,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// The bytes that one rank hands over for an operation: `count` elements of `element` bytes, as NCCL counts them.
pub fn request_bytes(operation: Operation, size: u32, count: u64, element: u64) -> u64 {
    let bytes = count.saturating_mul(element);
    match operation {
        Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => bytes.saturating_mul(size.into()),
        Operation::AllReduce
        | Operation::Reduce
        | Operation::Broadcast
        | Operation::Gather
        | Operation::Scatter
        | Operation::Send
        | Operation::Recv
        | Operation::PutSignal => bytes,
        Operation::Barrier
        | Operation::Split
        | Operation::Shrink
        | Operation::Grow
        | Operation::Signal
        | Operation::WaitSignal => 0,
    }
}

/// The edges of a collective of `size` ranks whose ranks hand over `request` bytes each.
pub fn edges(operation: Operation, size: u32, root: Option<Rank>, request: u64) -> Vec<Edge> {
    if size < 2 {
        return Vec::new();
    }
    let ring =
        |bytes: u64| (0..size).map(|rank| Edge { src: Rank(rank), dst: Rank((rank + 1) % size), bytes }).collect();
    let root = root.unwrap_or_default();
    let others = || (0..size).map(Rank).filter(|rank| *rank != root);
    match operation {
        Operation::AllReduce => ring(request.saturating_mul(2)),
        Operation::Reduce
        | Operation::Broadcast
        | Operation::AllGather
        | Operation::ReduceScatter
        | Operation::AllToAll => ring(request),
        Operation::Gather => others().map(|rank| Edge { src: rank, dst: root, bytes: request }).collect(),
        Operation::Scatter => others().map(|rank| Edge { src: root, dst: rank, bytes: request }).collect(),
        Operation::Barrier
        | Operation::Send
        | Operation::Recv
        | Operation::Split
        | Operation::Shrink
        | Operation::Grow
        | Operation::PutSignal
        | Operation::Signal
        | Operation::WaitSignal => Vec::new(),
    }
}
