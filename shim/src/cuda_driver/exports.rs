//! The table of libcuda.

use std::ffi::c_uint;

use crate::boundary::exports::exports;
use crate::device::error::{CudaError, CudaResult};

exports! {
    library CudaDriver;
    real {
        fn cuInit(flags: c_uint) = init;
    }
}

fn init(flags: c_uint) -> CudaResult {
    if flags != 0 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}
