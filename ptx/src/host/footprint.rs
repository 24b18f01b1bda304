//! Where a launch touches global memory, by sampling: each site records its first access to a piece of memory, and pieces grow
//! with their number. Further accesses to a piece cost nothing, because their address check passes as before.

use std::ops::Range;

use parking_lot::Mutex;

use crate::host::memory_ops::Access;

/// Logarithm of the bytes of a site's first pieces: a page.
const FIRST: u32 = 12;

/// Pieces of one size; those that follow are four times as large. So a site has a few hundred samples at most.
const PIECES: u32 = 64;

/// Logarithm of the bytes of the largest pieces: a tebibyte, more than any allocation.
const LARGEST: u32 = 40;

/// Bytes of global memory that a launch touched. There may be others: this is evidence, not a complete list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// The first byte.
    pub address: u64,
    /// How many.
    pub bytes: u64,
    /// Whether they are written.
    pub writes: bool,
    /// Whether the instruction may meet others of its kind without a race: an atomic one, or a strong load or store.
    pub is_atomic: bool,
}

/// Samples of a launch's accesses, for [`crate::Launch::footprint`].
#[derive(Debug, Default)]
pub struct Footprint(Mutex<Vec<Sample>>);

impl Footprint {
    /// What was found, sorted, without duplicates. The first thread's accesses are always included. Which others are depends on
    /// how the blocks were spread over the host's threads.
    pub fn into_samples(self) -> Vec<Sample> {
        let mut samples = self.0.into_inner();
        samples.sort_unstable();
        samples.dedup();
        samples
    }

    pub(crate) fn add(&self, found: Vec<Sample>) {
        self.0.lock().extend(found);
    }
}

#[derive(Clone, Default)]
struct Site {
    /// The piece in which the site's last access was.
    piece: Range<u64>,
    count: u32,
}

/// A worker's samples.
pub(crate) struct Sampler {
    sites: Vec<Site>,
    found: Vec<Sample>,
}

impl Sampler {
    pub(crate) fn new(sites: usize) -> Self {
        Self { sites: vec![Site::default(); sites], found: Vec::new() }
    }

    pub(crate) fn into_found(self) -> Vec<Sample> {
        self.found
    }

    /// Notes that a site makes an access. Returns the addresses at which the site need not be noted again.
    pub(crate) fn sees(&mut self, site: u64, address: u64, bytes: u64, access: Access) -> Range<u64> {
        let end = address.saturating_add(bytes);
        let site = &mut self.sites[site as usize];
        if !(site.piece.start <= address && end <= site.piece.end) {
            let size = 1 << (FIRST + site.count / PIECES * 2).min(LARGEST);
            site.count += 1;
            site.piece = address / size * size..end.checked_next_multiple_of(size).unwrap_or(end);
            if access != Access::Object && bytes > 0 {
                let is_atomic = !matches!(access, Access::Read | Access::Write);
                self.found.push(Sample { address, bytes, writes: access.writes(), is_atomic });
            }
        }
        site.piece.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_shows_few_of_many_accesses() {
        let mut sampler = Sampler::new(2);
        let first = sampler.sees(0, 0x10_0040, 16, Access::Read);
        assert_eq!(first, 0x10_0000..0x10_1000);
        sampler.sees(0, 0x10_0ff0, 16, Access::Read);
        sampler.sees(1, 0x10_0040, 4, Access::Atomic);
        // Half of this access is past the piece.
        assert_eq!(sampler.sees(0, 0x10_0ff8, 16, Access::Write), 0x10_0000..0x10_2000);
        let seen = |address, bytes, writes, is_atomic| Sample { address, bytes, writes, is_atomic };
        let footprint = Footprint::default();
        footprint.add(sampler.into_found());
        footprint.add(vec![seen(0x10_0040, 4, true, true)]);
        assert_eq!(
            footprint.into_samples(),
            [seen(0x10_0040, 4, true, true), seen(0x10_0040, 16, false, false), seen(0x10_0ff8, 16, true, false),]
        );
        let mut sampler = Sampler::new(1);
        for row in 0..1 << 22 {
            let address = (row % 2048) * (1 << 21) + row / 2048 * 64;
            let piece = sampler.sees(0, address, 64, Access::Read);
            assert!(piece.start <= address && address + 64 <= piece.end);
        }
        let count = sampler.into_found().len();
        assert!((2048 / 16..1000).contains(&count), "{count} samples of four million accesses to four gibibytes");
    }
}
