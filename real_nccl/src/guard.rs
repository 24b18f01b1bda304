//! The guard around every C function.

use abi::guard::Guard;
use abi::nccl;
use abi::table::Status;

use crate::trouble;

/// NCCL's: no panic leaves it, and what the books cannot follow is refused.
pub(crate) struct Forwarding;

impl Guard for Forwarding {
    fn panicked(&self, name: &'static str) -> u32 {
        trouble::refuse(nccl::INTERNAL, &format!("{name}: a mistake in fakegpu"))
    }

    fn missing(&self, name: &'static str, _: Status) -> u32 {
        let detail = format!(
            "FAKEGPU_DIST_MODE=proxy: the books cannot follow {name}; FAKEGPU_DIST_MODE=passthrough runs it without books"
        );
        trouble::refuse(nccl::INVALID_USAGE, &detail)
    }
}
