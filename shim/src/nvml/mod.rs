//! libnvidia-ml: what a monitor sees of the node's GPUs. Identity and capability come from the profile, memory from this
//! process; what only a sensor could tell (temperature, load, power draw, ECC counts) is refused, not invented.

pub(crate) mod abi;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod hardware;
pub(crate) mod link;
pub(crate) mod system;
pub(crate) mod usage;

/// True between the first init and the last shutdown.
pub(crate) fn is_initialized() -> bool {
    system::gpus().is_ok()
}
