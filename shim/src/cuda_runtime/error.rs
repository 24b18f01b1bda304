//! The calling thread's last error.

use std::cell::Cell;

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
}

/// Keeps a failed call's code for `cudaGetLastError`.
pub(crate) fn note(code: u32) {
    LAST.set(code);
}

/// `cudaGetLastError`
pub(crate) fn get_last() -> u32 {
    LAST.replace(0)
}

/// `cudaPeekAtLastError`
pub(crate) fn peek() -> u32 {
    LAST.get()
}
