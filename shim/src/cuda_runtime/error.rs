//! The calling thread's last error.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::LocalKey;

use dataplane::lock::RwLock;

use super::unread;
use crate::boundary::guard;
use crate::call_site;
use crate::process::fork;

/// The code of programs and libraries that contain a runtime of their own, which keeps its own last error.
static COPIES: RwLock<Vec<Range<usize>>> = RwLock::new(Vec::new());
static HAS_COPIES: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
    /// The last error of host functions that run on this thread, kept separately because they would have their own
    /// thread.
    static LAST_OF_HOST_FUNCTION: Cell<u32> = const { Cell::new(0) };
    /// The last errors of copies, by where their code begins.
    static LAST_OF_COPIES: RefCell<Vec<(usize, u32)>> = const { RefCell::new(Vec::new()) };
}

/// From now on, calls from this code are those of a runtime of its own.
pub(crate) fn add_copy(code: Range<usize>) {
    let mut copies = COPIES.write();
    copies.retain(|copy| copy.start != code.start);
    copies.push(code);
    HAS_COPIES.store(true, Ordering::Release);
}

fn last() -> &'static LocalKey<Cell<u32>> {
    if guard::is_in_host_function() { &LAST_OF_HOST_FUNCTION } else { &LAST }
}

/// Where the code begins whose copy of the runtime the call under way is for; `None` for the runtime that all others share.
fn copy() -> Option<usize> {
    if !HAS_COPIES.load(Ordering::Acquire) || guard::is_in_host_function() || fork::is_lost() {
        return None;
    }
    let address = call_site::address()?;
    COPIES.read().iter().find(|copy| copy.contains(&address)).map(|copy| copy.start)
}

/// Keeps a failed call's code for `cudaGetLastError`.
pub(crate) fn note(code: u32) {
    let Some(copy) = copy() else { return last().set(code) };
    // A thread that is about to end has none.
    let _ = LAST_OF_COPIES.try_with(|all| {
        let mut all = all.borrow_mut();
        all.retain(|(other, _)| *other != copy);
        all.push((copy, code));
    });
}

/// `cudaGetLastError`
pub(crate) fn get_last() -> u32 {
    find(true)
}

/// `cudaPeekAtLastError`
pub(crate) fn peek() -> u32 {
    find(false)
}

fn find(forget: bool) -> u32 {
    unread::read();
    let of_copies = LAST_OF_COPIES.try_with(|all| !all.borrow().is_empty()).unwrap_or(false);
    // Nearly always, there is none, whoever asks.
    if !of_copies && last().get() == 0 {
        return 0;
    }
    let Some(copy) = copy() else {
        return if forget { last().replace(0) } else { last().get() };
    };
    let taken = LAST_OF_COPIES.try_with(|all| {
        let mut all = all.borrow_mut();
        let code = all.iter().find(|(other, _)| *other == copy).map_or(0, |(_, code)| *code);
        if forget {
            all.retain(|(other, _)| *other != copy);
        }
        code
    });
    taken.unwrap_or(0)
}
