//! For every byte that work was seen to touch: who wrote it last, and who has read it since.

use std::collections::BTreeMap;

use protocol::ids::SiteId;

use super::clock::Clock;

/// A range of memory that a piece of work touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Its first byte.
    pub(crate) address: usize,
    /// How many bytes.
    pub(crate) bytes: usize,
    /// Whether they are written.
    pub(crate) writes: bool,
}

impl Access {
    /// Whether the two share a byte.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.address < other.address.saturating_add(other.bytes)
            && other.address < self.address.saturating_add(self.bytes)
    }
}

/// A piece of work that touched a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) stream: u64,
    /// Its number in the stream.
    pub(super) number: u64,
    /// The operator or call.
    pub(super) name: &'static str,
    /// Where the program called it.
    pub(super) site: SiteId,
    /// In a backward pass, where it called the operator that this is the derivative of.
    pub(super) forward: SiteId,
    /// Its number among all work that the program submitted.
    pub(super) order: u64,
    /// Whether it touched the byte with an atomic instruction.
    pub(super) is_atomic: bool,
}

impl Work {
    pub(super) fn is_before(&self, clock: &Clock) -> bool {
        self.number <= clock.time_of(self.stream)
    }
}

/// An earlier access that nothing orders before the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) work: Work,
    pub(super) writes: bool,
}

/// Bytes with one history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    end: usize,
    writer: Option<Work>,
    /// The last reader of each stream since then.
    readers: Vec<Work>,
}

impl Segment {
    /// Bytes that only `work` has touched.
    fn new(end: usize, writes: bool, work: Work) -> Self {
        let (writer, readers) = if writes { (Some(work), Vec::new()) } else { (None, vec![work]) };
        Self { end, writer, readers }
    }

    /// An access before `now`'s that conflicts with it. Work that was submitted later knows better.
    fn conflict(&self, writes: bool, now: Work, clock: &Clock) -> Option<Conflict> {
        let unordered =
            |work: &&Work| work.order < now.order && !work.is_before(clock) && !(work.is_atomic && now.is_atomic);
        let writer = self.writer.as_ref().filter(unordered).map(|work| Conflict { work: *work, writes: true });
        // The first of several, so that it does not depend on what was read before those.
        let reader = || self.readers.iter().filter(unordered).min_by_key(|work| work.order);
        let reader = || reader().map(|work| Conflict { work: *work, writes: false });
        writer.or_else(|| if writes { reader() } else { None })
    }

    /// Records `work`, unless the bytes were written by work that was submitted later. Returns an earlier access that conflicts.
    fn touch_overtaken(&mut self, writes: bool, work: Work, clock: &Clock) -> Option<Conflict> {
        let conflict = self.conflict(writes, work, clock);
        if self.writer.is_some_and(|writer| writer.order > work.order) {
            return conflict;
        }
        if writes {
            self.writer = Some(work);
            self.readers.retain(|reader| reader.order > work.order);
        } else {
            self.read_by(work);
        }
        conflict
    }

    fn read_by(&mut self, work: Work) {
        match self.readers.iter_mut().find(|known| known.stream == work.stream) {
            Some(known) if known.order > work.order => {}
            Some(known) => *known = work,
            None => self.readers.push(work),
        }
    }
}

/// The memory of a process.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// The segments by their first byte; they do not overlap.
    segments: BTreeMap<usize, Segment>,
}

impl Shadow {
    /// Records that `work`, which is ordered after everything `clock` knows, touches a range. Returns an earlier access
    /// that it races with.
    pub(super) fn touch(&mut self, access: Access, work: Work, clock: &Clock) -> Option<Conflict> {
        let Access { address: start, bytes, writes } = access;
        let end = start.checked_add(bytes).filter(|end| *end > start)?;
        // Mostly the same tensors are touched again.
        if let Some(segment) = self.segments.get_mut(&start).filter(|segment| segment.end == end) {
            let conflict = segment.conflict(writes, work, clock);
            if writes {
                segment.writer = Some(work);
                segment.readers.clear();
            } else {
                segment.read_by(work);
            }
            return conflict;
        }
        if !writes {
            return self.touch_overtaken(access, work, clock);
        }
        self.split(start);
        self.split(end);
        let mut conflict = None;
        for (_, segment) in self.segments.range(start..end) {
            conflict = conflict.or_else(|| segment.conflict(writes, work, clock));
        }
        self.clear(start, end);
        self.segments.insert(start, Segment::new(end, writes, work));
        conflict
    }

    /// The same for work that ran after other work had been submitted: the records of that work stay.
    pub(super) fn touch_overtaken(&mut self, access: Access, work: Work, clock: &Clock) -> Option<Conflict> {
        let Access { address: start, bytes, writes } = access;
        let end = start.checked_add(bytes).filter(|end| *end > start)?;
        // Mostly nobody has touched them since they were handed out, or the same bytes were touched.
        match self.segments.range_mut(..end).next_back() {
            Some((at, segment)) if *at == start && segment.end == end => {
                return segment.touch_overtaken(writes, work, clock);
            }
            Some((_, segment)) if segment.end > start => {}
            _ => {
                self.segments.insert(start, Segment::new(end, writes, work));
                return None;
            }
        }
        self.split(start);
        self.split(end);
        let (mut from, mut holes, mut conflict) = (start, Vec::new(), None);
        for (at, segment) in self.segments.range_mut(start..end) {
            if from < *at {
                holes.push((from, *at));
            }
            from = segment.end;
            let found = segment.touch_overtaken(writes, work, clock);
            conflict = conflict.or(found);
        }
        if from < end {
            holes.push((from, end));
        }
        for (from, end) in holes {
            self.segments.insert(from, Segment::new(end, writes, work));
        }
        conflict
    }

