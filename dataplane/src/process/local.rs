//! The rendezvous of ranks that are threads of one process, for programs that need no coordinator.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{self, Member};
use protocol::record::ErrorCode;

use super::wanted::Wanted;
use crate::communicator::Formed;
use crate::failure::{Failure, name_ranks};
use crate::lock::{Condvar, Mutex};

/// Threads of one process arrive within this time; otherwise somebody expects other processes. Half the timeout if that
/// is shorter.
const APART: Duration = Duration::from_secs(5);

#[derive(Default)]
struct State {
    /// Whether it was reported that no other process can come.
    said: bool,
    formed: u64,
    met: u64,
    /// Completed grows, by parent.
    grown: HashMap<CommunicatorId, Sequence>,
    gatherings: HashMap<Key, Gathering>,
    /// The results by the number of the gathering, because its key may be in use again before everybody has looked.
    results: HashMap<u64, (usize, Result<Outcome, Failure>)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Unique(Vec<u8>),
    Split(CommunicatorId, Sequence),
    /// A shrink, with the ranks that it leaves out.
    Shrink(CommunicatorId, Sequence, Vec<u32>),
    Grow(CommunicatorId, Sequence),
}

struct Gathering {
    number: u64,
    expected: Vec<u32>,
    arrivals: HashMap<u32, Arrival>,
}

#[derive(Clone)]
struct Arrival {
    color: Option<u32>,
    key: i32,
    member: Member,
}

/// The result for each old rank.
type Outcome = HashMap<u32, Option<Formed>>;

/// Where the ranks of one process meet.
#[derive(Default)]
pub(crate) struct LocalRendezvous {
    state: Mutex<State>,
    changed: Condvar,
}

impl LocalRendezvous {
    /// Meets the other ranks of `wanted`; `None` for a rank without color.
    pub(crate) fn meet(
        &self,
        wanted: &Wanted,
        rank: u32,
        member: Member,
        deadline: Instant,
    ) -> Result<Option<Formed>, Failure> {
        let mut state = self.state.lock();
        let expected = wanted.ranks();
        let in_order = |key: Key| (key, Some(0), rank as i32);
        let (key, color, order) = match wanted {
            Wanted::Init { unique_id, .. } => in_order(Key::Unique(unique_id.clone())),
            Wanted::Split { parent, sequence, color, key, .. } => (Key::Split(*parent, *sequence), *color, *key),
            Wanted::Shrink { parent, sequence, excluded, .. } => {
                in_order(Key::Shrink(*parent, *sequence, excluded.clone()))
            }
            Wanted::Grow { parent, sequence, .. } => {
                if *sequence <= state.grown.get(parent).copied().unwrap_or_default() {
                    let detail = format!("the unique id was used before: get a new one of communicator {parent}");
                    return Err(Failure::new(ErrorCode::InvalidArgument, detail));
                }
                in_order(Key::Grow(*parent, *sequence))
            }
        };
        let arrival = Arrival { color, key: order, member };
        let size = expected.len();
        state.met += 1;
        let number = state.met;
        let new = || Gathering { number, expected: expected.clone(), arrivals: HashMap::new() };
        let gathering = state.gatherings.entry(key.clone()).or_insert_with(new);
        let number = gathering.number;
        let mistake = if gathering.expected.len() != size {
            let detail = format!("rank {rank} gives size {size}, the others gave {}", gathering.expected.len());
            Some(Failure::new(ErrorCode::WorldSizeMismatch, detail).blaming(vec![rank]))
        } else if gathering.arrivals.contains_key(&rank) {
            Some(Failure::new(ErrorCode::DuplicateRank, format!("rank {rank} joined twice")).blaming(vec![rank]))
        } else {
            None
        };
        if let Some(failure) = mistake {
            state.fail(&key, &failure);
            self.changed.notify_all();
            return Err(failure);
        }
        gathering.arrivals.insert(rank, arrival);
        let full = gathering.arrivals.len() == size;
        if let Some((other, failure)) = state.contradiction(&key) {
            state.fail(&key, &failure);
            state.fail(&other, &failure);
            self.changed.notify_all();
        } else if let Some(failure) = state.shared_gpu(&key).filter(|_| full) {
            state.fail(&key, &failure);
            self.changed.notify_all();
        } else if full {
            let gathering = state.gatherings.remove(&key).expect("was just filled");
            let outcome = state.conclude(gathering);
            if let Key::Grow(parent, sequence) = key {
                state.grown.insert(parent, sequence);
            }
            state.results.insert(number, (size, Ok(outcome)));
            self.changed.notify_all();
        }
        let began = Instant::now();
        let apart = began + APART.min(deadline.saturating_duration_since(began) / 2);
        loop {
            if let Some((readers, result)) = state.results.get_mut(&number) {
                *readers -= 1;
                let (last, result) = (*readers == 0, result.clone());
                if last {
                    state.results.remove(&number);
                }
                return result.map(|mut outcome| outcome.remove(&rank).flatten());
            }
            let now = Instant::now();
            if now >= deadline {
                let missing = state.missing(&key);
                if let Some(gathering) = state.gatherings.get_mut(&key) {
                    gathering.arrivals.remove(&rank);
                }
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
            let mut until = deadline;
            if matches!(key, Key::Unique(_)) && !state.said {
                until = apart.min(deadline);
                if now >= apart {
                    state.said = true;
                    // A process without a stderr hears of it when the wait is over.
                    let _ = writeln!(std::io::stderr(), "fakegpu: {}", nobody_comes(rank, &state.missing(&key), size));
                    continue;
                }
            }
            state = self.changed.wait_timeout(state, until.saturating_duration_since(now));
        }
    }
}

/// The message about ranks that wait for other processes.
fn nobody_comes(rank: u32, missing: &[u32], size: usize) -> String {
    format!(
        "rank {rank} waits for {} of {size}, and no other process can join: there is no coordinator; `ftest exec -- COMMAND` starts one, for \
         torchrun and the like",
        name_ranks(missing)
    )
}

impl State {
    /// The ranks that a gathering waits for.
    fn missing(&self, key: &Key) -> Vec<u32> {
        let Some(Gathering { expected, arrivals, .. }) = self.gatherings.get(key) else { return Vec::new() };
        expected.iter().copied().filter(|rank| !arrivals.contains_key(rank)).collect()
    }

