//! The rendezvous of ranks that are threads of one process, for programs that need no coordinator.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::Member;
use protocol::record::ErrorCode;

use crate::communicator::Formed;
use crate::failure::{Failure, name_ranks};

#[derive(Default)]
struct State {
    formed: u64,
    met: u64,
    /// Grows that came about, by parent.
    grown: HashMap<CommunicatorId, Sequence>,
    meetings: HashMap<Key, Meeting>,
    /// By the number of the meeting: its key may be in use again before everybody has looked.
    results: HashMap<u64, (usize, Result<Outcome, Failure>)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Unique(Vec<u8>),
    Split(CommunicatorId, Sequence),
    /// With the ranks left out.
    Shrink(CommunicatorId, Sequence, Vec<u32>),
    Grow(CommunicatorId, Sequence),
}

struct Meeting {
    number: u64,
    expected: Vec<u32>,
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
        self.meet_in_order(Key::Unique(unique_id.to_vec()), (0..size).collect(), rank, member, deadline)
    }

    /// Meets the other ranks of the parent that stay.
    pub(crate) fn shrink(
        &self,
        (parent, sequence): (CommunicatorId, Sequence),
        excluded: &[u32],
        survivors: Vec<u32>,
        rank: u32,
        member: Member,
        deadline: Instant,
    ) -> Result<Formed, Failure> {
        self.meet_in_order(Key::Shrink(parent, sequence, excluded.to_vec()), survivors, rank, member, deadline)
    }

    /// Meets the ranks of the parent and the new ones.
    pub(crate) fn grow(
        &self,
        (parent, sequence): (CommunicatorId, Sequence),
        size: u32,
        rank: u32,
        member: Member,
        deadline: Instant,
    ) -> Result<Formed, Failure> {
        let grown = |state: &State| state.grown.get(&parent).copied().unwrap_or_default();
        if sequence <= grown(&self.state.lock().unwrap_or_else(PoisonError::into_inner)) {
            let detail = format!("the unique id was used before: get a new one of communicator {parent}");
            return Err(Failure::new(ErrorCode::InvalidArgument, detail));
        }
        self.meet_in_order(Key::Grow(parent, sequence), (0..size).collect(), rank, member, deadline)
    }

    /// A meeting of one color, in the order of ranks.
    fn meet_in_order(
        &self,
        key: Key,
        expected: Vec<u32>,
        rank: u32,
        member: Member,
        deadline: Instant,
    ) -> Result<Formed, Failure> {
        let formed = self.meet(key, expected, rank, Seat { color: Some(0), key: rank as i32, member }, deadline)?;
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
        let expected = (0..parent.2).collect();
        self.meet(Key::Split(parent.0, parent.1), expected, rank, Seat { color, key, member }, deadline)
    }

    fn meet(
        &self,
        key: Key,
        expected: Vec<u32>,
        rank: u32,
        seat: Seat,
        deadline: Instant,
    ) -> Result<Option<Formed>, Failure> {
        let size = expected.len();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.met += 1;
        let number = state.met;
        let new = || Meeting { number, expected: expected.clone(), seats: HashMap::new() };
        let meeting = state.meetings.entry(key.clone()).or_insert_with(new);
        let number = meeting.number;
        let mistake = if meeting.expected.len() != size {
            let detail = format!("rank {rank} says size {size}, others said {}", meeting.expected.len());
            Some(Failure::new(ErrorCode::WorldSizeMismatch, detail).blaming(vec![rank]))
        } else if meeting.seats.contains_key(&rank) {
            Some(Failure::new(ErrorCode::DuplicateRank, format!("rank {rank} came twice")).blaming(vec![rank]))
        } else {
            None
        };
        if let Some(failure) = mistake {
            state.fail(&key, &failure);
            self.changed.notify_all();
            return Err(failure);
        }
        meeting.seats.insert(rank, seat);
        let full = meeting.seats.len() == size;
        if let Some((other, failure)) = state.contradiction(&key) {
            state.fail(&key, &failure);
            state.fail(&other, &failure);
            self.changed.notify_all();
        } else if full {
            let meeting = state.meetings.remove(&key).expect("was just filled");
            let outcome = state.conclude(meeting);
            if let Key::Grow(parent, sequence) = key {
                state.grown.insert(parent, sequence);
            }
            state.results.insert(number, (size, Ok(outcome)));
            self.changed.notify_all();
        }
        loop {
            if let Some((readers, result)) = state.results.get_mut(&number) {
                *readers -= 1;
                let (last, result) = (*readers == 0, result.clone());
                if last {
                    state.results.remove(&number);
                }
                return result.map(|mut outcome| outcome.remove(&rank).flatten());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing: Vec<u32> = state.meetings.get_mut(&key).map_or_else(Vec::new, |meeting| {
                    let missing = expected.iter().copied().filter(|other| !meeting.seats.contains_key(other)).collect();
                    meeting.seats.remove(&rank);
                    missing
                });
                let code = match key {
                    Key::Split(..) => ErrorCode::TimeoutWaitingForSplit,
                    Key::Shrink(..) => ErrorCode::TimeoutWaitingForShrink,
                    Key::Unique(_) | Key::Grow(..) => ErrorCode::TimeoutWaitingForRanks,
                };
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
    /// Tells those who wait, if anybody does.
    fn fail(&mut self, key: &Key, failure: &Failure) {
        if let Some(meeting) = self.meetings.remove(key).filter(|meeting| !meeting.seats.is_empty()) {
            self.results.insert(meeting.number, (meeting.seats.len(), Err(failure.clone())));
        }
    }

    /// Another shrink whose ranks and those of `key` wait for each other: they disagree on whom to leave out.
    fn contradiction(&self, key: &Key) -> Option<(Key, Failure)> {
        let Key::Shrink(parent, _, excluded) = key else { return None };
        let mine = self.meetings.get(key)?;
        let needs = |one: &Meeting, other: &Meeting| {
            one.seats.keys().any(|rank| other.expected.contains(rank) && !other.seats.contains_key(rank))
        };
        self.meetings.iter().find_map(|(other, theirs)| {
            let Key::Shrink(of, _, without) = other else { return None };
            if of != parent || without == excluded || !needs(mine, theirs) || !needs(theirs, mine) {
                return None;
            }
            let mut parties = [(mine, excluded), (theirs, without)].map(|(meeting, excluded)| {
                let mut ranks: Vec<u32> = meeting.seats.keys().copied().collect();
                ranks.sort_unstable();
                let detail = format!("{} without {}", name_ranks(&ranks), name_ranks(excluded));
                (ranks, detail)
            });
            parties.sort();
            let [(_, first), (_, second)] = parties;
            let detail = format!("communicator {parent} is to shrink in different ways: {first}, {second}");
            Some((other.clone(), Failure::new(ErrorCode::ShrinkExcludedRanksMismatch, detail)))
        })
    }

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
