//! When a block comes back to PyTorch's CUDA caching allocator. Its deleter must stay PyTorch's: `recordStream` ignores a block with any
//! other, which is then handed out while a stream still uses it. But under its lock, the allocator tells the profiler of each
//! block that comes back, by a function of another library, and that call is redirected here.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use libc::dl_phdr_info;

use super::cxx::Device;
use super::symbols::Loaded;
use crate::process::slots::Library;
use crate::sanitizer::owner;

/// `c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device)`; the second is negative for a block that comes back.
type Report = unsafe extern "C-unwind" fn(*mut c_void, i64, usize, usize, Device);
const REPORT: &CStr = c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
/// Where the allocator is, and the function.
const ALLOCATORS: &CStr = c"libc10_cuda.so";
const PROFILERS: &CStr = c"libc10.so";

static THEIRS: OnceLock<Report> = OnceLock::new();

/// From now on, blocks that come back have no owner. False if the allocator's calls are not as expected.
pub(super) fn watch() -> bool {
    let Some(theirs) = Loaded::find(PROFILERS).and_then(|library| library.symbol(REPORT)) else { return false };
    // SAFETY: the mangled name says so.
    let _ = THEIRS.set(unsafe { std::mem::transmute::<*mut c_void, Report>(theirs) });
    let mut is_redirected = false;
    // SAFETY: the callback gets a pointer to `is_redirected`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(redirect), (&raw mut is_redirected).cast()) };
    is_redirected
}

unsafe extern "C" fn redirect(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: glibc passes a valid description, and `data` is the caller's.
    let (library, is_redirected) = unsafe { (Library::new(&*info), &mut *data.cast::<bool>()) };
    if !library.path().to_bytes().ends_with(ALLOCATORS.to_bytes()) {
        return 0;
    }
    for slot in library.slots(|called| called == REPORT) {
        // SAFETY: the slot of a function of this signature.
        *is_redirected |= unsafe { library.write(slot, report as *mut c_void) };
    }
    1
}

unsafe extern "C-unwind" fn report(block: *mut c_void, bytes: i64, allocated: usize, reserved: usize, device: Device) {
    if bytes < 0 && device.kind == Device::CUDA {
        owner::block_came_back(block as usize);
    }
    if let Some(theirs) = THEIRS.get() {
        // SAFETY: the function that this one is in the place of, with its arguments.
        unsafe { theirs(block, bytes, allocated, reserved, device) };
    }
}
