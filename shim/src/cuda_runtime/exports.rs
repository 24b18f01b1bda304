//! The table of libcudart.

use super::error;
use crate::boundary::exports::exports;

exports! {
    library CudaRuntime;
    raw {
        fn cudaGetLastError() -> u32 = error::get_last;
        fn cudaPeekAtLastError() -> u32 = error::peek;
    }
}
