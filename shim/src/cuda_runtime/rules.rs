//! What libcudart adds to the guard: it initializes CUDA by itself, and keeps the last error.

use abi::library::Library;

use super::error;
use crate::boundary::guard::{self, Rules};
use crate::compute;
use crate::device;
use crate::device::state::{context, version};

/// `cudaErrorInsufficientDriver`
const INSUFFICIENT_DRIVER: u32 = 35;

/// How the names of functions begin that work in a context: a thread that has none gets the primary one of its device ("Initialization"
/// in the CUDA C++ Programming Guide), and may call the driver from then on. Other functions see to it themselves.
const WORK_IN_A_CONTEXT: [&str; 3] = ["cudaEvent", "cudaMem", "cudaStream"];

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

fn admit(name: &str) -> Result<(), u32> {
    context::initialize();
    if version::is_driver_too_old() {
        return Err(INSUFFICIENT_DRIVER);
    }
    if context::current() == 0 && WORK_IN_A_CONTEXT.iter().any(|prefix| name.starts_with(prefix)) {
        // Without a device the function itself answers.
        let _ = context::enter();
    }
    Ok(())
}
