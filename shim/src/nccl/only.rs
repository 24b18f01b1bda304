//! Whether the rank that a call brings to a communicator is the only one of its process: another may come from another thread.

use dataplane::threads;

use crate::call_site;
use crate::device;

/// Whether the process brings no other rank of the communicator before the one of the current call has it. A process with one GPU
/// has no other rank, since NCCL refuses two on one GPU. Otherwise the calling thread has to wait for it, which PyTorch also does
/// for one that forms `in_background`, and be the only thread; in a Python program, whose libraries have threads of their own, the
/// main thread.
pub(super) fn is_calling_alone(in_background: bool) -> bool {
    let waits = !in_background || call_site::has_framework();
    device::all().len() == 1 || (waits && is_main() && (call_site::has_python() || !threads::has_others()))
}

fn is_main() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() == libc::getpid() }
}
