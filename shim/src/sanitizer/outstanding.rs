//! Kernels: the memory they touch is known only after they have run, and meanwhile the program submits other work. That work is
//! kept until no kernel submitted before it is outstanding, so that the two are still compared.

use std::collections::{BTreeSet, VecDeque};

use super::clock::Clock;
use super::shadow::{Access, Work};

/// Maximum number of pieces of work kept; earlier ones are no longer compared.
const MOST: usize = 4096;

/// A part of what a kernel touched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) access: Access,
    /// Whether it was touched by an atomic instruction, which does not conflict with others of its kind.
    pub(crate) is_atomic: bool,
}

#[derive(Debug)]
enum Event {
    Work {
        work: Work,
        clock: Clock,
        accesses: Vec<Access>,
    },
    /// The memory was freed: what earlier kernels touched there no longer belongs to anyone.
    Gone {
        order: u64,
        memory: Access,
    },
}

impl Event {
    fn order(&self) -> u64 {
        match self {
            Self::Work { work, .. } => work.order,
            Self::Gone { order, .. } => *order,
        }
    }
}

/// What happened since the first kernel that has not run yet was submitted.
#[derive(Debug, Default)]
pub(super) struct Log {
    open: BTreeSet<u64>,
    events: VecDeque<Event>,
}

impl Log {
    /// Called when a kernel is submitted.
    pub(super) fn open(&mut self, order: u64) {
        self.open.insert(order);
    }

    /// Called when it has run and was compared, or never will.
    pub(super) fn close(&mut self, order: u64) {
        self.open.remove(&order);
        let first = self.open.first().copied().unwrap_or(u64::MAX);
        while self.events.front().is_some_and(|event| event.order() < first) {
            self.events.pop_front();
        }
    }

    /// Whether a kernel submitted before this one has not run.
    pub(super) fn has_earlier(&self, order: u64) -> bool {
        self.open.first().is_some_and(|open| *open < order)
    }

    /// Called when other work is submitted, or another kernel ran, and it may not be ordered after the outstanding kernels.
    pub(super) fn work(&mut self, work: Work, clock: &Clock, accesses: &[Access]) {
        if !self.open.is_empty() && !accesses.is_empty() {
            self.add(Event::Work { work, clock: clock.clone(), accesses: accesses.to_vec() });
        }
    }

    /// Called when memory is freed after the work `order`.
    pub(super) fn gone(&mut self, order: u64, memory: Access) {
        if !self.open.is_empty() {
            self.add(Event::Gone { order, memory });
        }
    }

    fn add(&mut self, event: Event) {
        if self.events.len() == MOST {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Whether there is anything with which the kernel has to be compared.
    pub(super) fn concerns(&self, kernel: Work) -> bool {
        self.since(kernel).any(|event| match event {
            Event::Gone { .. } => true,
            Event::Work { clock, .. } => !kernel.is_before(clock),
        })
    }

    /// Whether these bytes were freed since the kernel was submitted.
    pub(super) fn is_gone(&self, kernel: Work, access: Access) -> bool {
        self.since(kernel).any(|event| match event {
            Event::Gone { memory, .. } => memory.overlaps(access),
            Event::Work { .. } => false,
        })
    }

    /// Work submitted since, which nothing orders after the kernel, and its access that conflicts with one of the kernel's.
    pub(super) fn conflict(&self, kernel: Work, access: Access) -> Option<(Work, Access)> {
        self.since(kernel).find_map(|event| match event {
            Event::Work { work, clock, accesses } if !kernel.is_before(clock) => {
                let meets = work.is_atomic && kernel.is_atomic;
                let conflicts = |other: &&Access| !meets && other.overlaps(access) && (other.writes || access.writes);
                accesses.iter().find(conflicts).map(|other| (*work, *other))
            }
            _ => None,
        })
    }

    fn since(&self, kernel: Work) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.order() > kernel.order)
    }
}
