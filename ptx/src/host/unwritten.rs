//! Uninitialized global memory, tracked byte by byte while a kernel runs: reads are checked, and writes recorded.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pieces of memory that nobody has written.
#[derive(Debug, Default)]
pub struct Unwritten {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    start: u64,
    end: u64,
    /// A bit for each byte that was written. Zeroed memory takes no pages until it is written.
    written: Vec<u64>,
}

impl Unwritten {
    /// Ranges of addresses that do not overlap, in any order.
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let piece = |Range { start, end }: Range<u64>| {
            let words = (end - start).div_ceil(64) as usize;
            Piece { start, end, written: vec![0; words] }
        };
        let mut pieces: Vec<Piece> = ranges.into_iter().filter(|range| range.start < range.end).map(piece).collect();
        pieces.sort_unstable_by_key(|piece| piece.start);
        Self { pieces }
    }

    /// Whether one of these bytes is unwritten.
    pub(crate) fn is_read(&self, address: u64, bytes: u64) -> bool {
        let mut found = false;
        self.each_word(address, bytes, |word, mask| found |= word.load(Ordering::Relaxed) & mask != mask);
        found
    }

    /// These bytes are written.
    pub(crate) fn is_written(&self, address: u64, bytes: u64) {
        self.each_word(address, bytes, |word, mask| {
            if word.load(Ordering::Relaxed) & mask != mask {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        });
    }

    fn each_word(&self, address: u64, bytes: u64, mut body: impl FnMut(&AtomicU64, u64)) {
        let end = address.saturating_add(bytes);
        let first = self.pieces.partition_point(|piece| piece.end <= address);
        for piece in self.pieces[first..].iter().take_while(|piece| piece.start < end) {
            let mut at = address.max(piece.start) - piece.start;
            let stop = end.min(piece.end) - piece.start;
            while at < stop {
                let next = stop.min((at / 64 + 1) * 64);
                let mask = (u64::MAX >> (64 - (next - at))) << (at % 64);
                // SAFETY: an aligned word of the vector, which lives as long as `self` and is only accessed atomically
                // while others share it.
                let word = unsafe { AtomicU64::from_ptr(piece.written.as_ptr().add((at / 64) as usize).cast_mut()) };
                body(word, mask);
                at = next;
            }
        }
    }

    /// The ranges that are still unwritten, in order.
    pub fn left(&self) -> Vec<Range<u64>> {
        let mut left: Vec<Range<u64>> = Vec::new();
        for piece in &self.pieces {
            let mut open = None;
            for at in 0..piece.written.len() as u64 {
                let word = piece.written[at as usize];
                if word == 0 || word == u64::MAX {
                    match (word, open) {
                        (0, None) => open = Some(at * 64),
                        (u64::MAX, Some(start)) => {
                            left.push(piece.start + start..piece.start + at * 64);
                            open = None;
                        }
                        _ => {}
                    }
                    continue;
                }
                for bit in 0..64 {
                    match (word >> bit & 1, open) {
                        (0, None) => open = Some(at * 64 + bit),
                        (1, Some(start)) => {
                            left.push(piece.start + start..piece.start + at * 64 + bit);
                            open = None;
                        }
                        _ => {}
                    }
                }
            }
            // The last word has bits past the end.
            if let Some(start) = open.filter(|start| piece.start + start < piece.end) {
                left.push(piece.start + start..piece.end);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_as_bytes(
            sizes in prop::collection::vec((1..200u64, 0..70u64), 1..4),
            writes in prop::collection::vec((0..900u64, 1..40u64), 0..20),
            reads in prop::collection::vec((0..900u64, 1..40u64), 1..20),
        ) {
            let mut bytes = vec![false; 1000];
            let mut at = 3;
            let mut ranges = Vec::new();
            for (size, gap) in sizes {
                ranges.push(at..at + size);
                bytes[at as usize..(at + size) as usize].fill(true);
                at += size + gap;
            }
            ranges.reverse();
            let unwritten = Unwritten::new(ranges);
            for (start, length) in writes {
                unwritten.is_written(start, length);
                bytes[start as usize..(start + length) as usize].fill(false);
            }
            for (start, length) in reads {
                let any = bytes[start as usize..(start + length) as usize].iter().any(|byte| *byte);
                prop_assert_eq!(unwritten.is_read(start, length), any);
            }
            let mut left = vec![false; 1000];
            for range in unwritten.left() {
                prop_assert!(range.start < range.end);
                left[range.start as usize..range.end as usize].fill(true);
            }
            prop_assert_eq!(left, bytes);
        }
    }
}
