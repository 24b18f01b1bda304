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
        nvJitLinkAddData nvJitLinkAddFile nvJitLinkComplete nvJitLinkCreate nvJitLinkDestroy nvJitLinkGetErrorLog
        nvJitLinkGetErrorLogSize nvJitLinkGetInfoLog nvJitLinkGetInfoLogSize nvJitLinkGetLinkedCubin
        nvJitLinkGetLinkedCubinSize nvJitLinkGetLinkedPtx nvJitLinkGetLinkedPtxSize
    }
}

fn version(major: Out<c_uint>, minor: Out<c_uint>) -> Answer {
    let toolkit = release::current().toolkit;
    major.set(toolkit.0 as c_uint).and_then(|()| minor.set(toolkit.1 as c_uint)).map_err(REFUSALS.null())
}
