//! Requests that the operating system refuses for lack of a resource: a limit of the shell, a full machine. That is not the
//! program's fault, so whatever loaded this library is notified, and the message names the remedy.

use std::io;
use std::sync::OnceLock;

use protocol::limit::{self, Limit};

static LISTENER: OnceLock<fn(&str)> = OnceLock::new();

/// From now on, `listener` gets the message about every refusal. Only the first listener counts.
pub fn listen(listener: fn(&str)) {
    let _ = LISTENER.set(listener);
}

/// A message that `what` could not be done because of `error`. If the error is due to lack of a resource, the listener is
/// notified, and the message names the remedy.
pub fn explain(what: &str, error: &io::Error) -> String {
    // A socket answers "again" when it waited long enough.
    let errno = error.raw_os_error().filter(|errno| *errno != libc::EAGAIN);
    sentence(what, error, errno)
}

/// As [`explain`], for a thread or process that cannot be started.
pub fn explain_thread(what: &str, error: &io::Error) -> String {
    sentence(what, error, error.raw_os_error())
}

fn sentence(what: &str, error: &io::Error, errno: Option<i32>) -> String {
    match errno.and_then(|errno| limit::advice(errno, limit_of)) {
        Some(advice) => {
            let sentence = format!("{what}: {error}; {advice}");
            if let Some(listener) = LISTENER.get() {
                listener(&sentence);
            }
            sentence
        }
        None => format!("{what}: {error}"),
    }
}

/// The soft limit on this process; `None` if there is none.
fn limit_of(limit: Limit) -> Option<u64> {
    let resource = match limit {
        Limit::AddressSpace => libc::RLIMIT_AS,
        Limit::FileSize => libc::RLIMIT_FSIZE,
        Limit::Descriptors => libc::RLIMIT_NOFILE,
        Limit::Processes => libc::RLIMIT_NPROC,
        Limit::CpuTime => libc::RLIMIT_CPU,
    };
    get(resource).map(|limits| limits.rlim_cur).filter(|current| *current != libc::RLIM_INFINITY)
}

fn get(resource: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live for the call.
    (unsafe { libc::getrlimit(resource, &raw mut limits) } == 0).then_some(limits)
}

/// Calls `make`, which creates a file of `length` bytes that processes share as memory, under a file size limit that allows it.
/// Its content is memory, but the kernel counts it as a file, and would end the process with SIGXFSZ. The limit of the whole
/// process is raised for this one call, as far as allowed.
///
/// # Errors
/// `EFBIG` if the limit cannot be raised that far, otherwise the error of `make`.
pub fn with_file_size<T>(length: u64, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(limits) = get(libc::RLIMIT_FSIZE).filter(|limits| limits.rlim_cur < length) else { return make() };
    let set = |rlim_cur, rlim_max| {
        let wanted = libc::rlimit { rlim_cur, rlim_max };
        // SAFETY: the structure is live for the call.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const wanted) == 0 }
    };
    // The hard limit is for the privileged; the soft one may be as high as that.
    let raised = set(libc::RLIM_INFINITY, libc::RLIM_INFINITY)
        || limits.rlim_max >= length && set(limits.rlim_max, limits.rlim_max);
    if !raised {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let made = make();
    set(limits.rlim_cur, limits.rlim_max);
    made
}

/// Makes room for connections to `peers` other ranks: if the process will need more descriptors, its soft limit is raised to
/// the hard limit, as NCCL does for its bootstrap (`setFilesLimit`). If that is not enough, the failing connection reports it.
pub fn make_room_for(peers: usize) {
    // There are two connections to each rank, and what the program has open.
    let needed = 2 * peers as u64 + 256;
    let Some(limits) = get(libc::RLIMIT_NOFILE).filter(|limits| limits.rlim_cur < needed.min(limits.rlim_max)) else {
        return;
    };
    let raised = libc::rlimit { rlim_cur: limits.rlim_max, ..limits };
    // SAFETY: the structure is live for the call.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
}
