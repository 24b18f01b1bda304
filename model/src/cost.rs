//! Model v1: which bytes an operation puts on which edge, and how long an edge takes. FakeGPU's formulas, exact.
//!
//! The time of an operation is the sum over its edges. [`protocol::route`] says which edges it has, because ranks need that too.

use protocol::plan::FabricPlan;
pub use protocol::route::{Edge, edges, request_bytes};

/// Name of these rules in reports.
pub const MODEL: &str = "v1";

/// Modeled duration in whole picoseconds, so that sums do not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(u128);

impl Duration {
    /// From microseconds.
    pub fn from_us(us: f64) -> Self {
        Self((us * 1e6).round().max(0.0) as u128)
    }

    /// The time in microseconds.
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

/// Time of one edge: [`FabricPlan::edge_us`].
pub fn edge_time(fabric: &FabricPlan, bytes: u64) -> Duration {
    Duration::from_us(fabric.edge_us(bytes))
}

/// The part of the time of `bytes` that oversubscription adds.
pub fn contention_penalty(fabric: &FabricPlan, bytes: u64) -> Duration {
    Duration::from_us(8.0 * bytes as f64 / (1000.0 * fabric.bandwidth_gbps) * (fabric.oversubscription - 1.0).max(0.0))
}

/// Bytes over time in Gbit/s; 0 if there were no bytes and no time.
pub fn throughput_gbps(bytes: u64, time: Duration) -> f64 {
    if time.us() > 0.0 { 8.0 * bytes as f64 / (1000.0 * time.us()) } else { 0.0 }
}
