//! Findings of this process: errors of the program in its use of GPUs. Each is written to the journal immediately, so that it
//! cannot be lost however the process ends; without ftest it goes to stderr.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::lock::Mutex;
use dataplane::site;
use protocol::device_report::{JournalFinding, JournalLine};
use protocol::finding::FindingKind;
use protocol::ids::{CommunicatorId, SiteId};

use super::journal;
use crate::call_site;
use crate::process::rank;
use crate::settings::{self, GapPolicy};

/// Maximum number of different findings of a process: a program that goes wrong in a loop must not fill the disk.
const MOST: usize = 1000;

static MADE: Mutex<BTreeSet<(FindingKind, String)>> = Mutex::new(BTreeSet::new());

thread_local! {
    static CALLED: Cell<&'static str> = const { Cell::new("") };
}

/// Runs the body of the C function `name`; findings made in the meantime are attributed to it.
pub(crate) fn during<T>(name: &'static str, body: impl FnOnce() -> T) -> T {
    let outer = CALLED.replace(name);
    let value = body();
    CALLED.set(outer);
    value
}

/// The function that the program called in this thread, as named in NVIDIA's documentation.
pub(crate) fn function() -> &'static str {
    let name = CALLED.get();
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    name.strip_suffix("_v2").unwrap_or(name)
}

/// Records a finding at the program's current location, once per sentence. `sentence` must be the same in every run: no
/// addresses, no times.
pub(crate) fn record(kind: FindingKind, operation: &str, communicator: Option<CommunicatorId>, sentence: String) {
    note(kind, operation, communicator, sentence, call_site::of_mistake);
}

/// The same in a forked child. A lock that another thread of the parent held at that moment stays locked there, so the
/// finding then has no line.
pub(crate) fn record_in_forked_child(kind: FindingKind, operation: &str, sentence: String) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if MADE.try_lock().is_some() && call_site::is_free() {
        record(kind, operation, None, sentence);
    } else if !SAID.swap(true, Ordering::Relaxed) {
        write(kind, operation, None, sentence, None);
    }
}

/// The same for a call on a communicator that the program made at `site`.
pub(crate) fn record_call(
    kind: FindingKind,
    operation: &str,
    communicator: CommunicatorId,
    sentence: String,
    site: SiteId,
) {
    note(kind, operation, Some(communicator), sentence, || Some(site));
}

/// The same for something that the program did earlier, at `site`.
pub(crate) fn record_at(kind: FindingKind, operation: &str, sentence: String, site: SiteId) {
    note(kind, operation, None, sentence, || Some(site));
}

fn note(
    kind: FindingKind,
    operation: &str,
    communicator: Option<CommunicatorId>,
    sentence: String,
    place: impl FnOnce() -> Option<SiteId>,
) {
    {
        let mut made = MADE.lock();
        if made.len() >= MOST || !made.insert((kind, sentence.clone())) {
            return;
        }
    }
    write(kind, operation, communicator, sentence, place());
}

fn write(
    kind: FindingKind,
    operation: &str,
    communicator: Option<CommunicatorId>,
    sentence: String,
    site: Option<SiteId>,
) {
    let entry = JournalFinding {
        pid: std::process::id(),
        rank: rank(),
        kind,
        sentence,
        comm_id: communicator,
        operation: operation.to_owned(),
        site: site.and_then(site::find),
        made_at_us: Some(now_us()),
    };
    let is_loud =
        || settings::get().is_ok_and(|settings| matches!(settings.gap_policy, GapPolicy::Warn | GapPolicy::Stop));
    let message = format!("fakegpu: {}: {}", kind.word(), entry.sentence);
    if !journal::append(&JournalLine::Finding(entry)) && is_loud() {
        eprintln!("{message}");
    }
}

/// Microseconds since 1970, as the coordinator counts them: the clock of libc may have another date here.
fn now_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written to.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, &raw mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// How many different findings this process has made.
pub(super) fn count() -> usize {
    MADE.lock().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_that_of_the_documentation() {
        assert_eq!(function(), "");
        for (symbol, documented) in [
            ("cudaMemcpyAsync_ptsz", "cudaMemcpyAsync"),
            ("cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoH"),
            ("ncclAllReduce", "ncclAllReduce"),
        ] {
            during(symbol, || {
                assert_eq!(function(), documented);
                during("cudaFree", || assert_eq!(function(), "cudaFree"));
                assert_eq!(function(), documented);
            });
        }
    }
}
