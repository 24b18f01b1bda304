//! The process: its rank, its forks, its end, and the calls between its libraries.

pub(crate) mod at_exit;
pub(crate) mod delay;
pub(crate) mod fork;
pub(crate) mod slots;

pub(crate) use dataplane::process::rank;
