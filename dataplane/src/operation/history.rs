//! The current and recent operations of a rank in a communicator: written by operations as they go, read on request.

use std::collections::VecDeque;
use std::time::Instant;

use protocol::activity::Activation;
use protocol::ids::{Rank, Sequence};

use crate::call::Call;
use crate::lock::Mutex;

/// Number of operations that are remembered.
const KEPT: usize = 64;

/// One rank's history in one communicator.
#[derive(Debug, Default)]
pub(crate) struct OpHistory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    current: Vec<Entry>,
    recent: VecDeque<(Entry, Instant)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    call: Call,
    sequence: u64,
    began: Instant,
    /// Whether it is done while others of its group are not.
    done: bool,
}

impl OpHistory {
    /// Records that all `calls` begin together. `sequence` is 0 for sends and recvs.
    pub(crate) fn begin(&self, sequence: u64, calls: &[Call]) {
        let began = Instant::now();
        let mut state = self.state();
        state.current.clear();
        state.current.extend(calls.iter().map(|call| Entry { call: *call, sequence, began, done: false }));
    }

    /// Records that call number `at` of those that began is done, as transfer number `sequence` of its pair.
    pub(crate) fn done(&self, at: usize, sequence: u64) {
        let mut state = self.state();
        if let Some(entry) = state.current.get_mut(at) {
            (entry.sequence, entry.done) = (sequence, true);
        }
    }

    /// Records that everything that began is over; with `completed` it is remembered.
    pub(crate) fn end(&self, completed: bool) {
        let now = Instant::now();
        let mut state = self.state();
        let State { current, recent } = &mut *state;
        if completed {
            for entry in current.iter() {
                if recent.len() == KEPT {
                    recent.pop_front();
                }
                recent.push_back((*entry, now));
            }
        }
        current.clear();
    }

    /// The operations that are under way, and those that were completed last.
    pub(crate) fn read(&self) -> (Vec<Activation>, Vec<Activation>) {
        let now = Instant::now();
        let state = self.state();
        let current =
            state.current.iter().filter(|entry| !entry.done).map(|entry| entry.activation(now, None)).collect();
        let recent = state.recent.iter().map(|(entry, ended)| entry.activation(now, Some(*ended))).collect();
        (current, recent)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Entry {
    fn activation(&self, now: Instant, ended: Option<Instant>) -> Activation {
        let us = |from: Instant, to: Instant| to.saturating_duration_since(from).as_micros() as u64;
        Activation {
            sequence: Sequence(self.sequence),
            operation: self.call.operation,
            count: self.call.count,
            datatype: self.call.datatype,
            reduction_op: self.call.reduction,
            root: self.call.root.map(Rank),
            peer: self.call.peer.map(Rank),
            age_us: us(self.began, now),
            took_us: ended.map(|ended| us(self.began, ended)),
            site: self.call.site,
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::datatype::{Datatype, Operation};

    use super::*;

    #[test]
    fn what_is_under_way_is_shown_until_it_is_done() {
        let history = OpHistory::default();
        let mut send = Call::new(Operation::Send, 4, Datatype::Float32);
        send.peer = Some(1);
        let receive = Call { operation: Operation::Recv, ..send };
        history.begin(0, &[send, receive]);
        history.done(0, 3);
        let (current, recent) = history.read();
        assert_eq!(current.iter().map(Activation::describe).collect::<Vec<_>>(), ["recv(count 4, float32, peer 1)"]);
        assert!(recent.is_empty());
        history.done(1, 7);
        history.end(true);
        let (current, recent) = history.read();
        assert!(current.is_empty());
        assert_eq!(recent.iter().map(|entry| entry.sequence.0).collect::<Vec<_>>(), [3, 7]);
        assert!(recent.iter().all(|entry| entry.took_us.is_some()));
    }

    #[test]
    fn only_the_last_are_remembered() {
        let history = OpHistory::default();
        for sequence in 1..=100 {
            history.begin(sequence, &[Call::new(Operation::AllReduce, 1, Datatype::Int8)]);
            history.end(sequence != 100);
        }
        let (_, recent) = history.read();
        assert_eq!((recent.len(), recent[0].sequence.0, recent[63].sequence.0), (64, 36, 99));
    }
}
