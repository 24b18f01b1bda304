//! What libcudart adds to the guard: it initializes CUDA by itself, and keeps the last error.

use abi::library::Library;

use super::error;
use crate::boundary::guard::{self, Rules};
use crate::compute;
use crate::device;
use crate::device::state::{context, version};

/// `cudaErrorInsufficientDriver`
const INSUFFICIENT_DRIVER: u32 = 35;

pub(crate) const RULES: Rules = Rules {
    arrive,
    admit,
    settle: device::current_alive,
    failed: error::note,
    ..Rules::for_library(Library::CudaRuntime)
};

fn arrive() -> Result<(), u32> {
    guard::outside_host_function()?;
    compute::before_call();
    Ok(())
}

fn admit(_name: &str) -> Result<(), u32> {
    context::initialize();
    if version::is_driver_too_old() { Err(INSUFFICIENT_DRIVER) } else { Ok(()) }
}
