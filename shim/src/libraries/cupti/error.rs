//! CUPTI's result codes and their texts (`CUptiResult`).

use std::ffi::CStr;

use crate::libraries::objects::Code;

pub(super) const INVALID_PARAMETER: Code = Code(1);
pub(super) const INVALID_OPERATION: Code = Code(7);
pub(super) const MAX_LIMIT_REACHED: Code = Code(12);
pub(super) const QUEUE_EMPTY: Code = Code(18);
pub(super) const INVALID_KIND: Code = Code(21);
pub(super) const NOT_SUPPORTED: Code = Code(27);
pub(super) const MULTIPLE_SUBSCRIBERS: Code = Code(39);

/// The text of a code.
pub(super) fn text(result: u32) -> &'static CStr {
    match result {
        0 => c"CUPTI_SUCCESS",
        1 => c"CUPTI_ERROR_INVALID_PARAMETER",
        2 => c"CUPTI_ERROR_INVALID_DEVICE",
        3 => c"CUPTI_ERROR_INVALID_CONTEXT",
        7 => c"CUPTI_ERROR_INVALID_OPERATION",
        12 => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        15 => c"CUPTI_ERROR_NOT_INITIALIZED",
        18 => c"CUPTI_ERROR_QUEUE_EMPTY",
        21 => c"CUPTI_ERROR_INVALID_KIND",
        27 => c"CUPTI_ERROR_NOT_SUPPORTED",
        39 => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        999 => c"CUPTI_ERROR_UNKNOWN",
        _ => c"CUPTI_ERROR",
    }
}