    /// The last writer of some of these bytes, if `clock` does not know about it.
    pub(super) fn writer(&self, start: usize, bytes: usize, clock: &Clock) -> Option<Work> {
        let end = start.saturating_add(bytes);
        let before = self.segments.range(..start).next_back().filter(|(_, segment)| segment.end > start);
        let within = before.into_iter().chain(self.segments.range(start..end.max(start)));
        within.filter_map(|(_, segment)| segment.writer).find(|work| !work.is_before(clock))
    }

    /// Forgets these bytes, as if nobody had touched them.
    pub(super) fn forget(&mut self, start: usize, bytes: usize) {
        let end = start.saturating_add(bytes);
        self.split(start);
        self.split(end);
        self.clear(start, end);
    }

    fn clear(&mut self, start: usize, end: usize) {
        self.segments.extract_if(start..end, |_, _| true).for_each(drop);
    }

    /// Splits the segment around `at`, if any, so that `at` is a boundary.
    fn split(&mut self, at: usize) {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if segment.end > at {
            let behind = segment.clone();
            segment.end = at;
            self.segments.insert(at, behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPACE: usize = 32;
    const STREAMS: u64 = 3;

    /// The reference for the shadow: the same for every byte separately.
    #[derive(Default)]
    struct Bytes([(Option<Work>, Vec<Work>); SPACE]);

    impl Bytes {
        fn touch(&mut self, access: Access, work: Work, clock: &Clock) -> bool {
            let mut races = false;
            for (writer, readers) in &mut self.0[access.address..access.address + access.bytes] {
                races |= writer.is_some_and(|writer| !writer.is_before(clock));
                races |= access.writes && readers.iter().any(|reader| !reader.is_before(clock));
                if access.writes {
                    (*writer, *readers) = (Some(work), Vec::new());
                } else {
                    readers.push(work);
                }
            }
            races
        }
    }

    fn work(stream: u64, number: u64, order: u64) -> Work {
        let site = SiteId::default();
        Work { stream, number, name: "work", site, forward: site, order, is_atomic: false }
    }

    #[test]
    fn what_is_overtaken_leaves_what_came_meanwhile() {
        let mut shadow = Shadow::default();
        let mut clocks = [Clock::new(), Clock::new(), Clock::new()];
        let access = |address, bytes, writes| Access { address, bytes, writes };
        let [before, kernel, later] =
            [0, 1, 2].map(|stream| work(stream, clocks[stream as usize].tick(stream), stream + 1));
        assert_eq!(shadow.touch(access(0, 8, true), before, &clocks[0]), None);
        assert_eq!(shadow.touch(access(4, 8, true), later, &clocks[2]).map(|conflict| conflict.work), Some(before));
        // The first four bytes and the last are the kernel's, what came later is not looked at here.
        let conflict = shadow.touch_overtaken(access(0, 16, true), kernel, &clocks[1]);
        assert_eq!(conflict.map(|conflict| conflict.work), Some(before));
        let writers = |shadow: &Shadow| {
            shadow.segments.iter().map(|(at, s)| (*at, s.end, s.writer.unwrap().order)).collect::<Vec<_>>()
        };
        assert_eq!(writers(&shadow), [(0, 4, 2), (4, 12, 3), (12, 16, 2)]);
        // Atomic accesses meet.
        let [one, other] = [(0, 4), (1, 5)].map(|(stream, order)| Work { is_atomic: true, ..work(stream, 9, order) });
        assert_eq!(shadow.touch_overtaken(access(32, 4, true), one, &clocks[0]), None);
        assert_eq!(shadow.touch_overtaken(access(32, 4, true), other, &clocks[1]), None);
        assert!(shadow.touch_overtaken(access(32, 4, false), work(2, 9, 6), &clocks[2]).is_some());
    }

    proptest! {
        #[test]
        fn ranges_are_as_bytes(steps in prop::collection::vec(
            (0..STREAMS, 0..SPACE, 1..12usize, any::<bool>(), prop::option::of(0..STREAMS), 0..20u8), 1..60,
        )) {
            let mut shadow = Shadow::default();
            let mut bytes = Bytes::default();
            let mut clocks = vec![Clock::new(); STREAMS as usize];
            let mut order = 0;
            for (stream, address, length, writes, waits_for, forgets) in steps {
                if let Some(other) = waits_for {
                    let other = clocks[other as usize].clone();
                    clocks[stream as usize].join(&other);
                }
                let access = Access { address, bytes: length.min(SPACE - address), writes };
                if forgets == 0 {
                    shadow.forget(access.address, access.bytes);
                    bytes.0[access.address..access.address + access.bytes].fill((None, Vec::new()));
                    continue;
                }
                let clock = &mut clocks[stream as usize];
                let unordered = |(writer, _): &(Option<Work>, Vec<Work>)| writer.is_some_and(|writer| !writer.is_before(clock));
                let written = bytes.0[access.address..access.address + access.bytes].iter().any(unordered);
                prop_assert_eq!(shadow.writer(access.address, access.bytes, clock).is_some(), written);
                order += 1;
                let work = work(stream, clock.tick(stream), order);
                let conflict = shadow.touch(access, work, clock);
                prop_assert_eq!(conflict.is_some(), bytes.touch(access, work, clock));
                prop_assert!(conflict.is_none_or(|conflict| conflict.work.stream != stream));
            }
            let mut last = 0;
            for (at, segment) in &shadow.segments {
                prop_assert!(last <= *at && *at < segment.end);
                last = segment.end;
            }
        }
    }
}
