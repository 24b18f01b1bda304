//! What libcuda adds to the guard: no function works before `cuInit`.

use abi::cuda::CudaError;
use abi::library::Library;

use crate::boundary::guard::{self, Rules};
use crate::device;
use crate::device::state::context;

pub(crate) const RULES: Rules = Rules {
    arrive: guard::outside_host_function,
    admit,
    settle: device::current_alive,
    ..Rules::for_library(Library::CudaDriver)
};

fn admit(name: &str) -> Result<(), u32> {
    if context::is_initialized() || name == "cuInit" { Ok(()) } else { Err(CudaError::NOT_INITIALIZED.0) }
}
