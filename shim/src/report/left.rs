//! What the program had not given back when it ended with 0. Counted when all of its exit handlers and destructors have run: until
//! then a destructor may still free something.

use std::panic::catch_unwind;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use dataplane::lock::Mutex;
use protocol::device_report::{JournalLine, Left};

use super::journal;
use crate::process::rank;

/// Adds to a count, or takes from it what nobody has to give back.
pub(crate) type Counter = fn(&mut Left);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Count,
    Forgive,
}

static COUNTERS: Mutex<Vec<(Step, Counter)>> = Mutex::new(Vec::new());
/// The process that ends with 0; none until then.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// At the end `counter` adds what is left of its kind.
pub(crate) fn count_with(counter: Counter) {
    register(Step::Count, counter);
}

/// At the end, when everything is counted, `counter` takes away what is not the program's to give back.
pub(crate) fn forgive_with(counter: Counter) {
    register(Step::Forgive, counter);
}

fn register(step: Step, counter: Counter) {
    let mut counters = COUNTERS.lock();
    if !counters.iter().any(|(_, known)| ptr::fn_addr_eq(*known, counter)) {
        counters.push((step, counter));
    }
}

/// The process ends with `status`; one that ends with an error leaves things as they are.
pub(super) fn ends(status: i32) {
    if status == 0 {
        ENDING.store(std::process::id(), Ordering::Relaxed);
    }
}

/// Runs behind all exit handlers. In a process without CUDA it does nothing.
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
    for wanted in [Step::Count, Step::Forgive] {
        counters.iter().filter(|(step, _)| *step == wanted).for_each(|(_, counter)| counter(&mut left));
    }
    if left.allocations + left.streams + left.events + left.communicators > 0 {
        journal::append(&JournalLine::Left(left));
    }
}
