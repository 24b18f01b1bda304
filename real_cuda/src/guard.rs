//! The guard around every C function, and how they are declared.

use abi::cuda::CudaError;
use abi::guard::Guard;
use abi::table::Status;

use crate::trouble;

/// libcuda's: no panic leaves it.
pub(crate) struct Driver;

impl Guard for Driver {
    fn panicked(&self, name: &'static str) -> u32 {
        trouble::say(&format!("{name}: a mistake in fakegpu"));
        CudaError::UNKNOWN.0
    }

    /// Functions from before CUDA 3.2, whose memory would not be in the books: their addresses have 32 bits.
    fn missing(&self, name: &'static str, _: Status) -> u32 {
        trouble::say(&format!("{name}: the interface of CUDA 3.1 is not supported; use {name}_v2"));
        CudaError::NOT_SUPPORTED.0
    }
}

/// C functions with bodies. Each is called from C, and the caller guarantees its pointers as NVIDIA's documentation requires.
macro_rules! exports {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $body:expr;)*) => {
        abi::functions! {
            guarded by $crate::guard::Driver;
            real {
                $(fn $name($($argument: $type),*) = {
                    let body: unsafe fn($($type),*) -> abi::cuda::CudaResult = $body;
                    body
                };)*
            }
        }
    };
}

pub(crate) use exports;
