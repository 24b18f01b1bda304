//! Freshly allocated memory. For the sanitizer `init` it counts as uninitialized, and every byte of it is 0xFF, which is NaN in
//! every floating-point type of a GPU (float64, float32, float16, bfloat16, both float8), so that reads of it show. A program may
//! ask for another byte (`FAKEGPU_FRESH_MEMORY`), with or without the sanitizer.

use std::cell::Cell;
use std::sync::Arc;

use crate::device::work::stream::Stream;
use crate::sanitizer::init;
use crate::settings;

/// Of the sanitizer.
const PATTERN: u8 = 0xff;

/// Only this much of a larger block is filled: a program that only tries to get 60 GB must not occupy them.
const FILLED: usize = 256 << 20;

thread_local! {
    static IS_SUBLET: Cell<bool> = const { Cell::new(false) };
    static HAS_GROWN: Cell<bool> = const { Cell::new(false) };
}

/// Until dropped, this thread allocates for an allocator that hands out parts: those parts are fresh, not the whole.
pub(crate) struct Sublet(bool);

impl Sublet {
    pub(crate) fn begin() -> Self {
        HAS_GROWN.set(false);
        Self(IS_SUBLET.replace(true))
    }

    /// Whether the allocator had to allocate, so that the memory it hands out held nothing before.
    pub(crate) fn has_grown(&self) -> bool {
        HAS_GROWN.get()
    }
}

impl Drop for Sublet {
    fn drop(&mut self) {
        IS_SUBLET.set(self.0);
    }
}

/// Whether this thread allocates for such an allocator.
pub(super) fn is_sublet() -> bool {
    IS_SUBLET.get()
}

/// The byte that fills it, if any does.
pub(crate) fn pattern() -> Option<u8> {
    asked_for().or_else(|| init::is_wanted().then_some(PATTERN))
}

/// The byte that the program asked for.
pub(crate) fn asked_for() -> Option<u8> {
    settings::get().ok().and_then(|settings| settings.fresh_memory)
}

/// Called when the program allocated memory.
pub(super) fn allocated(address: usize, bytes: usize) {
    HAS_GROWN.set(true);
    if let Some(pattern) = pattern().filter(|_| !IS_SUBLET.get()) {
        init::handed_out(address, bytes);
        // SAFETY: an allocation that was just made, which nobody else knows of.
        unsafe { fill(address, bytes, pattern) };
    }
}

/// Called when the program allocated page-locked memory, which the sanitizer does not follow.
pub(super) fn allocated_on_host(address: usize, bytes: usize) {
    if let Some(pattern) = asked_for() {
        // SAFETY: as above.
        unsafe { fill(address, bytes, pattern) };
    }
}

/// Called when an allocator of the program hands out part of its memory for work of `stream`: its previous user may still
/// use it there.
pub(crate) fn handed_out(address: usize, bytes: usize, stream: &Arc<Stream>) {
    let Some(pattern) = pattern() else { return };
    init::handed_out(address, bytes);
    // SAFETY: the new owner's; memory is not freed before the stream is done.
    stream.run(move || unsafe { fill(address, bytes, pattern) });
}

/// # Safety
/// The bytes belong to an allocation that nobody else touches now.
unsafe fn fill(address: usize, bytes: usize, pattern: u8) {
    // SAFETY: by the caller.
    unsafe { (address as *mut u8).write_bytes(pattern, bytes.min(FILLED)) };
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn the_pattern_is_nan_in_every_type() {
        let bytes = [PATTERN; 8];
        assert!(f64::from_ne_bytes(bytes).is_nan());
        assert!(f32::from_ne_bytes([PATTERN; 4]).is_nan());
        assert!(f16::from_ne_bytes([PATTERN; 2]).is_nan() && bf16::from_ne_bytes([PATTERN; 2]).is_nan());
        // OCP 8-bit Floating Point Specification: in E4M3 S.1111.111 is NaN, in E5M2 S.11111.{01, 10, 11}.
        assert_eq!(PATTERN & 0x7f, 0x7f);
    }
}
