//! Whether the rank that a call brings to a communicator is the only one of its process: another may come from another thread.

use crate::call_site;
use crate::device;

/// The beginnings of the names of our own threads.
const OURS: [&str; 2] = ["ftest-", "fakegpu-"];

/// Whether the process brings no other rank of the communicator before the one of the current call has it. A process with one GPU
/// has no other rank, since NCCL refuses two on one GPU. Otherwise the calling thread has to wait for it, which PyTorch also does
/// for one that forms `in_background`, and be the only thread; in a Python program, whose libraries have threads of their own, the
/// main thread.
pub(super) fn is_calling_alone(in_background: bool) -> bool {
    let waits = !in_background || call_site::has_framework();
    device::all().len() == 1 || (waits && is_main() && (call_site::has_python() || !has_other_threads()))
}

fn is_main() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Whether the process has threads besides this one and ours. True where that cannot be read.
fn has_other_threads() -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return true };
    let own = std::process::id().to_string();
    threads.flatten().filter(|thread| thread.file_name() != own.as_str()).any(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        // One that has ended meanwhile has no name.
        name.is_ok_and(|name| !OURS.iter().any(|start| name.starts_with(start)))
    })
}
