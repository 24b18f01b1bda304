//! Which samples a rank takes in one pass over a dataset, by the numbers from which its sampler computes them.

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::site::CallSite;

/// A pass over a dataset with a DistributedSampler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// The rank.
    pub rank: Rank,
    /// How many ranks the program has.
    pub world_size: u32,
    /// Where the program begins the pass.
    pub site: Option<CallSite>,
    /// How many passes of this process began there before.
    pub earlier: u64,
    /// How many ranks the sampler shares the dataset between (`num_replicas`).
    pub replicas: u32,
    /// Which of them it thinks it is (`rank`).
    pub replica: u32,
    /// The number of samples in the dataset.
    pub length: u64,
    /// The seed and the epoch of the order; `None` without `shuffle`.
    pub order: Option<[i64; 2]>,
    /// Whether the samples that do not divide evenly are left out.
    pub drops_last: bool,
}
