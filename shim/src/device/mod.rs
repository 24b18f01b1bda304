//! The simulated GPU inside a process, in rooms of which each uses only those listed before it in ARCHITECTURE.md. Shared by
//! runtime, driver and NCCL.

pub(crate) mod calls;
pub(crate) mod graph;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod state;
pub(crate) mod work;

pub(crate) use state::device::{Device, all, current, get};
pub(crate) use state::failure::{answer_before_failure, current_alive};
