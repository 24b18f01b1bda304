//! Model v1: which bytes an operation puts on which edge, and how long an edge takes. FakeGPU's formulas, exact.
//!
//! A ring over the ranks in communicator order carries every collective that FakeGPU knows; the time of an operation is
//! the sum over its edges. Gather and scatter, which it does not know, are transfers to and from the root.

use protocol::datatype::Operation;
use protocol::ids::Rank;
use protocol::plan::FabricPlan;

/// Name of these rules in reports.
pub const MODEL: &str = "v1";

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

/// What one rank hands over for an operation, bytes: `count` elements of `element` bytes as NCCL counts them.
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
        | Operation::Recv => bytes,
        Operation::Barrier | Operation::Split | Operation::Shrink | Operation::Grow => 0,
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
        | Operation::Grow => Vec::new(),
    }
}

/// Modelled duration in whole picoseconds, so that sums do not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(u128);

impl Duration {
    /// From microseconds.
    pub fn from_us(us: f64) -> Self {
        Self((us * 1e6).round().max(0.0) as u128)
    }

    /// In microseconds.
    pub fn us(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl std::ops::Add for Duration {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |sum, next| sum + next)
    }
}

/// Time of one edge: latency, then its bytes at the oversubscribed bandwidth.
pub fn edge_time(fabric: &FabricPlan, bytes: u64) -> Duration {
    Duration::from_us(
        fabric.latency_us + 8.0 * bytes as f64 * fabric.oversubscription / (1000.0 * fabric.bandwidth_gbps),
    )
}

/// The part of the time of `bytes` that oversubscription adds.
pub fn contention_penalty(fabric: &FabricPlan, bytes: u64) -> Duration {
    Duration::from_us(8.0 * bytes as f64 / (1000.0 * fabric.bandwidth_gbps) * (fabric.oversubscription - 1.0).max(0.0))
}

/// Bytes over time in Gbit/s; 0 when nothing took no time.
pub fn throughput_gbps(bytes: u64, time: Duration) -> f64 {
    if time.us() > 0.0 { 8.0 * bytes as f64 / (1000.0 * time.us()) } else { 0.0 }
}
