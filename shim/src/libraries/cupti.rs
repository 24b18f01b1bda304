//! libcupti: version and texts are real. There are no hardware activities to record, so recording them is a stub.

use std::ffi::{CStr, c_char, c_int};

use abi::argument::Out;

use super::objects::Refusals;
use super::release;
use crate::boundary::table::exports;

/// CUPTI_ERROR_INVALID_PARAMETER.
const REFUSALS: Refusals = Refusals { handle: 1, value: 1 };

exports! {
    library Cupti;
    bare {
        fn cuptiGetVersion(version: Out<u32>) = |version| version.set(release::current().cupti).map_err(REFUSALS.null());
        fn cuptiGetResultString(result: c_int, out: Out<*const c_char>) = |result, out| out.set(text(result).as_ptr()).map_err(REFUSALS.null());
    }
    stub {
        cuptiActivityDisable cuptiActivityEnable cuptiActivityEnableCudaEventDeviceTimestamps
        cuptiActivityEnableDriverApi cuptiActivityEnableRuntimeApi cuptiActivityFlushAll cuptiActivityGetNextRecord
        cuptiActivityGetNumDroppedRecords cuptiActivityPopExternalCorrelationId cuptiActivityPushExternalCorrelationId
        cuptiActivityRegisterCallbacks cuptiActivityRegisterTimestampCallback cuptiActivitySetAttribute
        cuptiEnableCallback cuptiEnableDomain cuptiFinalize cuptiGetCallbackName cuptiSubscribe cuptiUnsubscribe
    }
}

fn text(result: c_int) -> &'static CStr {
    match result {
        0 => c"CUPTI_SUCCESS",
        1 => c"CUPTI_ERROR_INVALID_PARAMETER",
        2 => c"CUPTI_ERROR_INVALID_DEVICE",
        3 => c"CUPTI_ERROR_INVALID_CONTEXT",
        10 => c"CUPTI_ERROR_INVALID_OPERATION",
        12 => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        15 => c"CUPTI_ERROR_NOT_INITIALIZED",
        27 => c"CUPTI_ERROR_NOT_SUPPORTED",
        999 => c"CUPTI_ERROR_UNKNOWN",
        _ => c"CUPTI_ERROR",
    }
}
