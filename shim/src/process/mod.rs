//! The process: its rank, its forks, its end, the calls between its libraries, and its Python.

pub(crate) mod at_exit;
pub(crate) mod delay;
pub(crate) mod fork;
pub(crate) mod program_clock;
pub(crate) mod python;
pub(crate) mod slots;
pub(crate) mod time_module;

pub(crate) use dataplane::process::rank;
