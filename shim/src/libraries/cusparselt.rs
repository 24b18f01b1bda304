//! libcusparseLt: its version is real; structured-sparse products are stubs from the initialization on.

use std::ffi::c_int;

use abi::argument::Out;

use super::objects::{Answer, Refusals};
use super::release;
use crate::boundary::table::exports;

/// CUSPARSE_STATUS_NOT_INITIALIZED and CUSPARSE_STATUS_INVALID_VALUE.
const REFUSALS: Refusals = Refusals { handle: 1, value: 3 };

exports! {
    library CusparseLt;
    bare {
        fn cusparseLtGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    stub {
        cusparseLtDenseDescriptorInit cusparseLtDestroy cusparseLtInit cusparseLtMatDescriptorDestroy cusparseLtMatmul
        cusparseLtMatmulAlgGetAttribute cusparseLtMatmulAlgSelectionInit cusparseLtMatmulAlgSetAttribute
        cusparseLtMatmulDescSetAttribute cusparseLtMatmulDescriptorInit cusparseLtMatmulGetWorkspace
        cusparseLtMatmulPlanDestroy cusparseLtMatmulPlanInit cusparseLtMatmulSearch cusparseLtSpMMACompress2
        cusparseLtSpMMACompressedSize2 cusparseLtStructuredDescriptorInit
    }
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cusparselt.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}
