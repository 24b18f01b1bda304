//! The cases that are still to start, round after round.

use std::collections::VecDeque;
use std::sync::Arc;

use super::rounds::{Rounds, Tally};
use crate::case::Case;
use crate::execute::run::clock::Instant;

/// The indices of the cases that are still to start, round after round.
pub(super) struct Queue<'a> {
    order: &'a [usize],
    rounds: Rounds,
    pub(super) waiting: VecDeque<usize>,
    pub(super) running: Vec<usize>,
    /// Rounds that began.
    pub(super) round: u32,
    started: Instant,
}

impl<'a> Queue<'a> {
    pub(super) fn new(order: &'a [usize], rounds: Rounds) -> Queue<'a> {
        let waiting = order.iter().copied().collect();
        Queue { order, rounds, waiting, running: Vec::new(), round: 1, started: Instant::now() }
    }

    /// The next ones, up to the first that must wait until it has finished the previous round.
    pub(super) fn ready(&mut self, tallies: &[Tally]) -> impl Iterator<Item = usize> {
        if self.waiting.is_empty() && self.another() {
            self.waiting.extend(self.order.iter().filter(|index| !tallies[**index].is_over()));
            self.round += 1;
        }
        if self.round > 1 && self.is_late() {
            self.waiting.clear();
        }
        self.waiting.iter().copied().take_while(|index| !self.running.contains(index))
    }

    /// Those that are still to start in this round.
    pub(super) fn cases(&self, cases: &[Arc<Case>]) -> Vec<Arc<Case>> {
        self.waiting.iter().map(|index| Arc::clone(&cases[*index])).collect()
    }

    /// Takes the case at this position among those that are ready.
    pub(super) fn start(&mut self, position: usize) -> Option<usize> {
        let index = self.waiting.remove(position)?;
        self.running.push(index);
        Some(index)
    }

    fn another(&self) -> bool {
        match self.rounds {
            Rounds::Once => false,
            Rounds::Count(count) => self.round < count,
            Rounds::For(_) => !self.is_late(),
        }
    }

    fn is_late(&self) -> bool {
        matches!(self.rounds, Rounds::For(time) if self.started.elapsed() >= time)
    }
}
