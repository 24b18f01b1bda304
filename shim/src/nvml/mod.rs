//! libnvidia-ml: what a monitor sees of the node's GPUs. Identity and capability come from the profile, memory from this
//! process; what only a sensor could tell (temperature, load, power draw, ECC counts) is refused, not invented.

mod abi;
mod device;
mod error;
pub(crate) mod exports;
mod hardware;
mod link;
mod system;
mod usage;

/// True between the first init and the last shutdown.
pub(crate) fn is_initialized() -> bool {
    system::gpus().is_ok()
}
