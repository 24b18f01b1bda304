//! Copies of more than fits in the caches. An ordinary store first reads the line that it overwrites. A streaming store does not,
//! which saves a third of the memory traffic but leaves nothing in the caches for the next reader of the result.
//!
//! Measured on a Xeon of 2023 with 2 MiB of second-level cache for each core (`cargo bench -p shim --bench copy_limit`): from a MiB on
//! it takes 0.7 to 0.85 of memcpy's time.

/// An operation that reads its sources once streams when one rank writes this many bytes or more.
pub(crate) const FROM_MEMORY: usize = 1 << 20;
/// As above, for an operation that reads a source once and writes it to several places: half of its work is in the
/// caches.
pub(crate) const FROM_CACHE: usize = 8 << 20;

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
const PAGE: usize = 4096;
/// Pages read side by side: a core's prefetchers follow each of them, but never cross a page boundary.
const PAGES: usize = 8;
/// Lines of a page read before the next page's.
const LINES: usize = 4;
/// How many bytes are copied side by side; smaller copies are ordinary ones.
pub(crate) const GROUP: usize = PAGES * PAGE;

/// Copies `bytes` as part of an operation in which this rank writes `written`, which streams from `threshold` on.
///
/// # Safety
/// Source and destination are valid for `bytes` and do not overlap.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize, written: usize, threshold: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if written >= threshold && bytes >= GROUP {
            stream(from, to, bytes);
        } else {
            std::ptr::copy_nonoverlapping(from, to, bytes);
        }
    }
}

/// # Safety
/// As for [`copy`].
unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    let head = to.align_offset(LINE).min(bytes);
    let done = head + (bytes - head) / GROUP * GROUP;
    // SAFETY: everything is within `bytes`, the caller's promise; destinations are aligned to lines behind the head.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        for group in (head..done).step_by(GROUP) {
            for row in (group..group + PAGE).step_by(LINES * LINE) {
                for page in 0..PAGES {
                    let at = row + page * PAGE;
                    write(from.add(at), to.add(at), LINES * LINE);
                }
            }
        }
        finish();
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done);
    }
}

/// Streams whole cache lines. [`finish`] must follow before anyone else reads them.
///
/// # Safety
/// As for [`copy`]; `to` is aligned to a line and `bytes` are whole lines.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn write(from: *const u8, to: *mut u8, bytes: usize) {
    // SSE2 is part of every x86-64. Wider vectors are no faster here: memory is what takes time.
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for at in (0..bytes).step_by(size_of::<__m128i>()) {
        // SAFETY: within `bytes`, the caller's promise.
        unsafe { _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast())) };
    }
}

/// Orders streamed stores before the stores that follow.
#[cfg(target_arch = "x86_64")]
pub(crate) fn finish() {
    // SAFETY: SSE is part of every x86-64.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// # Safety
/// As for [`copy`].
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn write(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn finish() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_and_none_beside_them_whatever_the_alignment() {
        const ROOM: usize = 256;
        let source: Vec<u8> = (0..3 * GROUP + ROOM).map(|at| (at * 31 % 251) as u8).collect();
        for (skip, shift) in [(0, 0), (1, 0), (0, 1), (63, 17), (16, 64), (5, 127)] {
            for bytes in [0, 1, 63, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP + 63, 3 * GROUP] {
                let mut target = vec![255u8; source.len()];
                // SAFETY: both ranges are within their vectors.
                unsafe {
                    copy(source.as_ptr().add(skip), target.as_mut_ptr().add(shift), bytes, FROM_MEMORY, FROM_MEMORY)
                };
                let what = format!("{bytes} bytes from {skip} to {shift}");
                assert!(target[shift..shift + bytes] == source[skip..skip + bytes], "{what}");
                assert!(target[..shift].iter().chain(&target[shift + bytes..]).all(|byte| *byte == 255), "{what}");
            }
        }
    }
}
