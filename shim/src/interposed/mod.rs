//! The libc functions that we replace: those that check files (`device_files`), `dlopen` of NVIDIA's libraries (`libraries`),
//! `__libc_start_main` and `dlsym` for programs that contain CUDA's runtime (`static_runtime`), and `pthread_exit`, for programs whose exit would otherwise depend on luck.
//!
//! Up to 3.13, CPython uses `pthread_exit` to end a thread that requests the interpreter during finalization, and the forced
//! unwinding ends in `std::terminate` at the first `noexcept` C++ frame. PyTorch's autograd threads get there whenever the main
//! thread, woken first after a backward, exits right away (pytorch/pytorch#190489). Two busy cores that also compute for the
//! "GPU" make that common. CPython 3.14 lets such a thread sleep instead (python/cpython#87135), and so do we.

mod device_files;
mod dispatcher;
mod hybrid;
mod late;
mod libraries;
mod static_runtime;

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;

use dataplane::process::Process;

use crate::nccl::donor;
use crate::process::at_exit;
use crate::sanitizer::known;
use crate::settings;

/// What the library exports besides its tables.
pub const INTERPOSED: &[&str] = &[
    "__fxstatat",
    "__fxstatat64",
    "__libc_start_main",
    "__lxstat",
    "__lxstat64",
    "__xstat",
    "__xstat64",
    "access",
    "dlopen",
    "dlsym",
    "fstatat",
    "fstatat64",
    "ftest_communicator_is",
    "ftest_decides",
    "ftest_forked",
    "ftest_hybrid_hold",
    "ftest_hybrid_nvml",
    "ftest_is_known",
    "ftest_is_used",
    "ftest_lacks",
    "ftest_leave",
    "ftest_loaded_late",
    "ftest_misses",
    "ftest_receives",
    "ftest_sends",
    "ftest_split_takes",
    "lstat",
    "lstat64",
    "pthread_exit",
    "stat",
    "stat64",
    "statx",
];

/// Whether this process has used a GPU: 1 from the first call that reads the settings. While it is 0, the process can be forked
/// and its children given their own environment, as if they had been started with it.
#[unsafe(no_mangle)]
extern "C" fn ftest_is_used() -> c_int {
    c_int::from(settings::are_read())
}

/// For a preflight: 1 if these bytes of a GPU hold what the program would find there, or if all do because everything computes.
#[unsafe(no_mangle)]
extern "C" fn ftest_is_known(address: usize, bytes: usize) -> c_int {
    c_int::from(!known::is_wanted() || known::unknown(std::iter::once((address, bytes))).is_none())
}

/// Ends this process with `status`, after our own exit actions (the device report), but without the exit actions of libraries.
#[unsafe(no_mangle)]
extern "C" fn ftest_leave(status: c_int) -> ! {
    at_exit::leave(status)
}

/// For `ftest exec --as-rank`: which `count` ranks of its parent the next split takes along.
///
/// # Safety
///
/// `ranks` holds `count` ranks.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftest_split_takes(ranks: *const u32, count: usize) {
    // SAFETY: the caller's promise.
    let ranks = unsafe { std::slice::from_raw_parts(ranks, count) };
    if let Some(process) = Process::joined() {
        process.split_takes(ranks.to_vec());
    }
}

/// For `ftest exec --as-rank`: the communicator that will be made with the unique id `id` is the one that PyTorch's store calls `name`,
/// of these `count` ranks of the job; 0 if they are not known.
///
/// # Safety
///
/// `id` has 128 bytes, `name` ends with 0, and `ranks` holds `count` ranks.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftest_communicator_is(id: *const u8, name: *const c_char, ranks: *const u32, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { donor::name_communicator(id, name, ranks, count) };
}

/// For a preflight that runs ranks one after the other: this rank sends `bytes` at `data` under `name`, without NCCL. If `data` is null,
/// nobody computed them.
///
/// # Safety
///
/// `name` ends with 0, and `data` is null or has `bytes`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftest_sends(name: *const c_char, data: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { donor::send(name, data, bytes) };
}

/// For a preflight that runs ranks one after the other: writes what rank `sender` (any, if negative) sent under `name` to `data`, which
/// has `room` bytes. Returns its size, which may be more than `room`; -1 if it is not known.
///
/// # Safety
///
/// `name` ends with 0, and `data` has `room` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftest_receives(name: *const c_char, sender: i64, data: *mut u8, room: usize) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { donor::receive(name, sender, data, room) }
}

/// For a preflight that runs ranks one after the other: `bytes` at `address` on a GPU are what rank `sender` would have sent under `name`
/// by `operation`, without NCCL, which is not known.
///
/// # Safety
///
/// `name` and `operation` end with 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftest_lacks(
    name: *const c_char,
    operation: *const c_char,
    sender: u32,
    address: usize,
    bytes: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { donor::lacks(name, operation, sender, address, bytes) };
}

/// For a preflight: the program decides by a floating-point number that nobody computed, as `sentence` says.
///
/// # Safety
///
/// `sentence` ends with 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftest_decides(sentence: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe { donor::decides(sentence) };
}

/// For a preflight: the program reads what another rank would have sent without NCCL, as `sentence` says.
///
/// # Safety
///
/// `sentence` ends with 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftest_misses(sentence: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe { donor::misses(sentence) };
}

/// `pthread_exit(3)`, except in a thread of a Python process that has been finalized: it sleeps until the process ends.
///
/// # Safety
///
/// As for libc's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    if python_is_finalizing() {
        loop {
            // SAFETY: waits for a signal; the process's end ends it.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the next definition is libc's, whose signature this is. Nothing of ours is left to drop in this frame.
    unsafe {
        let mut libc = libc::dlsym(libc::RTLD_NEXT, c"pthread_exit".as_ptr());
        if libc.is_null() {
            // Loaded late: libc comes before us.
            libc = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_exit".as_ptr());
        }
        transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_void) -> !>(libc)(value)
    }
}

fn python_is_finalizing() -> bool {
    // Public since 3.13, with an underscore before.
    [c"Py_IsFinalizing", c"_Py_IsFinalizing"].into_iter().any(|name| {
        // SAFETY: in a process with Python, a function of no arguments that reads one variable.
        unsafe {
            let symbol = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            !symbol.is_null() && transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(symbol)() != 0
        }
    })
}
