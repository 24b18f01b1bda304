//! NVML's return codes and their sentences.

use std::ffi::{CStr, c_char, c_int};

use abi::argument::Null;

/// A code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NvmlError(u32);

/// The result of a body.
pub(crate) type NvmlResult<T = ()> = Result<T, NvmlError>;

impl NvmlError {
    pub(crate) const UNINITIALIZED: Self = Self(1);
    pub(crate) const INVALID_ARGUMENT: Self = Self(2);
    pub(crate) const NOT_SUPPORTED: Self = Self(3);
    pub(crate) const NO_PERMISSION: Self = Self(4);
    pub(crate) const NOT_FOUND: Self = Self(6);
    pub(crate) const INSUFFICIENT_SIZE: Self = Self(7);
    pub(crate) const TIMEOUT: Self = Self(10);
    pub(crate) const GPU_IS_LOST: Self = Self(15);
    pub(crate) const ARGUMENT_VERSION_MISMATCH: Self = Self(25);
    pub(crate) const UNKNOWN: Self = Self(999);
}

impl From<NvmlError> for u32 {
    fn from(error: NvmlError) -> Self {
        error.0
    }
}

impl From<Null> for NvmlError {
    fn from(_: Null) -> Self {
        Self::INVALID_ARGUMENT
    }
}

/// The message for a code.
#[doc(alias = "nvmlErrorString")]
pub(crate) fn string(code: c_int) -> *const c_char {
    let text: &CStr = match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"GPU access blocked by the operating system",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        25 => c"Argument version mismatch",
        26 => c"Deprecated",
        27 => c"System is not in ready state",
        28 => c"No GPUs were found",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}
