//! Ranges of addresses with a value each, such as where the memory was allocated.

use std::collections::BTreeMap;

/// A range that begins at its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<T> {
    pub(super) end: usize,
    pub(super) value: T,
}

/// The ranges, by their first byte; they do not overlap.
#[derive(Debug)]
pub(super) struct Ranges<T>(BTreeMap<usize, Piece<T>>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Ranges<T> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl<T: Copy> Ranges<T> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, Piece<T>)> {
        self.0.iter().map(|(start, piece)| (*start, *piece))
    }

    pub(super) fn add(&mut self, start: usize, end: usize, value: T) {
        self.remove(start, end);
        if start < end {
            self.0.insert(start, Piece { end, value });
        }
    }

    pub(super) fn remove(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        let reaches_in = self.0.range(..start).next_back().map(|(at, piece)| (*at, *piece));
        if let Some((at, piece)) = reaches_in.filter(|(_, piece)| piece.end > start) {
            self.0.insert(at, Piece { end: start, ..piece });
            if piece.end > end {
                self.0.insert(end, piece);
            }
        }
        while let Some((at, piece)) = self.0.range(start..end).next().map(|(at, piece)| (*at, *piece)) {
            self.0.remove(&at);
            if piece.end > end {
                self.0.insert(end, piece);
            }
        }
    }

    /// The pieces within a range, clipped to it.
    pub(super) fn pieces(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, Piece<T>)> {
        let before = self.0.range(..start).next_back();
        before
            .into_iter()
            .chain(self.0.range(start..end.max(start)))
            .map(move |(at, piece)| ((*at).max(start), Piece { end: piece.end.min(end), ..*piece }))
            .filter(|(at, piece)| *at < piece.end)
    }

    /// How many bytes of a range are in pieces, and the value of the first.
    pub(super) fn within(&self, start: usize, end: usize) -> Option<(usize, T)> {
        let (_, first) = self.pieces(start, end).next()?;
        Some((self.pieces(start, end).map(|(at, piece)| piece.end - at).sum(), first.value))
    }

    pub(super) fn copy(&mut self, to: usize, from: usize, bytes: usize) {
        let pieces: Vec<_> = self.pieces(from, from.saturating_add(bytes)).collect();
        self.remove(to, to.saturating_add(bytes));
        for (at, piece) in pieces {
            self.add(to + (at - from), to + (piece.end - from), piece.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_as_bytes(steps in prop::collection::vec((0..4u8, 0..40usize, 1..12usize, 0..40usize), 1..60)) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 64];
            for (what, start, length, other) in steps {
                let (end, before) = (start + length, bytes);
                match what {
                    0 => {
                        ranges.add(start, end, ());
                        bytes[start..end].fill(true);
                    }
                    1 => {
                        ranges.remove(start, end);
                        bytes[start..end].fill(false);
                    }
                    2 => {
                        ranges.copy(other, start, length);
                        bytes[other..other + length].copy_from_slice(&before[start..end]);
                    }
                    _ => {}
                }
                let count = bytes[start..end].iter().filter(|byte| **byte).count();
                prop_assert_eq!(ranges.within(start, end).map_or(0, |(count, _)| count), count);
                let mut last = 0;
                for (at, piece) in &ranges.0 {
                    prop_assert!(last <= *at && *at < piece.end);
                    last = piece.end;
                }
            }
        }
    }
}
