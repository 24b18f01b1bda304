//! The rendezvous of ranks that are threads of one process, for programs that need no coordinator.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{ErrorCode, Member};

use crate::communicator::Formed;
use crate::failure::{Failure, name_ranks};

#[derive(Default)]
struct State {
    formed: u64,
    meetings: HashMap<Key, Meeting>,
    results: HashMap<Key, (usize, Result<Outcome, Failure>)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Unique(Vec<u8>),
    Split(CommunicatorId, Sequence),
}

struct Meeting {
    size: u32,
    seats: HashMap<u32, Seat>,
}

#[derive(Clone)]
struct Seat {
    color: Option<u32>,
    key: i32,
    member: Member,
}

/// What each old rank gets.
type Outcome = HashMap<u32, Option<Formed>>;

/// Meetings of one process.
#[derive(Default)]
pub(crate) struct Hub {
    state: Mutex<State>,
    changed: Condvar,
}

impl Hub {
    /// Meets the other ranks that bring the same unique id.
    pub(crate) fn init(
        &self,
        unique_id: &[u8],
        size: u32,
        rank: u32,
        member: Member,
        deadline: Instant,
    ) -> Result<Formed, Failure> {
        let seat = Seat { color: Some(0), key: rank as i32, member };
        let formed = self.meet(Key::Unique(unique_id.to_vec()), size, rank, seat, deadline)?;
        formed.ok_or_else(|| Failure::new(ErrorCode::System, "a rendezvous without color gave no communicator"))
    }

    /// Meets the other ranks of the parent; `None` for a rank without color.
    pub(crate) fn split(
        &self,
        parent: (CommunicatorId, Sequence, u32),
        rank: u32,
        color: Option<u32>,
        key: i32,
        member: Member,
        deadline: Instant,
    ) -> Result<Option<Formed>, Failure> {
        self.meet(Key::Split(parent.0, parent.1), parent.2, rank, Seat { color, key, member }, deadline)
    }

    fn meet(&self, key: Key, size: u32, rank: u32, seat: Seat, deadline: Instant) -> Result<Option<Formed>, Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = state.meetings.entry(key.clone()).or_insert_with(|| Meeting { size, seats: HashMap::new() });
        let mistake = if meeting.size != size {
            let detail = format!("rank {rank} says size {size}, others said {}", meeting.size);
            Some(Failure::new(ErrorCode::WorldSizeMismatch, detail).blaming(vec![rank]))
        } else if meeting.seats.contains_key(&rank) {
            Some(Failure::new(ErrorCode::DuplicateRank, format!("rank {rank} came twice")).blaming(vec![rank]))
        } else {
            None
        };
        if let Some(failure) = mistake {
            let waiting = state.meetings.remove(&key).map_or(0, |meeting| meeting.seats.len());
            state.results.insert(key, (waiting, Err(failure.clone())));
            self.changed.notify_all();
            return Err(failure);
        }
        meeting.seats.insert(rank, seat);
        if meeting.seats.len() == size as usize {
            let meeting = state.meetings.remove(&key).expect("was just filled");
            let outcome = state.conclude(meeting);
            state.results.insert(key.clone(), (size as usize, Ok(outcome)));
            self.changed.notify_all();
        }
        loop {
            if let Some((readers, result)) = state.results.get_mut(&key) {
                *readers -= 1;
                let (last, result) = (*readers == 0, result.clone());
                if last {
                    state.results.remove(&key);
                }
                return result.map(|mut outcome| outcome.remove(&rank).flatten());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing: Vec<u32> = state.meetings.get_mut(&key).map_or_else(Vec::new, |meeting| {
                    let missing = (0..size).filter(|other| !meeting.seats.contains_key(other)).collect();
                    meeting.seats.remove(&rank);
                    missing
                });
                let split = matches!(key, Key::Split(..));
                let code = if split { ErrorCode::TimeoutWaitingForSplit } else { ErrorCode::TimeoutWaitingForRanks };
                let detail = format!(
                    "rank {rank} waited in vain for {} of {size}; without FAKEGPU_COORDINATOR_ADDR only ranks of this \
                     process can meet",
                    name_ranks(&missing)
                );
                return Err(Failure::new(code, detail).blaming(missing));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn conclude(&mut self, meeting: Meeting) -> Outcome {
        let mut seats: Vec<(u32, Seat)> = meeting.seats.into_iter().collect();
        seats.sort_by_key(|(rank, seat)| (seat.color, seat.key, *rank));
        let mut outcome: Outcome = seats.iter().map(|(rank, _)| (*rank, None)).collect();
        for group in seats.chunk_by(|a, b| a.1.color == b.1.color).filter(|group| group[0].1.color.is_some()) {
            self.formed += 1;
            let members: Vec<Member> = group.iter().map(|(_, seat)| seat.member.clone()).collect();
            for (index, (old, _)) in group.iter().enumerate() {
                let formed = Formed {
                    communicator: CommunicatorId(self.formed),
                    rank: Rank(index as u32),
                    members: members.clone(),
                };
                outcome.insert(*old, Some(formed));
            }
        }
        outcome
    }
}
