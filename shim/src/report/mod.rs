//! The activity of this process: counted while it runs, written as the device report when it ends.

pub(crate) mod counters;
pub(crate) mod finding;
pub(crate) mod gaps;
pub(crate) mod journal;
pub(crate) mod left;
pub(crate) mod operations;
pub(crate) mod operators;
pub(crate) mod time;
pub(crate) mod unknown_reads;
mod write;

pub(crate) use write::used;
