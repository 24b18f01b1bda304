//! What only the kernel can do for a process that is to be started, and Rust calls unsafe. All unsafe code of the runner is
//! in this file.
#![expect(unsafe_code, reason = "close_range has no safe wrapper, and a session is made between fork and exec")]

use tokio::process::Command;

/// The first descriptor that is none of the three streams.
const FIRST: libc::c_uint = 3;

/// Whatever ftest was started with besides its streams stays with it: a program that inherits a pipe of the shell's or of
/// a CI agent keeps that one open, and hangs who reads from it.
pub fn keep_descriptors() {
    // SAFETY: no descriptor is closed here, and none of ours is meant to be inherited by its number.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    // Before Linux 5.11 there is no such call, and programs inherit what they did.
    let _ = done;
}

/// The program starts a session, and a process group, of its own: it has no terminal to take away, to wait for or to be
/// stopped by.
pub(super) fn new_session(command: &mut Command) {
    // SAFETY: setsid is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| if libc::setsid() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) });
    }
}
