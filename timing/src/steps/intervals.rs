//! Sets of moments as lists of intervals: their union, what one has and another has not, and how much lies within a window. All in ns.

/// From when to when; the end is not part of it.
pub type Interval = (u64, u64);

/// Intervals that are kept apart before those that touch are joined.
const KEPT: usize = 1 << 16;

/// Intervals that come in any order and may overlap.
#[derive(Clone, Debug, Default)]
pub struct Intervals(Vec<Interval>);

impl Intervals {
    /// None.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds one; an empty one changes nothing.
    pub fn add(&mut self, (begin, end): Interval) {
        if end <= begin {
            return;
        }
        if let Some(last) = self.0.last_mut()
            && begin <= last.1
            && begin >= last.0
        {
            last.1 = last.1.max(end);
            return;
        }
        self.0.push((begin, end));
        if self.0.len().is_multiple_of(KEPT) {
            self.joined();
        }
    }

    /// In order, and joined where they touch.
    pub fn joined(&mut self) -> &[Interval] {
        self.0.sort_unstable();
        self.0.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        &self.0
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// When one of two joined lists has something.
pub(super) fn union(one: &[Interval], other: &[Interval]) -> Vec<Interval> {
    let mut both = Intervals([one, other].concat());
    both.joined();
    both.0
}

/// When the joined list `one` has something and the joined list `other` has nothing.
pub(super) fn without(one: &[Interval], other: &[Interval]) -> Vec<Interval> {
    let mut rest = Vec::new();
    let mut first = 0;
    for &(mut begin, end) in one {
        while other.get(first).is_some_and(|(_, ends)| *ends <= begin) {
            first += 1;
        }
        for &(from, to) in other[first..].iter().take_while(|(from, _)| *from < end) {
            if from > begin {
                rest.push((begin, from));
            }
            begin = begin.max(to);
        }
        if begin < end {
            rest.push((begin, end));
        }
    }
    rest
}

/// When one of `these` is there and none of `others`, in any order.
pub fn only(these: impl IntoIterator<Item = Interval>, others: impl IntoIterator<Item = Interval>) -> Vec<Interval> {
    let joined = |list: &mut dyn Iterator<Item = Interval>| {
        let mut intervals = Intervals::new();
        list.for_each(|interval| intervals.add(interval));
        intervals.joined().to_vec()
    };
    without(&joined(&mut these.into_iter()), &joined(&mut others.into_iter()))
}

/// How much of a joined list lies within windows.
#[derive(Clone, Debug)]
pub(super) struct Coverage {
    intervals: Vec<Interval>,
    /// How much lies before each of them.
    before: Vec<u64>,
}

impl Coverage {
    /// For a joined list.
    pub(super) fn new(intervals: Vec<Interval>) -> Self {
        let mut sum = 0;
        let mut add = |(begin, end): &Interval| {
            let before = sum;
            sum += end - begin;
            before
        };
        let before = intervals.iter().map(&mut add).collect();
        Self { intervals, before }
    }

    /// The length of all.
    pub(super) fn total(&self) -> u64 {
        self.until(u64::MAX)
    }

    /// The length of what lies within a window.
    pub(super) fn within(&self, (begin, end): Interval) -> u64 {
        self.until(end) - self.until(begin.min(end))
    }

    fn until(&self, moment: u64) -> u64 {
        let Some(last) = self.intervals.partition_point(|(begin, _)| *begin < moment).checked_sub(1) else { return 0 };
        let (begin, end) = self.intervals[last];
        self.before[last] + end.min(moment) - begin
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_touches_is_one() {
        let mut intervals = Intervals::default();
        [(30, 40), (0, 10), (5, 12), (12, 20), (13, 13)].into_iter().for_each(|interval| intervals.add(interval));
        assert_eq!(intervals.joined(), [(0, 20), (30, 40)]);
        assert_eq!(union(&[(0, 20), (30, 40)], &[(20, 25), (39, 50)]), [(0, 25), (30, 50)]);
    }

    #[test]
    fn what_another_has_is_taken_out() {
        let one = [(0, 20), (30, 40), (50, 60)];
        assert_eq!(without(&one, &[(10, 35), (38, 45)]), [(0, 10), (35, 38), (50, 60)]);
        assert_eq!(without(&one, &[(5, 6), (7, 8)]), [(0, 5), (6, 7), (8, 20), (30, 40), (50, 60)]);
        assert_eq!(without(&one, &[]), one);
        assert_eq!(without(&one, &[(0, 100)]), []);
        assert_eq!(only([(30, 50), (0, 20)], [(35, 38), (10, 40)]), [(0, 10), (40, 50)]);
    }

    #[test]
    fn a_window_has_parts_of_intervals() {
        let coverage = Coverage::new(vec![(10, 20), (30, 40)]);
        for (window, length) in
            [((0, 10), 0), ((0, 15), 5), ((15, 35), 10), ((20, 30), 0), ((12, 18), 6), ((0, 90), 20), ((35, 5), 0)]
        {
            assert_eq!(coverage.within(window), length, "{window:?}");
        }
        assert_eq!(coverage.total(), 20);
    }

    proptest! {
        /// Every operation, moment by moment.
        #[test]
        fn sets_are_what_their_moments_say(
            one in prop::collection::vec((0u64..60, 0u64..9), 0..12),
            other in prop::collection::vec((0u64..60, 0u64..9), 0..12),
            window in (0u64..70, 0u64..70),
        ) {
            let list = |lengths: &[(u64, u64)]| {
                let mut list = Intervals::default();
                lengths.iter().for_each(|(begin, length)| list.add((*begin, begin + length)));
                list.joined().to_vec()
            };
            let has = |list: &[Interval], moment: u64| list.iter().any(|(begin, end)| (*begin..*end).contains(&moment));
            let (one_list, other_list) = (list(&one), list(&other));
            let (either, rest) = (union(&one_list, &other_list), without(&one_list, &other_list));
            let coverage = Coverage::new(one_list.clone());
            let raw = |lengths: &[(u64, u64)], moment| lengths.iter().any(|(begin, length)| (*begin..begin + length).contains(&moment));
            let mut inside = 0;
            for moment in 0..80 {
                let (a, b) = (raw(&one, moment), raw(&other, moment));
                prop_assert_eq!(has(&either, moment), a || b);
                prop_assert_eq!(has(&rest, moment), a && !b);
                inside += u64::from(a && (window.0..window.1).contains(&moment));
            }
            prop_assert_eq!(coverage.within(window), inside);
        }
    }
}
