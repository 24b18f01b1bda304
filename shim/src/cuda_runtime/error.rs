//! The calling thread's last error.

use std::cell::Cell;
use std::thread::LocalKey;

use crate::boundary::guard;

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
    /// The last error of host functions that run on this thread, kept separately because they would have their own
    /// thread.
    static LAST_OF_HOST_FUNCTION: Cell<u32> = const { Cell::new(0) };
}

fn last() -> &'static LocalKey<Cell<u32>> {
    if guard::is_in_host_function() { &LAST_OF_HOST_FUNCTION } else { &LAST }
}

/// Keeps a failed call's code for `cudaGetLastError`.
pub(crate) fn note(code: u32) {
    last().set(code);
}

/// `cudaGetLastError`
pub(crate) fn get_last() -> u32 {
    last().replace(0)
}

/// `cudaPeekAtLastError`
pub(crate) fn peek() -> u32 {
    last().get()
}
