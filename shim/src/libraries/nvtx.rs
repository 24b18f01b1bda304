//! libnvToolsExt: markers for a profiler. Without one attached, they do nothing by definition, so this is complete.

use std::ffi::{c_int, c_void};

use abi::argument::Text;

use crate::boundary::table::exports;

/// NVTX_NO_PUSH_POP_TRACKING: the result of push and pop while no tool is attached.
const NO_TOOL: c_int = -2;

exports! {
    library Nvtx;
    raw {
        fn nvtxMarkA(message: Text) = |_| ();
        fn nvtxMarkEx(attributes: *const c_void) = |_| ();
        fn nvtxRangePushA(message: Text) -> c_int = |_| NO_TOOL;
        fn nvtxRangePushEx(attributes: *const c_void) -> c_int = |_| NO_TOOL;
        fn nvtxRangePop() -> c_int = || NO_TOOL;
        fn nvtxRangeStartA(message: Text) -> u64 = |_| 0;
        fn nvtxRangeStartEx(attributes: *const c_void) -> u64 = |_| 0;
        fn nvtxRangeEnd(range: u64) = |_| ();
        fn nvtxNameCategoryA(category: u32, name: Text) = |_, _| ();
        fn nvtxNameOsThreadA(thread: u32, name: Text) = |_, _| ();
        fn nvtxDomainCreateA(name: Text) -> *mut c_void = |_| std::ptr::null_mut();
        fn nvtxDomainDestroy(domain: *mut c_void) = |_| ();
        fn nvtxDomainMarkEx(domain: *mut c_void, attributes: *const c_void) = |_, _| ();
        fn nvtxDomainRangePushEx(domain: *mut c_void, attributes: *const c_void) -> c_int = |_, _| NO_TOOL;
        fn nvtxDomainRangePop(domain: *mut c_void) -> c_int = |_| NO_TOOL;
    }
}
