//! libnvidia-ml: what a monitor sees of the node's GPUs. Identity and capability come from the profile, memory from this
//! process; what only a sensor could know (temperature, load, power draw, ECC counts) is refused, not invented.

pub(crate) mod abi;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod hardware;
pub(crate) mod link;
pub(crate) mod system;
pub(crate) mod usage;

use crate::boundary::guard::Rules;
use crate::boundary::library::Library;

/// What it adds to the guard: what GPUs do not have is answered between the first init and the last shutdown.
pub(crate) const RULES: Rules = Rules { is_initialized: || system::gpus().is_ok(), ..Rules::of(Library::Nvml) };
