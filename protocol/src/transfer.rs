//! What a program gives the two ends of a send and recv that NCCL does not pass on: the tag, and the order of elements in memory.

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::site::CallSite;

/// One end of a send and recv in a PyTorch process group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The rank that is this end, by its global number.
    pub rank: Rank,
    /// From where to where, and which.
    pub route: Route,
    /// Whether this is the end that sends.
    pub is_send: bool,
    /// The tag; PyTorch drops it with NCCL.
    pub tag: i64,
    /// The sizes of the tensor and its strides, in elements.
    pub shape: Vec<u64>,
    /// In memory.
    pub strides: Vec<u64>,
    /// Where the program makes the call.
    pub site: Option<CallSite>,
}

/// From where to where, and which transfer of these it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route {
    /// The name of the process group, which is the same on all its ranks.
    pub group: String,
    /// The rank in the group that sends.
    pub source: u32,
    /// The rank in the group that receives.
    pub destination: u32,
    /// Whether it is in a batch (`batch_isend_irecv`), which may have a communicator of its own.
    pub is_batched: bool,
    /// How many came before on this route, whether or not they were noted.
    pub earlier: u64,
}

/// The most ends that a process notes.
pub const MOST: usize = 1000;