    /// Notifies the waiters, if there are any.
    fn fail(&mut self, key: &Key, failure: &Failure) {
        if let Some(gathering) = self.gatherings.remove(key).filter(|gathering| !gathering.arrivals.is_empty()) {
            self.results.insert(gathering.number, (gathering.arrivals.len(), Err(failure.clone())));
        }
    }

    /// Another shrink whose ranks and those of `key` wait for each other because they disagree about the ranks to
    /// exclude.
    fn contradiction(&self, key: &Key) -> Option<(Key, Failure)> {
        let Key::Shrink(parent, _, excluded) = key else { return None };
        let mine = self.gatherings.get(key)?;
        let needs = |one: &Gathering, other: &Gathering| {
            one.arrivals.keys().any(|rank| other.expected.contains(rank) && !other.arrivals.contains_key(rank))
        };
        self.gatherings.iter().find_map(|(other, theirs)| {
            let Key::Shrink(of, _, without) = other else { return None };
            if of != parent || without == excluded || !needs(mine, theirs) || !needs(theirs, mine) {
                return None;
            }
            let mut parties = [(mine, excluded), (theirs, without)].map(|(gathering, excluded)| {
                let mut ranks: Vec<u32> = gathering.arrivals.keys().copied().collect();
                ranks.sort_unstable();
                let detail = format!("{} without {}", name_ranks(&ranks), name_ranks(excluded));
                (ranks, detail)
            });
            parties.sort();
            let [(_, first), (_, second)] = parties;
            let detail = format!("communicator {parent} would shrink in different ways: {first}, {second}");
            Some((other.clone(), Failure::new(ErrorCode::ShrinkExcludedRanksMismatch, detail)))
        })
    }

    /// The failure if ranks of a new communicator share a GPU; the ranks of a split or shrink never do.
    fn shared_gpu(&self, key: &Key) -> Option<Failure> {
        let gathering = self.gatherings.get(key).filter(|_| matches!(key, Key::Unique(_) | Key::Grow(..)))?;
        let members = gathering.arrivals.iter().map(|(rank, arrival)| (Rank(*rank), &arrival.member));
        let (ranks, detail) = message::shared_gpu(members)?;
        let ranks = ranks.into_iter().map(|rank| rank.0).collect();
        Some(Failure::new(ErrorCode::SharedDevice, detail).blaming(ranks))
    }

    fn conclude(&mut self, gathering: Gathering) -> Outcome {
        let mut arrivals: Vec<(u32, Arrival)> = gathering.arrivals.into_iter().collect();
        arrivals.sort_by_key(|(rank, arrival)| (arrival.color, arrival.key, *rank));
        let mut outcome: Outcome = arrivals.iter().map(|(rank, _)| (*rank, None)).collect();
        for group in arrivals.chunk_by(|a, b| a.1.color == b.1.color).filter(|group| group[0].1.color.is_some()) {
            self.formed += 1;
            let members: Vec<Member> = group.iter().map(|(_, arrival)| arrival.member.clone()).collect();
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
