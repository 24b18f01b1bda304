//! A set of registers, as a bit for each.

use crate::ir::{Reg, SINK};

/// A set of registers. Results that nobody reads are never in one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    /// An empty set, for so many registers.
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// The set of all of so many registers.
    pub(crate) fn full(count: usize) -> Self {
        Self(vec![u64::MAX; count.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, reg: Reg) {
        if reg != SINK {
            self.0[reg as usize / 64] |= 1 << (reg % 64);
        }
    }

    pub(crate) fn remove(&mut self, reg: Reg) {
        if reg != SINK {
            self.0[reg as usize / 64] &= !(1 << (reg % 64));
        }
    }

    pub(crate) fn has(&self, reg: Reg) -> bool {
        reg != SINK && self.0[reg as usize / 64] >> (reg % 64) & 1 != 0
    }

    /// Adds registers. Returns whether any were new.
    pub(crate) fn union(&mut self, other: &Self) -> bool {
        let mut new = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            new |= *theirs & !*mine != 0;
            *mine |= theirs;
        }
        new
    }

    pub(crate) fn intersect(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine &= theirs);
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine &= !theirs);
    }

    /// The registers of the set, in increasing order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Reg> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = *bits;
            std::iter::from_fn(move || {
                (bits != 0).then(|| {
                    let bit = bits.trailing_zeros();
                    bits &= bits - 1;
                    word as u32 * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn set(registers: &[Reg]) -> Set {
        let mut set = Set::new(200);
        registers.iter().for_each(|reg| set.insert(*reg));
        set
    }

    proptest! {
        #[test]
        fn it_is_what_a_tree_of_numbers_is(a in vec(0u32..200, 0..20), b in vec(0u32..200, 0..20), reg in 0u32..200) {
            let trees: [BTreeSet<Reg>; 2] = [&a, &b].map(|list| list.iter().copied().collect());
            let list = |tree: &BTreeSet<Reg>| tree.iter().copied().collect::<Vec<_>>();
            let mut both = set(&a);
            prop_assert_eq!(both.union(&set(&b)), !trees[1].is_subset(&trees[0]));
            prop_assert_eq!(both.iter().collect::<Vec<_>>(), list(&(&trees[0] | &trees[1])));
            let mut common = set(&a);
            common.intersect(&set(&b));
            prop_assert_eq!(common.iter().collect::<Vec<_>>(), list(&(&trees[0] & &trees[1])));
            let mut less = set(&a);
            less.subtract(&set(&b));
            prop_assert_eq!(less.iter().collect::<Vec<_>>(), list(&(&trees[0] - &trees[1])));
            prop_assert_eq!(both.has(reg), trees.iter().any(|tree| tree.contains(&reg)));
            both.remove(reg);
            prop_assert!(!both.has(reg));
        }
    }

    #[test]
    fn a_result_that_nobody_reads_is_in_none() {
        let mut set = Set::new(3);
        set.insert(SINK);
        set.remove(SINK);
        assert_eq!((set.has(SINK), set == Set::new(3)), (false, true));
    }
}
