//! The device report.

pub(crate) mod counters;
pub(crate) mod write;
