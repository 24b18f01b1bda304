//! Free resources of the machine while cases run: CPU slots, memory, places in groups.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::case::{Case, Resources};

/// What is free.
#[derive(Clone, Debug)]
pub struct Pool {
    /// All there is.
    cpus: u32,
    memory: u64,
    free_cpus: u32,
    free_memory: u64,
    /// Number of cases that may still enter, by group.
    groups: BTreeMap<String, u32>,
}

/// The resources that a case took.
#[derive(Clone, Debug)]
#[must_use = "what is taken has to be given back"]
pub struct Claim {
    cpus: u32,
    memory: u64,
    groups: Vec<String>,
}

/// A pool whose cases may take more while they run.
#[derive(Debug)]
pub struct SharedPool {
    pool: RefCell<Pool>,
    returned: Notify,
}

impl SharedPool {
    /// Everything is free.
    pub fn new(pool: Pool) -> SharedPool {
        SharedPool { pool: RefCell::new(pool), returned: Notify::new() }
    }

    /// Nothing is free: the runs of a case follow each other.
    pub fn exhausted() -> SharedPool {
        SharedPool::new(Pool { cpus: 1, memory: 0, free_cpus: 0, free_memory: 0, groups: BTreeMap::new() })
    }

    /// As [`Pool::first`].
    pub fn first<'a>(&self, waiting: impl IntoIterator<Item = &'a Resources>) -> Option<(usize, Claim)> {
        self.pool.borrow_mut().first(waiting)
    }

    /// The same once more for a case that runs, if it is free.
    pub fn take_more(&self, wanted: &Resources) -> Option<Claim> {
        self.pool.borrow_mut().take(wanted)
    }

    /// Returns what a case took.
    pub fn give(&self, claim: Claim) {
        self.pool.borrow_mut().give(claim);
        self.returned.notify_one();
    }

    /// Waits until something is returned.
    pub async fn returned(&self) {
        self.returned.notified().await;
    }
}

impl Pool {
    /// This many CPU slots, this many bytes, and the groups of `cases`; if suites disagree about a group, the smaller limit
    /// counts.
    pub fn new(cpus: u32, memory: u64, cases: &[Arc<Case>]) -> Pool {
        let mut groups: BTreeMap<String, u32> = BTreeMap::new();
        for (name, max) in cases.iter().flat_map(|case| &case.resources.groups) {
            groups.entry(name.clone()).and_modify(|limit| *limit = (*limit).min(*max)).or_insert(*max);
        }
        Pool { cpus, memory, free_cpus: cpus, free_memory: memory, groups }
    }

    /// The position of the first of `waiting` that can start, with the resources it takes. A case that waits for a group lets
    /// others pass; one that waits for CPUs or memory does not, because it would wait forever.
    pub fn first<'a>(&mut self, waiting: impl IntoIterator<Item = &'a Resources>) -> Option<(usize, Claim)> {
        let (position, wanted) = waiting.into_iter().enumerate().find(|(_, wanted)| !self.is_full(wanted))?;
        self.take(wanted).map(|claim| (position, claim))
    }

    fn is_full(&self, wanted: &Resources) -> bool {
        wanted.groups.keys().any(|group| self.groups.get(group) == Some(&0))
    }

    /// Takes the resources that a case wants, if they are free. A case that wants more than exists gets all of it.
    fn take(&mut self, wanted: &Resources) -> Option<Claim> {
        let cpus = wanted.cpus.min(self.cpus);
        let memory = wanted.memory.min(self.memory);
        if cpus > self.free_cpus || memory > self.free_memory || self.is_full(wanted) {
            return None;
        }
        self.free_cpus -= cpus;
        self.free_memory -= memory;
        for group in wanted.groups.keys() {
            self.groups.entry(group.clone()).and_modify(|free| *free -= 1);
        }
        Some(Claim { cpus, memory, groups: wanted.groups.keys().cloned().collect() })
    }

    /// Returns the resources that a case took.
    pub fn give(&mut self, claim: Claim) {
        self.free_cpus += claim.cpus;
        self.free_memory += claim.memory;
        for group in claim.groups {
            self.groups.entry(group).and_modify(|free| *free += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(cpus: u32, memory: u64, groups: &[(&str, u32)]) -> Resources {
        Resources { cpus, memory, groups: groups.iter().map(|(name, max)| ((*name).to_owned(), *max)).collect() }
    }

    fn pool(all: &[&Resources]) -> Pool {
        let case = |resources: &&Resources| Arc::new(Case { resources: (*resources).clone(), ..Case::default() });
        Pool::new(4, 100, &all.iter().map(case).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_is_given_out_twice() {
        let (half, most) = (wants(2, 60, &[]), wants(1, 40, &[]));
        let mut pool = pool(&[&half, &most]);
        let first = pool.take(&half).unwrap();
        assert!(pool.take(&half).is_none(), "the memory of the first is not free");
        let second = pool.take(&most).unwrap();
        assert!(pool.take(&wants(2, 0, &[])).is_none(), "one CPU is left");
        pool.give(first);
        pool.give(second);
        assert!(pool.take(&wants(4, 100, &[])).is_some());
    }

    #[test]
    fn more_than_there_is_means_all_of_it() {
        let greedy = wants(64, 1 << 40, &[]);
        let mut pool = pool(&[&greedy]);
        let claim = pool.take(&greedy).unwrap();
        assert!(pool.take(&wants(1, 0, &[])).is_none());
        pool.give(claim);
        assert!(pool.take(&wants(4, 0, &[])).is_some());
    }

    #[test]
    fn a_case_takes_more_only_while_it_is_free() {
        let two = wants(2, 0, &[]);
        let shared = SharedPool::new(pool(&[&two]));
        let (_, own) = shared.first([&two]).unwrap();
        let more = shared.take_more(&two).unwrap();
        assert!(shared.take_more(&two).is_none() && shared.first([&wants(1, 0, &[])]).is_none());
        shared.give(more);
        assert!(shared.first([&wants(1, 0, &[])]).is_some());
        shared.give(own);
    }

    #[test]
    fn the_smaller_limit_of_a_group_counts() {
        let (one, other) = (wants(1, 0, &[("port", 2), ("disk", 1)]), wants(1, 0, &[("port", 1)]));
        let mut pool = pool(&[&one, &other]);
        let claim = pool.take(&one).unwrap();
        assert!(pool.take(&other).is_none());
        let (position, past) = pool.first([&other, &one, &wants(1, 0, &[]), &one]).unwrap();
        assert_eq!(position, 2, "the first that waits for no group");
        pool.give(past);
        assert!(
            pool.first([&wants(4, 0, &[]), &wants(1, 0, &[])]).is_none(),
            "no case overtakes one that waits for CPUs"
        );
        pool.give(claim);
        let _port = pool.take(&other).unwrap();
        assert!(pool.take(&wants(1, 0, &[("disk", 1)])).is_some());
    }
}
