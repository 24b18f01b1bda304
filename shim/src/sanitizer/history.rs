//! What work has touched, looked up no sooner than it has to be. While all that a program submits is ordered after everything
//! before it, as in one stream, nothing can race: accesses are only listed, and forgotten when the host has waited for all of them.
//! The first work that does not know of everything has the list entered into the shadow.

use super::clock::Clock;
use super::shadow::{Access, Conflict, Shadow, Work};

/// Maximum number of accesses listed, 3 MiB, and of entries.
const MOST: usize = 1 << 17;

/// Work whose accesses are entered once it is known what they are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Toucher<'a> {
    pub(super) work: Work,
    /// What it is ordered after.
    pub(super) clock: &'a Clock,
    /// Whether that is everything submitted before it, so that it races with nothing.
    pub(super) knows_all: bool,
    /// Whether other work may have been submitted since.
    pub(super) is_overtaken: bool,
}

#[derive(Debug)]
enum Entry {
    /// The next accesses of the list.
    Touched {
        work: Work,
        is_overtaken: bool,
        count: usize,
    },
    Gone {
        start: usize,
        bytes: usize,
    },
}

/// The memory of a process.
#[derive(Debug, Default)]
pub(super) struct History {
    shadow: Shadow,
    entries: Vec<Entry>,
    accesses: Vec<Access>,
}

impl History {
    /// Records an access. Returns an earlier one that it races with.
    pub(super) fn touch(&mut self, access: Access, by: Toucher<'_>) -> Option<Conflict> {
        let Toucher { work, clock, knows_all, is_overtaken } = by;
        if knows_all && self.accesses.len().max(self.entries.len()) < MOST {
            self.list(access, work, is_overtaken);
            return None;
        }
        self.enter();
        if is_overtaken {
            self.shadow.touch_overtaken(access, work, clock)
        } else {
            self.shadow.touch(access, work, clock)
        }
    }

    /// The last writer of some of these bytes, if `clock` does not know about it.
    pub(super) fn writer(&mut self, start: usize, bytes: usize, clock: &Clock) -> Option<Work> {
        self.enter();
        self.shadow.writer(start, bytes, clock)
    }

    /// Forgets these bytes, as if nobody had touched them.
    pub(super) fn forget(&mut self, start: usize, bytes: usize) {
        if self.entries.len() == MOST {
            self.enter();
        }
        if self.entries.is_empty() {
            self.shadow.forget(start, bytes);
        } else {
            self.entries.push(Entry::Gone { start, bytes });
        }
    }

    /// Called when all future work is ordered after everything recorded.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.accesses.clear();
        self.shadow = Shadow::default();
    }

    fn list(&mut self, access: Access, work: Work, is_overtaken: bool) {
        self.accesses.push(access);
        match self.entries.last_mut() {
            Some(Entry::Touched { work: last, count, .. })
                if last.order == work.order && last.is_atomic == work.is_atomic =>
            {
                *count += 1;
            }
            _ => self.entries.push(Entry::Touched { work, is_overtaken, count: 1 }),
        }
    }

    /// Enters what is listed into the shadow.
    fn enter(&mut self) {
        // What it is ordered after no longer matters: nothing in the list races.
        let (clock, mut accesses) = (Clock::new(), self.accesses.drain(..));
        for entry in self.entries.drain(..) {
            match entry {
                Entry::Touched { work, is_overtaken, count } => {
                    for access in accesses.by_ref().take(count) {
                        if is_overtaken {
                            self.shadow.touch_overtaken(access, work, &clock);
                        } else {
                            self.shadow.touch(access, work, &clock);
                        }
                    }
                }
                Entry::Gone { start, bytes } => self.shadow.forget(start, bytes),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protocol::ids::SiteId;

    use super::*;

    const SPACE: usize = 32;
    const STREAMS: u64 = 3;

    proptest! {
        #[test]
        fn it_finds_what_the_shadow_finds(steps in prop::collection::vec(
            (0..STREAMS, 0..SPACE, 1..12usize, any::<bool>(), 0..12u8, 0..2 * STREAMS), 1..80,
        )) {
            let (mut history, mut shadow) = (History::default(), Shadow::default());
            let mut host = Clock::new();
            let mut clocks = vec![Clock::new(); STREAMS as usize];
            let knows_all = |clock: &Clock, clocks: &[Clock]| (0..STREAMS).all(|s| clock.time_of(s) >= clocks[s as usize].time_of(s));
            // A kernel that was submitted and has not run.
            let mut outstanding = None;
            let mut order = 0;
            for (stream, address, length, writes, does, waits_for) in steps {
                let access = Access { address, bytes: length.min(SPACE - address), writes };
                if waits_for < STREAMS {
                    let other = clocks[waits_for as usize].clone();
                    clocks[stream as usize].join(&other);
                }
                match does {
                    0 => {
                        history.forget(access.address, access.bytes);
                        shadow.forget(access.address, access.bytes);
                    }
                    1 => {
                        let other = clocks[stream as usize].clone();
                        host.join(&other);
                        let expected = shadow.writer(access.address, access.bytes, &host);
                        if knows_all(&host, &clocks) && outstanding.is_none() {
                            prop_assert_eq!(expected, None);
                            history.clear();
                        }
                        prop_assert_eq!(history.writer(access.address, access.bytes, &host), expected);
                    }
                    2 if outstanding.is_some() => {
                        let (work, clock, knows_all) = outstanding.take().expect("there is one");
                        let found = history.touch(access, Toucher { work, clock: &clock, knows_all, is_overtaken: true });
                        prop_assert_eq!(found, shadow.touch_overtaken(access, work, &clock));
                    }
                    _ => {
                        clocks[stream as usize].join(&host);
                        let number = clocks[stream as usize].tick(stream);
                        let clock = clocks[stream as usize].clone();
                        let knows_all = knows_all(&clock, &clocks);
                        order += 1;
                        let site = SiteId::default();
                        let work = Work { stream, number, name: "work", site, forward: site, order, is_atomic: false };
                        if does == 2 {
                            outstanding = Some((work, clock, knows_all));
                            continue;
                        }
                        let found = history.touch(access, Toucher { work, clock: &clock, knows_all, is_overtaken: false });
                        prop_assert_eq!(found, shadow.touch(access, work, &clock));
                        prop_assert!(!knows_all || found.is_none());
                    }
                }
            }
        }
    }
}
