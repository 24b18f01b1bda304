//! The process: its rank, its forks and its end.

pub(crate) mod at_exit;
pub(crate) mod delay;
pub(crate) mod fork;

pub(crate) use dataplane::process::rank;
