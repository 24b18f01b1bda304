//! What the simulated NVML learns from `libfakegpu_cuda.so` in mode `hybrid`, so that both show the same GPUs.

use std::ffi::{c_char, c_int};

/// The function of `libfakegpu.so` that takes [`Facts`]; they live as long as the process.
pub const START: &str = "ftest_hybrid_nvml";
/// The function of `libfakegpu.so` that notes how many bytes this process holds of the GPU with an index: `fn(u32, u64)`.
pub const HOLD: &str = "ftest_hybrid_hold";

/// Functions that answer from what the program sees by CUDA.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Facts {
    /// The value of an environment variable at the program's first call; null if it had none.
    pub variable: unsafe extern "C" fn(*const c_char) -> *const c_char,
    /// Bytes of memory of the GPU with that index in this machine; 0 if unknown.
    pub total_memory: extern "C" fn(u32) -> u64,
    /// The version of CUDA that the real driver supports (1000 x major + 10 x minor); 0 if unknown.
    pub cuda_version: extern "C" fn() -> c_int,
}
