//! A use of something that ftest does not implement.

use serde::{Deserialize, Serialize};

/// A use of something we do not implement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Gap {
    /// `libcudart`, `libnccl`, ...
    pub library: String,
    /// The function or operation.
    pub name: String,
    /// What distinguishes uses of one name: a kernel, a datatype. Empty if nothing does.
    pub detail: String,
    /// How often.
    pub count: u64,
    /// Whose, where known.
    pub rank: Option<u32>,
}

impl Gap {
    /// The detail for a function that does not exist at all: the loader did not find it.
    pub const NO_FUNCTION: &str = "undefined symbol";
    /// The detail for a library that does not exist at all.
    pub const NO_LIBRARY: &str = "no such library";
}
