//! libnvJitLink: its version is real, linking is a stub.

use std::ffi::c_uint;

use super::objects::{Answer, Refusals};
use super::release;
use crate::boundary::args::Out;
use crate::boundary::table::exports;

/// NVJITLINK_ERROR_INVALID_INPUT.
const REFUSALS: Refusals = Refusals { handle: 3, value: 3 };

exports! {
    library NvJitLink;
    bare {
        fn nvJitLinkVersion(major: Out<c_uint>, minor: Out<c_uint>) = version;
    }
    stub {
        __nvJitLinkAPI __nvJitLinkAddData_13_0 __nvJitLinkAddData_13_1 __nvJitLinkAddData_13_2 __nvJitLinkAddData_13_3
        __nvJitLinkAddData_13_4 __nvJitLinkAddData_13_5 __nvJitLinkAddFile_13_0 __nvJitLinkAddFile_13_1
        __nvJitLinkAddFile_13_2 __nvJitLinkAddFile_13_3 __nvJitLinkAddFile_13_4 __nvJitLinkAddFile_13_5
        __nvJitLinkComplete_13_0 __nvJitLinkComplete_13_1 __nvJitLinkComplete_13_2 __nvJitLinkComplete_13_3
        __nvJitLinkComplete_13_4 __nvJitLinkComplete_13_5 __nvJitLinkCreate_13_0 __nvJitLinkCreate_13_1
        __nvJitLinkCreate_13_2 __nvJitLinkCreate_13_3 __nvJitLinkCreate_13_4 __nvJitLinkCreate_13_5
        __nvJitLinkDestroy_13_0 __nvJitLinkDestroy_13_1 __nvJitLinkDestroy_13_2 __nvJitLinkDestroy_13_3
        __nvJitLinkDestroy_13_4 __nvJitLinkDestroy_13_5 __nvJitLinkGetErrorLogSize_13_0 __nvJitLinkGetErrorLogSize_13_1
        __nvJitLinkGetErrorLogSize_13_2 __nvJitLinkGetErrorLogSize_13_3 __nvJitLinkGetErrorLogSize_13_4
        __nvJitLinkGetErrorLogSize_13_5 __nvJitLinkGetErrorLog_13_0 __nvJitLinkGetErrorLog_13_1
        __nvJitLinkGetErrorLog_13_2 __nvJitLinkGetErrorLog_13_3 __nvJitLinkGetErrorLog_13_4 __nvJitLinkGetErrorLog_13_5
        __nvJitLinkGetInfoLogSize_13_0 __nvJitLinkGetInfoLogSize_13_1 __nvJitLinkGetInfoLogSize_13_2
        __nvJitLinkGetInfoLogSize_13_3 __nvJitLinkGetInfoLogSize_13_4 __nvJitLinkGetInfoLogSize_13_5
        __nvJitLinkGetInfoLog_13_0 __nvJitLinkGetInfoLog_13_1 __nvJitLinkGetInfoLog_13_2 __nvJitLinkGetInfoLog_13_3
        __nvJitLinkGetInfoLog_13_4 __nvJitLinkGetInfoLog_13_5 __nvJitLinkGetLinkedCubinSize_13_0
        __nvJitLinkGetLinkedCubinSize_13_1 __nvJitLinkGetLinkedCubinSize_13_2 __nvJitLinkGetLinkedCubinSize_13_3
        __nvJitLinkGetLinkedCubinSize_13_4 __nvJitLinkGetLinkedCubinSize_13_5 __nvJitLinkGetLinkedCubin_13_0
        __nvJitLinkGetLinkedCubin_13_1 __nvJitLinkGetLinkedCubin_13_2 __nvJitLinkGetLinkedCubin_13_3
        __nvJitLinkGetLinkedCubin_13_4 __nvJitLinkGetLinkedCubin_13_5 __nvJitLinkGetLinkedLTOIRSize_13_0
        __nvJitLinkGetLinkedLTOIRSize_13_1 __nvJitLinkGetLinkedLTOIRSize_13_2 __nvJitLinkGetLinkedLTOIRSize_13_3
        __nvJitLinkGetLinkedLTOIRSize_13_4 __nvJitLinkGetLinkedLTOIRSize_13_5 __nvJitLinkGetLinkedLTOIR_13_0
        __nvJitLinkGetLinkedLTOIR_13_1 __nvJitLinkGetLinkedLTOIR_13_2 __nvJitLinkGetLinkedLTOIR_13_3
        __nvJitLinkGetLinkedLTOIR_13_4 __nvJitLinkGetLinkedLTOIR_13_5 __nvJitLinkGetLinkedPtxSize_13_0
        __nvJitLinkGetLinkedPtxSize_13_1 __nvJitLinkGetLinkedPtxSize_13_2 __nvJitLinkGetLinkedPtxSize_13_3
        __nvJitLinkGetLinkedPtxSize_13_4 __nvJitLinkGetLinkedPtxSize_13_5 __nvJitLinkGetLinkedPtx_13_0
        __nvJitLinkGetLinkedPtx_13_1 __nvJitLinkGetLinkedPtx_13_2 __nvJitLinkGetLinkedPtx_13_3
        __nvJitLinkGetLinkedPtx_13_4 __nvJitLinkGetLinkedPtx_13_5 nvJitLinkAddData nvJitLinkAddFile nvJitLinkComplete
        nvJitLinkCreate nvJitLinkDestroy nvJitLinkGetErrorLog nvJitLinkGetErrorLogSize nvJitLinkGetInfoLog
        nvJitLinkGetInfoLogSize nvJitLinkGetLinkedCubin nvJitLinkGetLinkedCubinSize nvJitLinkGetLinkedLTOIR
        nvJitLinkGetLinkedLTOIRSize nvJitLinkGetLinkedPtx nvJitLinkGetLinkedPtxSize
    }
}

fn version(major: Out<c_uint>, minor: Out<c_uint>) -> Answer {
    let toolkit = release::current().toolkit;
    major.set(toolkit.0 as c_uint).and_then(|()| minor.set(toolkit.1 as c_uint)).map_err(REFUSALS.null())
}
