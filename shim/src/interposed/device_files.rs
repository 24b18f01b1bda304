//! `/dev/nvidia0`, `/dev/nvidiactl` and `/dev/nvidia-uvm`, for programs that check whether they exist before they call CUDA (JAX
//! does, and stays on the CPU without them). Only `stat` and `access` work; opening one still fails.
//!
//! Any other path goes straight to the kernel, as in libc, so that this may run anywhere: in a signal handler, after a fork.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint};
use std::panic::catch_unwind;

use crate::settings;

/// Device numbers of NVIDIA's driver: one minor per GPU, and 255 for all of them (Documentation/admin-guide/devices.txt).
const MAJOR: u32 = 195;
const CONTROL: u32 = 255;
/// For the unified memory file; the kernel assigns dynamic numbers from 511 downwards.
const UVM_MAJOR: u32 = 511;

const PREFIX: &CStr = c"/dev/nvidia";
const STAND_IN: &CStr = c"/dev/null";

/// Device number of the simulated file, if `path` is one.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn simulated(path: *const c_char) -> Option<(u32, u32)> {
    if path.is_null() {
        return None;
    }
    let prefix = PREFIX.to_bytes();
    for (index, letter) in prefix.iter().enumerate() {
        // SAFETY: a C string, of which everything before this byte was not NUL.
        if unsafe { *path.add(index) } as u8 != *letter {
            return None;
        }
    }
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(path.add(prefix.len())) }.to_str().ok()?;
    let count = || catch_unwind(|| settings::get().map_or(0, |settings| settings.gpus.len() as u32)).unwrap_or(0);
    let place = match name {
        "ctl" => (MAJOR, CONTROL),
        "-uvm" => (UVM_MAJOR, 0),
        _ => {
            let minor: u32 = name.parse().ok().filter(|_| name.bytes().all(|digit| digit.is_ascii_digit()))?;
            return (minor < count()).then_some((MAJOR, minor));
        }
    };
    (count() > 0).then_some(place)
}

/// `fstatat(2)`, with a device in place of a simulated file.
///
/// # Safety
/// As for libc's function.
unsafe fn look(directory: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) -> c_int {
    let call = |directory: c_int, path: *const c_char| -> c_int {
        // SAFETY: the caller's promise. On the 64-bit machines that we run on, libc's struct is the kernel's.
        unsafe { libc::syscall(libc::SYS_newfstatat, directory, path, out, flags) as c_int }
    };
    // SAFETY: the caller's promise.
    let Some((major, minor)) = (unsafe { simulated(path) }) else { return call(directory, path) };
    let code = call(libc::AT_FDCWD, STAND_IN.as_ptr());
    if code == 0 {
        // SAFETY: the kernel has just written the struct.
        unsafe { (*out).st_rdev = libc::makedev(major, minor) };
    }
    code
}

macro_rules! look_alikes {
    ($($name:ident($($argument:ident: $type:ty),*) = $directory:expr, $path:ident, $out:ident, $flags:expr;)*) => {
        $(
            /// # Safety
            /// As for libc's function.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: passed on.
                unsafe { look($directory, $path, $out, $flags) }
            }
        )*
    };
}

look_alikes! {
    stat(path: *const c_char, out: *mut libc::stat) = libc::AT_FDCWD, path, out, 0;
    stat64(path: *const c_char, out: *mut libc::stat) = libc::AT_FDCWD, path, out, 0;
    lstat(path: *const c_char, out: *mut libc::stat) = libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW;
    lstat64(path: *const c_char, out: *mut libc::stat) = libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW;
    fstatat(directory: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) = directory, path, out, flags;
    fstatat64(directory: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) = directory, path, out, flags;
    // What programs call that were linked with a libc before 2.33; the first argument is the struct's version, of which there is one.
    __xstat(_version: c_int, path: *const c_char, out: *mut libc::stat) = libc::AT_FDCWD, path, out, 0;
    __xstat64(_version: c_int, path: *const c_char, out: *mut libc::stat) = libc::AT_FDCWD, path, out, 0;
    __lxstat(_version: c_int, path: *const c_char, out: *mut libc::stat) = libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW;
    __lxstat64(_version: c_int, path: *const c_char, out: *mut libc::stat) = libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW;
    __fxstatat(_version: c_int, directory: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) = directory, path, out, flags;
    __fxstatat64(_version: c_int, directory: c_int, path: *const c_char, out: *mut libc::stat, flags: c_int) = directory, path, out, flags;
}

/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    out: *mut libc::statx,
) -> c_int {
    let call = |directory: c_int, path: *const c_char| -> c_long {
        // SAFETY: the caller's promise.
        unsafe { libc::syscall(libc::SYS_statx, directory, path, flags, mask, out) }
    };
    // SAFETY: the caller's promise.
    let Some((major, minor)) = (unsafe { simulated(path) }) else { return call(directory, path) as c_int };
    let code = call(libc::AT_FDCWD, STAND_IN.as_ptr());
    if code == 0 {
        // SAFETY: the kernel has just written the struct.
        unsafe { ((*out).stx_rdev_major, (*out).stx_rdev_minor) = (major, minor) };
    }
    code as c_int
}

/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let path = if unsafe { simulated(path) }.is_some() { STAND_IN.as_ptr() } else { path };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, mode) as c_int }
}
