//! A preloaded shim is asked before libc, but one that was loaded later is not. For `pthread_exit`, this is corrected in the
//! libraries that are already loaded (including CPython): their calls are redirected here.

use std::ffi::{c_int, c_void};

use libc::dl_phdr_info;

use crate::process::slots::Library;

/// For a process that loaded the shim while running: makes the loaded libraries call the shim's `pthread_exit`. Returns the
/// number of references. Nothing else in the process may load or unload libraries in the meantime; the caller holds Python's
/// lock.
#[unsafe(no_mangle)]
extern "C" fn ftest_loaded_late() -> c_int {
    let mut found: c_int = 0;
    // SAFETY: the callback gets a pointer to `found`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(lead), (&raw mut found).cast()) };
    found
}

/// Redirects the references of one library here.
unsafe extern "C" fn lead(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: glibc passes a valid description, and `data` is the counter of the caller.
    let (library, found) = unsafe { (Library::new(&*info), &mut *data.cast::<c_int>()) };
    let name = library.path().to_string_lossy();
    // Ours asks for libc's function on purpose. The kernel's page of functions calls nothing.
    if name.contains("libfakegpu.so") || name.contains("linux-vdso") {
        return 0;
    }
    for slot in library.slots(|called| called == c"pthread_exit") {
        // SAFETY: the slot of a function of this signature.
        *found += c_int::from(unsafe { library.write(slot, super::pthread_exit as *mut c_void) });
    }
    0
}
