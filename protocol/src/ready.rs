//! When the ranks of an operation are ready on the modeled clock, and which of them was last.

/// A rank is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// When, on the modeled clock, ns; 0 without one.
    pub ns: u64,
    /// Which rank of the communicator.
    pub rank: u32,
}

impl Ready {
    /// The later one of both; of two at the same time the lower rank, so that all ranks name the same.
    #[must_use]
    pub fn or_later(self, other: Self) -> Self {
        let is_later = (other.ns, self.rank) > (self.ns, other.rank);
        if is_later { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_one_wins_and_of_two_the_lower_rank() {
        let ready = |ns, rank| Ready { ns, rank };
        for (one, other, last) in [
            (ready(7, 0), ready(9, 1), ready(9, 1)),
            (ready(7, 3), ready(7, 1), ready(7, 1)),
            (ready(0, 2), ready(0, 5), ready(0, 2)),
        ] {
            assert_eq!((one.or_later(other), other.or_later(one)), (last, last));
        }
    }
}
