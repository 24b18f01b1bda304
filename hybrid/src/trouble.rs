//! libcuda's result codes that are returned here, and what is printed on stderr.
//! <https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html>

use std::io::Write;

/// What a body returns: an error is a `CUresult`.
pub(crate) type CudaResult<T = ()> = Result<T, u32>;

/// `CUDA_ERROR_INVALID_VALUE`.
pub(crate) const INVALID_VALUE: u32 = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`.
pub(crate) const NOT_INITIALIZED: u32 = 3;
/// `CUDA_ERROR_STUB_LIBRARY`: there is no driver behind this library.
pub(crate) const STUB_LIBRARY: u32 = 34;
/// `CUDA_ERROR_NO_DEVICE`.
pub(crate) const NO_DEVICE: u32 = 100;
/// `CUDA_ERROR_INVALID_DEVICE`.
pub(crate) const INVALID_DEVICE: u32 = 101;
/// `CUDA_ERROR_INVALID_CONTEXT`.
pub(crate) const INVALID_CONTEXT: u32 = 201;
/// `CUDA_ERROR_NOT_FOUND`.
pub(crate) const NOT_FOUND: u32 = 500;
/// `CUDA_ERROR_NOT_SUPPORTED`.
pub(crate) const NOT_SUPPORTED: u32 = 801;
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`.
pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
/// `CUDA_ERROR_UNKNOWN`.
pub(crate) const UNKNOWN: u32 = 999;

/// The real library's answer.
pub(crate) fn check(code: u32) -> CudaResult {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Prints what the program may never ask for, in one piece, because other processes write to the same stream.
pub(crate) fn say(detail: &str) {
    let _ = std::io::stderr().write_all(format!("fakegpu: hybrid: {detail}\n").as_bytes());
}
