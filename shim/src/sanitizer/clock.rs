//! Vector clocks: which work of which streams is known to be done before some point (Lamport, "Time, Clocks, and the Ordering
//! of Events in a Distributed System", 1978).

/// The number of pieces of work known to be done, per stream. Sorted by stream; streams with none are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<(u64, u64)>);

impl Clock {
    /// A clock without any work.
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The number of pieces of work of `stream`.
    pub(super) fn time_of(&self, stream: u64) -> u64 {
        self.place(stream).map_or(0, |place| self.0[place].1)
    }

    /// Adds a piece of work of `stream`; returns its number, from 1.
    pub(super) fn tick(&mut self, stream: u64) -> u64 {
        match self.place(stream) {
            Ok(place) => {
                self.0[place].1 += 1;
                self.0[place].1
            }
            Err(place) => {
                self.0.insert(place, (stream, 1));
                1
            }
        }
    }

    /// Adds everything that `other` knows.
    pub(super) fn join(&mut self, other: &Clock) {
        for &(stream, number) in &other.0 {
            match self.place(stream) {
                Ok(place) => self.0[place].1 = self.0[place].1.max(number),
                Err(place) => self.0.insert(place, (stream, number)),
            }
        }
    }

    fn place(&self, stream: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&stream, |(known, _)| *known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_knows_what_either_knew() {
        let (mut left, mut right) = (Clock::new(), Clock::new());
        assert_eq!((left.tick(7), left.tick(7), left.tick(3)), (1, 2, 1));
        assert_eq!((right.tick(7), right.tick(5)), (1, 1));
        right.join(&left);
        assert_eq!([3, 5, 7, 9].map(|stream| right.time_of(stream)), [1, 1, 2, 0]);
        let before = right.clone();
        right.join(&left);
        assert_eq!(right, before);
    }
}
