//! The end of a process that was forked from one that had imported PyTorch. At exit, PyTorch removes its operators from its
//! dispatcher, one by one, in memory that is about to be freed: 0.1 s of processor time and hundreds of pages that the fork no
//! longer shares. Here that is skipped. All other destructors run, because PyTorch's process groups wait for their watchdogs in
//! one.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use libc::dl_phdr_info;

use crate::process::slots::Library;

unsafe extern "C" {
    /// As `atexit`, with the status (glibc).
    fn on_exit(action: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Called in a fresh fork, before its program runs. The program's own exit actions (`atexit`, Python's finalization) come before
/// ours.
#[unsafe(no_mangle)]
extern "C" fn ftest_forked() {
    // SAFETY: the handler is a function of this library, which is never unloaded (`-z nodelete`).
    unsafe { on_exit(keep_operators, ptr::null_mut()) };
}

extern "C" fn keep_operators(_status: c_int, _argument: *mut c_void) {
    // SAFETY: the callback needs no data.
    unsafe { libc::dl_iterate_phdr(Some(lead), ptr::null_mut()) };
}

/// Redirects the calls to `c10::Dispatcher::deregister...` in the library that defines and makes them to a function
/// that does nothing.
unsafe extern "C" fn lead(info: *mut dl_phdr_info, _: usize, _data: *mut c_void) -> c_int {
    // SAFETY: glibc passes a valid description.
    let library = unsafe { Library::new(&*info) };
    if !library.path().to_bytes().ends_with(b"/libtorch_cpu.so") {
        return 0;
    }
    for slot in library.slots(deregisters) {
        // SAFETY: functions that return nothing; who calls one that does nothing finds its arguments as they were.
        unsafe { library.write(slot, nothing as *mut c_void) };
    }
    1
}

fn deregisters(name: &CStr) -> bool {
    name.to_bytes().strip_prefix(b"_ZN3c1010Dispatcher").is_some_and(|name| name.get(2..12) == Some(b"deregister"))
}

extern "C" fn nothing() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_out_is_left_out() {
        assert!(deregisters(c"_ZN3c1010Dispatcher14deregisterDef_ERKNS_14OperatorHandleERKNS_12OperatorNameE"));
        assert!(deregisters(
            c"_ZN3c1010Dispatcher18deregisterLibrary_ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        ));
        assert!(!deregisters(c"_ZN3c1010Dispatcher11registerDefENS_14FunctionSchemaE"));
        assert!(!deregisters(c"_ZN5torch3jit18deregisterOperatorERKN3c1014FunctionSchemaE"));
    }
}
