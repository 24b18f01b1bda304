//! Turns: a communicator's operations run one after the other in the order in which the program issued them, regardless
//! of their streams.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::lock::{Condvar, Mutex};

#[derive(Debug, Default)]
struct State {
    issued: u64,
    /// Number of the ticket whose turn it is.
    turn: u64,
    /// Tickets given back before their turn.
    returned: BTreeSet<u64>,
    /// Number of threads in [`Turns::wait`]: if there are none, the wake-up, a system call, is skipped.
    waiting: u32,
}

/// The queue of one communicator.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

impl Turns {
    /// The next number.
    pub(crate) fn issue(&self) -> u64 {
        let mut state = self.state.lock();
        state.issued += 1;
        state.issued - 1
    }

    /// Numbers given out after the one whose turn it is or will be next.
    pub(crate) fn behind(&self, running: bool) -> u64 {
        let state = self.state.lock();
        (state.issued - state.turn).saturating_sub(state.returned.len() as u64 + u64::from(running))
    }

    /// Waits for `number`'s turn; false if `deadline` comes first.
    pub(crate) fn wait(&self, number: u64, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while state.turn != number {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state.waiting += 1;
            state = self.changed.wait_timeout(state, left);
            state.waiting -= 1;
        }
        true
    }

    /// Records that `number` is done, or will never be run.
    pub(crate) fn finish(&self, number: u64) {
        let mut state = self.state.lock();
        state.returned.insert(number);
        while state.returned.first() == Some(&state.turn) {
            state.returned.pop_first();
            state.turn += 1;
        }
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn turns_come_in_order_of_issue_even_when_one_is_given_back() {
        let turns = Turns::default();
        let numbers = [turns.issue(), turns.issue(), turns.issue()];
        assert!(!turns.wait(numbers[2], Instant::now()));
        turns.finish(numbers[1]);
        assert!(turns.wait(numbers[0], Instant::now() + Duration::from_secs(1)));
        turns.finish(numbers[0]);
        assert!(turns.wait(numbers[2], Instant::now() + Duration::from_secs(1)));
    }
}
