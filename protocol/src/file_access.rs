//! A file that a rank wrote or read, and where it was then among the collectives of its groups: what orders the accesses of ranks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::site::CallSite;

/// An access to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAccess {
    /// The rank.
    pub rank: Rank,
    /// The node that the launcher started it on, from 0.
    pub node: u32,
    /// The line of the program.
    pub site: Option<CallSite>,
    /// What was noted about it.
    pub noted: Noted,
}

/// What is noted in Python about an access to a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// The path, without links: from FTEST_SCRATCH or the working directory if it is below, else absolute.
    pub path: String,
    /// The function that accessed it: `torch.save`.
    pub function: String,
    /// Whether the file was written.
    pub writes: bool,
    /// How many collectives the rank had issued when it began, by the name of the process group.
    pub began: BTreeMap<String, u64>,
    /// The same for when it ended.
    pub ended: BTreeMap<String, u64>,
    /// Whether the rank had waited after its last collective, in a way that may order it after another rank: it slept, received,
    /// or asked the store.
    pub has_waited: bool,
    /// How many steps the optimizer had made.
    pub steps: u64,
    /// How often the launcher had restarted the ranks.
    pub attempt: u32,
}
