//! What code has around it while it runs: the state that it shares with the machine, the functions that it calls, and the
//! operations for which threads meet.

pub(crate) mod helper;
pub(crate) mod home;
pub(crate) mod matrix;
pub(crate) mod shared_memory;
pub(crate) mod shuffle;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod warpgroup;
