//! The gradient that comes back to a tensor after an all_reduce without a derivative changed its numbers.

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::site::CallSite;

/// The gradient of a tensor whose numbers an all_reduce replaced while autograd kept the graph of the old ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstream {
    /// The rank.
    pub rank: Rank,
    /// The ranks of the all_reduce, sorted.
    pub ranks: Vec<Rank>,
    /// Where the program makes the all_reduce.
    pub site: Option<CallSite>,
    /// How many such calls of this process came before.
    pub earlier: u64,
    /// A hash of the gradient.
    pub gradient: u64,
}

/// The most that a process notes.
pub const MOST: u64 = 1000;
