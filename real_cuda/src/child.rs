//! The memory of the real devices before the program uses CUDA. A child asks the real library: a process that has initialized CUDA
//! has no CUDA in the children that it forks, and programs read NVML to avoid just that.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::OnceLock;

use crate::device;
use crate::trouble;

/// How long the real library may take, milliseconds.
const PATIENCE: i32 = 60_000;

/// Bytes of each real device; `None` if they cannot be found out.
pub(crate) fn memory() -> Option<&'static [u64]> {
    static MEMORY: OnceLock<Option<Vec<u64>>> = OnceLock::new();
    MEMORY.get_or_init(ask).as_deref()
}

fn ask() -> Option<Vec<u64>> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    // SAFETY: they are new, and nobody else has them.
    let [mut answer, mut question] = ends.map(|end| unsafe { File::from_raw_fd(end) });
    // SAFETY: the child calls the real library, which this process has not initialized, and ends without its exit handlers. glibc
    // has its allocator and loader ready in a child, whatever other threads were doing.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let told = std::panic::catch_unwind(move || {
            let bytes: Vec<u8> = device::ask().ok()?.into_iter().flat_map(u64::to_ne_bytes).collect();
            question.write_all(&bytes).ok()
        });
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!matches!(told, Ok(Some(()))))) };
    }
    drop(question);
    if pid < 0 {
        return None;
    }
    let mut ready = libc::pollfd { fd: answer.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut bytes = Vec::new();
    // SAFETY: one entry, which lives for the call.
    if unsafe { libc::poll(&raw mut ready, 1, PATIENCE) } == 1 {
        answer.read_to_end(&mut bytes).ok()?;
    } else {
        trouble::say("the real libcuda does not say how much memory its devices have");
    }
    // SAFETY: our own child, which has nothing left to do.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    let real: Vec<u64> =
        bytes.chunks_exact(8).filter_map(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?))).collect();
    (!real.is_empty()).then_some(real)
}
