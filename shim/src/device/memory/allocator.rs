//! Places allocations in a device's memory: pure bookkeeping of offsets, like NVIDIA's driver. Above 1 MiB an
//! allocation takes whole 2 MiB pages; smaller ones share pages at 512-byte steps.

use std::collections::{BTreeMap, BTreeSet};

/// The driver hands out physical memory in pages of 2 MiB.
pub(crate) const PAGE: usize = 2 << 20;
/// Alignment of every device pointer.
pub(crate) const ALIGNMENT: usize = 512;
/// Allocations up to this size share pages.
const SHARED: usize = 1 << 20;

/// Free ranges; neighbors are merged.
#[derive(Debug, Default)]
struct Extents {
    by_offset: BTreeMap<usize, usize>,
    by_length: BTreeSet<(usize, usize)>,
}

impl Extents {
    fn remove(&mut self, offset: usize) -> Option<usize> {
        let length = self.by_offset.remove(&offset)?;
        self.by_length.remove(&(length, offset));
        Some(length)
    }

    fn put(&mut self, offset: usize, length: usize) {
        if length > 0 {
            self.by_offset.insert(offset, length);
            self.by_length.insert((length, offset));
        }
    }

    /// Adds a range and returns the merged one that it became part of.
    fn insert(&mut self, mut offset: usize, mut length: usize) -> (usize, usize) {
        if let Some((&before, &before_length)) = self.by_offset.range(..offset).next_back()
            && before + before_length == offset
        {
            self.remove(before);
            offset = before;
            length += before_length;
        }
        if let Some(after_length) = self.remove(offset + length) {
            length += after_length;
        }
        self.put(offset, length);
        (offset, length)
    }

    /// Takes `length` from the start of the smallest range that fits.
    fn take(&mut self, length: usize) -> Option<usize> {
        let &(found, offset) = self.by_length.range((length, 0)..).next()?;
        self.remove(offset);
        self.put(offset + length, found - length);
        Some(offset)
    }

    /// Takes exactly the range given, which must be free.
    fn carve(&mut self, offset: usize, length: usize) {
        let found = self.by_offset.range(..=offset).next_back().map(|(start, size)| (*start, *size));
        if let Some((start, size)) = found {
            self.remove(start);
            self.put(start, offset - start);
            self.put(offset + length, start + size - (offset + length));
        }
    }
}

/// An allocation that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    /// Requested size in bytes.
    pub(crate) size: usize,
    /// Whole pages that are no longer used: (offset, length).
    pub(crate) pages: Option<(usize, usize)>,
}

/// Bookkeeping of one device's memory.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Bytes that may be in use at once.
    limit: usize,
    /// Bytes of pages in use.
    used: usize,
    /// Bytes after every allocation that belong to none.
    gap: usize,
    pages: Extents,
    shared: Extents,
    /// Offset -> (bytes requested, bytes taken).
    live: BTreeMap<usize, (usize, usize)>,
}

impl Allocator {
    /// `limit` bytes may be in use at once, anywhere in `length` bytes of addresses. The additional addresses make
    /// fragmentation harmless, as a GPU's page tables do.
    pub(crate) fn new(limit: usize, length: usize) -> Self {
        let mut pages = Extents::default();
        pages.put(0, length / PAGE * PAGE);
        Self { limit: limit / PAGE * PAGE, used: 0, gap: 0, pages, shared: Extents::default(), live: BTreeMap::new() }
    }

    /// Leaves at least `bytes` unused after every allocation, so that an access past its end does not reach a neighbor.
    pub(crate) fn with_gaps(self, bytes: usize) -> Self {
        Self { gap: bytes, ..self }
    }

    /// Finds room for `size` bytes, above 0; `None` if the memory is used up.
    pub(crate) fn allocate(&mut self, size: usize) -> Option<usize> {
        if size > self.limit {
            return None;
        }
        let (offset, taken) = if size > SHARED {
            let taken = (size + self.gap).next_multiple_of(PAGE);
            (self.take_pages(taken, size.next_multiple_of(PAGE))?, taken)
        } else {
            let taken = (size.max(1) + self.gap).next_multiple_of(ALIGNMENT);
            let offset = match self.shared.take(taken) {
                Some(offset) => offset,
                None => {
                    let page = self.take_pages(PAGE, PAGE)?;
                    self.shared.insert(page, PAGE);
                    self.shared.take(taken)?
                }
            };
            (offset, taken)
        };
        self.live.insert(offset, (size, taken));
        Some(offset)
    }

    /// `length` bytes of addresses, of which the first `counted` are in use. Anything that fits into a GPU's memory also fits
    /// with gaps.
    fn take_pages(&mut self, length: usize, counted: usize) -> Option<usize> {
        if self.used + counted > self.limit {
            return None;
        }
        let offset = self.pages.take(length)?;
        self.used += counted;
        Some(offset)
    }

