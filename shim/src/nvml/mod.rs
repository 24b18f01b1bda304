//! libnvidia-ml: what a monitor sees of the node's GPUs. Identity and capabilities come from the profile, memory and load
//! from the processes of the machine, and sensor values from a model of both.

pub(crate) mod affinity;
pub(crate) mod board;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod field;
pub(crate) mod gpm;
pub(crate) mod hardware;
pub(crate) mod header;
pub(crate) mod health;
mod hybrid;
pub(crate) mod internal;
pub(crate) mod link;
mod model;
pub(crate) mod sensors;
pub(crate) mod system;
pub(crate) mod system_event;
pub(crate) mod usage;

use abi::library::Library;

use crate::boundary::guard::Rules;

/// What it adds to the guard: features that GPUs lack return NotSupported between the first init and the last shutdown, and so
/// does what is unknown of real GPUs.
pub(crate) const RULES: Rules =
    Rules { is_initialized: || system::gpus().is_ok(), admit, ..Rules::for_library(Library::Nvml) };

fn admit(name: &str) -> Result<(), u32> {
    if hybrid::is_known(name) {
        return Ok(());
    }
    system::gpus().map_err(u32::from)?;
    Err(error::NvmlError::NOT_SUPPORTED.into())
}
