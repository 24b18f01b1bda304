//! The CUDA version we report: as a runtime, the one that the process loaded or contains, so that versions and layouts match its
//! headers; as a driver, the one that the machine claims to have.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::settings;

/// CUDA 13.5, the newest whose functions we have; also for a process that loaded no runtime.
const NEWEST: i32 = 13050;
/// CUDA 12.8, which PyTorch 2.9 is built with.
const TWELVE: i32 = 12080;

/// Major version of the runtime that the program contains; 0 if it contains none.
static CONTAINED: AtomicI32 = AtomicI32::new(0);

/// Version of the runtime, 1000 x major + 10 x minor.
pub(crate) fn runtime() -> i32 {
    static VERSION: OnceLock<i32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let is_twelve = match CONTAINED.load(Ordering::Relaxed) {
            _ if loads("libcudart.so.12") => true,
            _ if loads("libcudart.so.13") => false,
            contained => contained == 12,
        };
        if is_twelve { TWELVE } else { NEWEST }
    })
}

/// Notes that the program contains a runtime of this major version; false if the process uses another already.
pub(crate) fn contain(major: i32) -> bool {
    CONTAINED.store(major, Ordering::Relaxed);
    runtime() / 1000 == major
}

/// True for CUDA 12, whose layouts differ.
pub(crate) fn is_twelve() -> bool {
    runtime() < 13000
}

/// Version of CUDA that the machine's driver supports.
pub(crate) fn driver() -> i32 {
    settings::get().map_or(NEWEST, |settings| settings.driver.cuda)
}

/// True if the driver has an older major version than the runtime; every runtime call then fails with that error.
pub(crate) fn is_driver_too_old() -> bool {
    driver() / 1000 < runtime() / 1000
}

/// True if a file with this name is loaded.
pub(crate) fn loads(name: &str) -> bool {
    loaded().iter().any(|path| path.contains(name))
}

/// Paths of all loaded files; empty for the program itself.
pub(crate) fn loaded() -> Vec<String> {
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: glibc passes a valid description, and `data` is the list below.
        let (path, paths) = unsafe { ((*info).dlpi_name, &mut *data.cast::<Vec<String>>()) };
        if !path.is_null() {
            // SAFETY: glibc keeps the path as a C string.
            paths.push(unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned());
        }
        0
    }
    let mut paths: Vec<String> = Vec::new();
    // SAFETY: the callback gets a pointer to `paths`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut paths).cast()) };
    paths
}