    /// Frees the allocation that starts at `offset`; `None` if none does.
    pub(crate) fn free(&mut self, offset: usize) -> Option<Freed> {
        let (size, taken) = self.live.remove(&offset)?;
        let pages = if size > SHARED {
            self.used -= size.next_multiple_of(PAGE);
            Some((offset, taken))
        } else {
            let (start, length) = self.shared.insert(offset, taken);
            let first = start.next_multiple_of(PAGE);
            let end = (start + length) / PAGE * PAGE;
            (first < end).then(|| {
                self.shared.carve(first, end - first);
                self.used -= end - first;
                (first, end - first)
            })
        };
        if let Some((start, length)) = pages {
            self.pages.insert(start, length);
        }
        Some(Freed { size, pages })
    }

    /// (start, requested size) of the allocation that holds `offset`.
    pub(crate) fn find(&self, offset: usize) -> Option<(usize, usize)> {
        let (&start, &(size, _)) = self.live.range(..=offset).next_back()?;
        (offset < start + size).then_some((start, size))
    }

    /// (start, requested size) of the last allocation that starts before `offset`, which is in no allocation.
    pub(crate) fn before(&self, offset: usize) -> Option<(usize, usize)> {
        let (&start, &(size, _)) = self.live.range(..offset).next_back()?;
        Some((start, size))
    }

    /// (start, requested size) of every allocation.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (usize, usize)> {
        self.live.iter().map(|(start, (size, _))| (*start, *size))
    }

    /// Where allocations start.
    pub(crate) fn starts(&self) -> Vec<usize> {
        self.live.keys().copied().collect()
    }

    /// Bytes of pages in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that may be in use.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_whole_and_small_ones_shared() {
        let mut memory = Allocator::new(64 * PAGE, 128 * PAGE);
        let a = memory.allocate(1).unwrap();
        let b = memory.allocate(1000).unwrap();
        assert_eq!((b - a, memory.used()), (512, PAGE));
        let c = memory.allocate(PAGE + 1).unwrap();
        assert_eq!((c % PAGE, memory.used()), (0, 3 * PAGE));
        assert_eq!(memory.find(b + 999), Some((b, 1000)));
        assert_eq!(memory.find(b + 1000), None);
        assert_eq!(memory.free(b + 1), None);
        assert_eq!(memory.free(c), Some(Freed { size: PAGE + 1, pages: Some((c, 2 * PAGE)) }));
        assert_eq!(memory.free(c), None, "a second free finds nothing");
        assert_eq!(memory.free(a), Some(Freed { size: 1, pages: None }));
        assert_eq!(memory.free(b), Some(Freed { size: 1000, pages: Some((0, PAGE)) }));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn gaps_are_nobodys() {
        let mut memory = Allocator::new(8 * PAGE, 16 * PAGE).with_gaps(512);
        let small = [memory.allocate(512).unwrap(), memory.allocate(512).unwrap()];
        assert_eq!((small[1] - small[0], memory.find(small[0] + 512)), (1024, None));
        let large = memory.allocate(2 * PAGE).unwrap();
        assert_eq!(
            (memory.find(large + 2 * PAGE), memory.used()),
            (None, 3 * PAGE),
            "a gap takes addresses, no memory"
        );
        assert_eq!(memory.free(large), Some(Freed { size: 2 * PAGE, pages: Some((large, 3 * PAGE)) }));
        assert!(memory.allocate(7 * PAGE).is_some() && memory.used() == 8 * PAGE);
    }

    #[test]
    fn holes_do_not_matter_until_the_limit() {
        let mut memory = Allocator::new(8 * PAGE, 16 * PAGE);
        let all: Vec<usize> = (0..4).map(|_| memory.allocate(2 * PAGE).unwrap()).collect();
        assert_eq!(memory.allocate(1), None);
        memory.free(all[0]);
        memory.free(all[2]);
        assert!(memory.allocate(4 * PAGE).is_some());
        assert_eq!(memory.allocate(1), None);
    }

    proptest::proptest! {
        #[test]
        fn live_allocations_never_overlap_and_all_memory_comes_back(
            steps in proptest::collection::vec((0..3u8, 1usize..5 << 20, 0usize..64), 1..200),
        ) {
            let mut memory = Allocator::new(256 * PAGE, 512 * PAGE);
            let mut live: Vec<(usize, usize)> = Vec::new();
            for (kind, size, pick) in steps {
                if kind == 0 && !live.is_empty() {
                    let (offset, size) = live.swap_remove(pick % live.len());
                    proptest::prop_assert_eq!(memory.free(offset).map(|freed| freed.size), Some(size));
                } else {
                    let size = if kind == 1 { size } else { size % 5000 + 1 };
                    let Some(offset) = memory.allocate(size) else { continue };
                    proptest::prop_assert_eq!(offset % ALIGNMENT, 0);
                    proptest::prop_assert!(live.iter().all(|(o, s)| offset + size <= *o || o + s <= offset));
                    live.push((offset, size));
                }
                let wanted: usize = live.iter().map(|(_, size)| size).sum();
                proptest::prop_assert!(wanted <= memory.used() && memory.used() <= 256 * PAGE);
            }
            for (offset, _) in live {
                memory.free(offset);
            }
            proptest::prop_assert_eq!(memory.used(), 0);
            proptest::prop_assert_eq!(memory.allocate(256 * PAGE), Some(0));
        }
    }
}
