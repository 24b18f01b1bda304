//! Ranges that were freed and not allocated since, to tell what a dangling pointer once pointed to.

use std::collections::BTreeMap;

use protocol::ids::SiteId;

/// Maximum number of ranges kept; beyond that, the lowest are forgotten.
const MOST: usize = 1 << 16;

/// Freed ranges, by their first byte.
#[derive(Debug)]
pub(crate) struct Freed(BTreeMap<usize, Range>);

#[derive(Clone, Copy, Debug)]
struct Range {
    end: usize,
    was: Was,
}

/// The allocation that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Was {
    /// Where it started.
    pub(crate) start: usize,
    /// Bytes asked for.
    pub(crate) size: usize,
    /// `cudaDeviceReset` freed it.
    pub(crate) by_reset: bool,
    /// Where it was allocated, if that is known.
    pub(crate) site: SiteId,
}

impl Freed {
    /// An empty record.
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Records that an allocation was freed.
    pub(crate) fn add(&mut self, start: usize, size: usize, by_reset: bool, site: SiteId) {
        self.reuse(start, size);
        self.0.insert(start, Range { end: start + size, was: Was { start, size, by_reset, site } });
        if self.0.len() > MOST {
            self.0.pop_first();
        }
    }

    /// Records that `size` bytes at `start` belong to a new allocation.
    pub(crate) fn reuse(&mut self, start: usize, size: usize) {
        let end = start + size;
        while let Some((&first, &range)) = self.0.range(..end).next_back().filter(|(_, range)| range.end > start) {
            self.0.remove(&first);
            if range.end > end {
                self.0.insert(end, range);
            }
            if first < start {
                self.0.insert(first, Range { end: start, ..range });
            }
        }
    }

    /// The freed allocation that had the byte at `place`.
    pub(crate) fn find(&self, place: usize) -> Option<Was> {
        let (_, range) = self.0.range(..=place).next_back()?;
        (place < range.end).then_some(range.was)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: SiteId = SiteId(0);

    #[test]
    fn what_is_given_out_again_is_not_freed_any_more() {
        let mut freed = Freed::new();
        freed.add(1000, 100, false, SITE);
        freed.add(2000, 100, true, SITE);
        let was = Some(Was { start: 1000, size: 100, by_reset: false, site: SITE });
        assert_eq!([freed.find(999), freed.find(1000), freed.find(1099), freed.find(1100)], [None, was, was, None]);
        assert!(freed.find(2050).is_some_and(|was| was.by_reset));
        freed.reuse(1010, 20);
        assert_eq!([freed.find(1009), freed.find(1010), freed.find(1029), freed.find(1030)], [was, None, None, was]);
        freed.reuse(900, 1500);
        assert_eq!([1000, 1050, 2000].map(|place| freed.find(place)), [None; 3]);
        freed.add(1000, 10, false, SITE);
        freed.add(1000, 20, false, SITE);
        assert_eq!(freed.find(1015), Some(Was { start: 1000, size: 20, by_reset: false, site: SITE }));
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let mut freed = Freed::new();
        (0..=MOST).for_each(|index| freed.add(index * 8, 8, false, SITE));
        assert_eq!((freed.find(0), freed.find(8).is_some()), (None, true));
    }
}
