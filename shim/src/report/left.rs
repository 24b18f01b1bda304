//! Resources that the program had not released when it exited with 0. Counted after all of its exit handlers and destructors have
//! run, because a destructor may still free something.

use std::panic::catch_unwind;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use dataplane::lock::Mutex;
use protocol::device_report::{JournalLine, Left};

use super::journal;
use crate::process::rank;

/// Adds what is left of one kind.
pub(crate) type Counter = fn(&mut Left);

static COUNTERS: Mutex<Vec<Counter>> = Mutex::new(Vec::new());
/// Whether the program is not responsible for releasing memory, streams and events.
static EXEMPTION: Mutex<Option<fn() -> bool>> = Mutex::new(None);
static IS_EXEMPT: AtomicBool = AtomicBool::new(false);
/// The process that exits with 0; none until then.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// At the end, `counter` adds what is left of its kind.
pub(crate) fn count_with(counter: Counter) {
    let mut counters = COUNTERS.lock();
    if !counters.iter().any(|known| ptr::fn_addr_eq(*known, counter)) {
        counters.push(counter);
    }
}

/// If `holds` at exit, memory, streams and events do not count.
pub(crate) fn exempt_where(holds: fn() -> bool) {
    *EXEMPTION.lock() = Some(holds);
}

/// Called when the process ends with `status`; one that ends with an error may leave anything behind.
pub(super) fn ends(status: i32) {
    if status == 0 {
        // Not later: it looks for libraries, and behind the destructors that would bring them back to life.
        let holds = *EXEMPTION.lock();
        IS_EXEMPT.store(holds.is_some_and(|holds| holds()), Ordering::Relaxed);
        ENDING.store(std::process::id(), Ordering::Relaxed);
    }
}

/// Runs after all exit handlers. Does nothing in a process without CUDA.
#[used]
// SAFETY: a function without arguments that unwinds into nobody, as the section holds them.
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    if ENDING.load(Ordering::Relaxed) == std::process::id() {
        let _ = catch_unwind(note);
    }
}

fn note() {
    let counters = COUNTERS.lock().clone();
    let mut left = Left { pid: std::process::id(), rank: rank(), ..Left::default() };
    counters.iter().for_each(|counter| counter(&mut left));
    if IS_EXEMPT.load(Ordering::Relaxed) {
        left = Left { pid: left.pid, rank: left.rank, communicators: left.communicators, ..Left::default() };
    }
    if left.allocations + left.pinned + left.streams + left.events + left.communicators > 0 {
        journal::append(&JournalLine::Left(left));
    }
}
