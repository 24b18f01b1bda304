//! The process: its forks and its end.

pub(crate) mod at_exit;
pub(crate) mod fork;
