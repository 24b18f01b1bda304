//! The order in which a reduction goes through memory. A row of a few cache lines from every source is reduced in registers
//! and written at once. Rows come from several pages in turn, because a core's prefetchers follow many pages at a time but
//! never cross a page boundary.

use crate::kernels::streaming;

const PAGE: usize = 4096;
/// Number of places in memory read in turn: with more, prefetched data is evicted before it is used.
const STREAMS: usize = 8;

/// Writes `row(sources, at)`, the `N` results at byte offset `at` of the sources, to every destination, for all `count`
/// elements.
///
/// # Safety
/// Every pointer is valid for `count` elements of `T`. A destination may equal a source; it must not overlap one otherwise.
/// All-zero bytes are a valid `T`.
#[inline(always)]
pub(crate) unsafe fn each<T: Copy, const N: usize>(
    sources: &[*const u8],
    destinations: &[*mut u8],
    count: usize,
    row: impl Fn(&[*const u8], usize) -> [T; N],
) {
    let length = N * size_of::<T>();
    let bytes = count * size_of::<T>();
    let (head, streams) = streaming_head(sources, destinations, bytes, size_of::<T>());
    let write = |at: usize| {
        let result = row(sources, at);
        for destination in destinations {
            // SAFETY: the row is within the destination; what is streamed begins on a cache line.
            unsafe {
                let target = destination.add(at);
                if streams {
                    streaming::write(result.as_ptr().cast(), target, length);
                } else {
                    std::ptr::copy_nonoverlapping(result.as_ptr().cast(), target, length);
                }
            }
        }
    };
    // Part of a row is worked out aside, as a whole one.
    let part = |at: usize, bytes: usize| {
        let mut aside = vec![0u8; sources.len() * length];
        let mut copies = Vec::with_capacity(sources.len());
        // SAFETY: the part is within all buffers and is no longer than a row.
        unsafe {
            for (source, copy) in sources.iter().zip(aside.chunks_exact_mut(length)) {
                std::ptr::copy_nonoverlapping(source.add(at), copy.as_mut_ptr(), bytes);
                copies.push(copy.as_ptr());
            }
            let result = row(&copies, 0);
            for destination in destinations {
                std::ptr::copy_nonoverlapping(result.as_ptr().cast(), destination.add(at), bytes);
            }
        }
    };
    if head > 0 {
        part(0, head);
    }
    let mut at = head;
    let pages = (STREAMS / sources.len().max(1)).max(1);
    while bytes - at >= pages * PAGE {
        for offset in (at..at + PAGE).step_by(length) {
            for page in 0..pages {
                write(offset + page * PAGE);
            }
        }
        at += pages * PAGE;
    }
    while bytes - at >= length {
        write(at);
        at += length;
    }
    if at < bytes {
        part(at, bytes - at);
    }
    if streams {
        streaming::finish();
    }
}

/// Whether results are streamed past the caches and, if so, the bytes before the destinations' first cache line.
fn streaming_head(sources: &[*const u8], destinations: &[*mut u8], bytes: usize, size: usize) -> (usize, bool) {
    if bytes * destinations.len() < streaming::FROM_MEMORY {
        return (0, false);
    }
    let head = |destination: &*mut u8| destination.align_offset(streaming::LINE);
    let first = destinations.first().map_or(0, head);
    let alike = first.is_multiple_of(size) && destinations.iter().all(|destination| head(destination) == first);
    // What is written where it was read is in the caches already.
    let in_place = destinations.iter().any(|destination| sources.contains(&destination.cast_const()));
    if alike && !in_place { (first, true) } else { (0, false) }
}
