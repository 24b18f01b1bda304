//! Orders of operations that can deadlock, found even if the run got through. They are found by a replay in which an operation
//! begins on a rank when those issued before it are done there, and is done when all its ranks have begun it. NCCL guarantees no
//! more: its kernels may take turns on a GPU, and a send may wait for its recv. Operations that wait for each other in a circle
//! are a cycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::record::OperationRecord;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::communicator::{Communicator, Participant};
use crate::exchange::ConnectionId;
use crate::site::Call;

/// The number of operations that are kept until the replay is past them. Beyond it, those that all ranks reported are checked and
/// forgotten.
const MOST: usize = 8192;

/// The number of cycles that are described.
const SHOWN: usize = 16;

/// The number of operations at which a search for a cycle starts. A program with a cycle in its loop has many, which
/// are alike.
const TRIED: usize = 1024;

/// A device of a process, which has one order of operations.
type Device = (ConnectionId, u32);

/// An operation of all its ranks; a transfer names its sender and receiver in the communicator.
pub(crate) type Instance = (CommunicatorId, Option<(Rank, Rank)>, Sequence);

/// An operation as one of its ranks called it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) communicator: CommunicatorId,
    /// Position in the launch.
    pub(crate) rank: Rank,
    /// The other rank of a transfer, by position in the launch.
    pub(crate) peer: Option<Rank>,
    pub(crate) operation: Operation,
    pub(crate) sequence: Sequence,
    pub(crate) call: Call,
}

/// One rank issued `first` before `second`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) first: Side,
    pub(crate) second: Side,
}

/// Every edge's second operation is the next one's first, and the last one's is the first one's.
pub(crate) type Cycle = Vec<Edge>;

/// What cycles of different rounds of a loop have in common.
type Likeness = Vec<(Rank, CommunicatorId, Operation, Option<Rank>, (ConnectionId, SiteId))>;

fn likeness(cycle: &Cycle) -> Likeness {
    let sides = cycle.iter().flat_map(|edge| [edge.first, edge.second]);
    sides.map(|side| (side.rank, side.communicator, side.operation, side.peer, side.call.place())).collect()
}

/// What is kept of an operation for each of its ranks. It is small, because many are kept.
#[derive(Debug)]
struct Part {
    device: Device,
    /// Its place in the order of the device; None if that is no longer known.
    place: Option<NonZeroU64>,
    /// Position in the launch.
    rank: Rank,
    peer: Option<Rank>,
    site: SiteId,
    operation: Operation,
    /// When it was done, by the machine's monotonic clock, us.
    ended_us: u64,
}

impl Part {
    fn side_of(&self, (communicator, _, sequence): &Instance) -> Side {
        let (communicator, sequence) = (*communicator, *sequence);
        let call = Call::new(self.device.0, self.site, Some(self.operation), sequence).ended(self.ended_us);
        Side { communicator, rank: self.rank, peer: self.peer, operation: self.operation, sequence, call }
    }
}

/// An operation that is not done in the replay.
#[derive(Debug)]
struct Pending {
    ranks: usize,
    parts: Vec<Part>,
}

/// What a device issued at one place.
#[derive(Debug, Default)]
struct Together {
    expected: u32,
    reported: u32,
    open: SmallVec<[Instance; 1]>,
}

#[derive(Debug)]
struct Line {
    /// The place that the replay has reached.
    now: u64,
    /// The operations from there on.
    places: BTreeMap<u64, Together>,
    /// Operations failed or will not be reported: the replay does not wait for them.
    has_holes: bool,
}

impl Line {
    /// The operations at the place that the replay has reached, as far as they were reported.
    fn current(&self) -> Option<(u64, &Together)> {
        let (place, together) = self.places.first_key_value()?;
        (*place == self.now || self.has_holes).then_some((*place, together))
    }

    fn is_at(&self, place: u64) -> bool {
        self.current().is_some_and(|(current, _)| current == place)
    }
}

/// The orders of all devices.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    lines: BTreeMap<Device, Line>,
    pending: FxHashMap<Instance, Pending>,
    /// Processes some of whose operations will never be reported.
    holes: BTreeSet<ConnectionId>,
    found: Vec<Cycle>,
}

impl Orders {
    /// A rank of `communicator` reported an operation.
    pub(crate) fn note(&mut self, communicator: &Communicator, participant: &Participant, record: &OperationRecord) {
        let Some(place) = NonZeroU64::new(record.issue.place) else { return };
        let transfer = match (record.operation, record.peer) {
            (Operation::Send, Some(peer)) => Some((record.rank, peer)),
            (Operation::Recv, Some(peer)) => Some((peer, record.rank)),
            _ => None,
        };
        let instance = (record.communicator, transfer, record.sequence);
        let device = (participant.connection, participant.member.device);
        let has_holes = self.holes.contains(&participant.connection);
        let line = self.lines.entry(device).or_insert_with(|| Line { now: 1, places: BTreeMap::new(), has_holes });
        let is_late = place.get() < line.now;
        if !is_late {
            let together = line.places.entry(place.get()).or_default();
            together.expected = record.issue.together;
            together.reported += 1;
            together.open.push(instance);
        }
        let ranks = if transfer.is_some() { 2 } else { communicator.size() as usize };
        let pending = self.pending.entry(instance).or_insert_with(|| Pending { ranks, parts: Vec::new() });
        pending.parts.push(Part {
            device,
            place: (!is_late).then_some(place),
            rank: participant.member.global_rank,
            peer: record.peer.and_then(|peer| communicator.global_rank(peer)),
            site: record.site,
            operation: record.operation,
            ended_us: record.ended_ns / 1000,
        });
        if pending.parts.len() >= pending.ranks {
            let devices = self.finish(instance);
            self.replay(devices);
        }
        if self.pending.len() > MOST {
            self.forget();
        }
    }

    /// Operations of a process failed, or it ended: some will never be reported.
    pub(crate) fn leave_holes(&mut self, connection: ConnectionId) {
        if !self.holes.insert(connection) {
            return;
        }
        let devices: Vec<Device> =
            self.lines.range((connection, 0)..=(connection, u32::MAX)).map(|(device, _)| *device).collect();
        for device in &devices {
            if let Some(line) = self.lines.get_mut(device) {
                line.has_holes = true;
            }
        }
        let others: Vec<Device> = devices.iter().flat_map(|device| self.finish_current(*device)).collect();
        self.replay(devices.into_iter().chain(others).collect());
    }

    /// The cycles so far, each kind once. `number` has the communicators' numbers, so the report does not depend on the order in
    /// which they formed.
    pub(crate) fn cycles(&self, number: &BTreeMap<CommunicatorId, CommunicatorId>) -> Vec<Cycle> {
        let name = |instance: &Instance| (number.get(&instance.0).copied(), instance.1, instance.2);
        let graph = Graph::new(self, &name);
        let mut cycles = self.found.clone();
        let mut known: BTreeSet<Likeness> = cycles.iter().map(likeness).collect();
        cycles.extend(graph.cycles(&mut known));
        cycles
    }

    /// Advances the replay as far as possible on these devices, whose current operations may be done.
    fn replay(&mut self, mut devices: Vec<Device>) {
        while let Some(device) = devices.pop() {
            let Some(line) = self.lines.get_mut(&device) else { continue };
            let Some((place, together)) = line.current() else { continue };
            if !together.open.is_empty() || (together.reported < together.expected && !line.has_holes) {
                continue;
            }
            line.places.pop_first();
            line.now = place + 1;
            devices.extend(self.finish_current(device));
            devices.push(device);
        }
    }

    /// Takes out the ready operations at the current place of a device, and returns the devices that may go on.
    fn finish_current(&mut self, device: Device) -> Vec<Device> {
        let current = self.lines.get(&device).and_then(Line::current);
        let open = current.map(|(_, together)| together.open.clone()).unwrap_or_default();
        open.into_iter().flat_map(|instance| self.finish(instance)).collect()
    }

    /// Whether every rank of an operation has reported it and has reached the place where it issued it.
    fn is_ready(&self, instance: &Instance) -> bool {
        self.pending.get(instance).is_some_and(|pending| {
            pending.parts.len() >= pending.ranks
                && pending.parts.iter().all(|part| {
                    part.place
                        .is_none_or(|place| self.lines.get(&part.device).is_some_and(|line| line.is_at(place.get())))
                })
        })
    }

    /// Takes an operation out if it is ready, and returns the devices that may go on.
    fn finish(&mut self, instance: Instance) -> Vec<Device> {
        if !self.is_ready(&instance) {
            return Vec::new();
        }
        let Some(pending) = self.pending.remove(&instance) else { return Vec::new() };
        let mut devices = Vec::new();
        for part in pending.parts {
            let together = part.place.and_then(|place| self.lines.get_mut(&part.device)?.places.get_mut(&place.get()));
            if let Some(together) = together {
                together.open.retain(|open| *open != instance);
                devices.push(part.device);
            }
        }
        devices
    }

    /// Keeps the cycles among the pending operations, and forgets their order. Operations that not all ranks have reported yet
    /// are remembered without a place.
    fn forget(&mut self) {
        let number = BTreeMap::new();
        self.found = self.cycles(&number);
        self.pending.retain(|_, pending| pending.parts.len() < pending.ranks);
        if self.pending.len() > MOST / 2 {
            self.pending.clear();
        }
        self.pending.values_mut().flat_map(|pending| &mut pending.parts).for_each(|part| part.place = None);
        for line in self.lines.values_mut() {
            line.now = line.places.last_key_value().map_or(line.now, |(last, _)| last + 1);
            line.places.clear();
        }
    }
}

/// Which pending operations wait for which. A node is an operation, or the step of one device from one place to the next.
struct Graph<'a> {
    orders: &'a Orders,
    /// The operations in the order in which cycles are looked for; steps have the numbers behind them.
    instances: Vec<Instance>,
    /// The nodes that a node leads to.
    next: Vec<Vec<usize>>,
    alive: Vec<bool>,
}

impl<'a> Graph<'a> {
    fn new<K: Ord>(orders: &'a Orders, name: &dyn Fn(&Instance) -> K) -> Self {
        let mut instances: Vec<Instance> = orders.pending.keys().copied().collect();
        instances.sort_by_cached_key(|instance| (name(instance), *instance));
        let index: BTreeMap<Instance, usize> =
            instances.iter().enumerate().map(|(index, instance)| (*instance, index)).collect();
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); instances.len()];
        let nodes = |together: &Together| -> Vec<usize> {
            let mut nodes: Vec<usize> = together.open.iter().filter_map(|open| index.get(open)).copied().collect();
            nodes.sort_unstable();
            // A rank's transfer to itself is there as a send and as a recv.
            nodes.dedup();
            nodes
        };
        for line in orders.lines.values() {
            let places: Vec<Vec<usize>> = line.places.values().map(nodes).filter(|nodes| !nodes.is_empty()).collect();
            let mut last_step = None;
            for pair in places.windows(2) {
                let step = next.len();
                next.push(pair[1].clone());
                pair[0].iter().for_each(|before| next[*before].push(step));
                if let Some(last_step) = last_step.replace(step) {
                    next[last_step].push(step);
                }
            }
        }
        let alive = vec![true; next.len()];
        Self { orders, instances, next, alive }
    }

    /// The cycles that are not like a known one.
    fn cycles(mut self, known: &mut BTreeSet<Likeness>) -> Vec<Cycle> {
        let mut cycles = Vec::new();
        for _ in 0..TRIED {
            self.peel();
            let Some(first) = (0..self.instances.len()).find(|node| self.alive[*node]) else { break };
            let Some(path) = self.shortest_from(first) else {
                self.alive[first] = false;
                continue;
            };
            let cycle = self.describe(&path);
            if known.len() < SHOWN && known.insert(likeness(&cycle)) {
                cycles.push(cycle);
            }
            // Steps stay: other cycles may go through them.
            let operations = path.iter().filter(|node| **node < self.instances.len());
            operations.for_each(|node| self.alive[*node] = false);
        }
        cycles
    }

    /// Removes nodes that nothing leads to, or that lead to nothing: they are in no cycle.
    fn peel(&mut self) {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.next.len()];
        for (node, following) in self.next.iter().enumerate() {
            following.iter().for_each(|next| before[*next].push(node));
        }
        for (leads_to, comes_from) in [(&self.next, &before), (&before, &self.next)] {
            let open = |alive: &[bool], node: usize| comes_from[node].iter().filter(|other| alive[**other]).count();
            let mut count: Vec<usize> = (0..self.alive.len()).map(|node| open(&self.alive, node)).collect();
            let mut ends: Vec<usize> = (0..count.len()).filter(|node| self.alive[*node] && count[*node] == 0).collect();
            while let Some(node) = ends.pop() {
                self.alive[node] = false;
                for next in leads_to[node].iter().copied().filter(|next| self.alive[*next]) {
                    count[next] -= 1;
                    if count[next] == 0 {
                        ends.push(next);
                    }
                }
            }
        }
    }

    /// The nodes of a shortest way from `first` back to it.
    fn shortest_from(&self, first: usize) -> Option<Vec<usize>> {
        let mut from: Vec<Option<usize>> = vec![None; self.next.len()];
        let mut queue = VecDeque::from([first]);
        while let Some(node) = queue.pop_front() {
            for &next in self.next[node].iter().filter(|next| self.alive[**next]) {
                if next == first {
                    let mut path = vec![node];
                    let mut at = node;
                    while at != first {
                        at = from[at]?;
                        path.push(at);
                    }
                    path.reverse();
                    return Some(path);
                }
                if from[next].is_none() {
                    from[next] = Some(node);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The edges of a way from its first operation back to it.
    fn describe(&self, path: &[usize]) -> Cycle {
        let operations: Vec<Instance> = path.iter().filter_map(|node| self.instances.get(*node)).copied().collect();
        let following = operations.iter().cycle().skip(1);
        let mut edges: Vec<(Device, Edge)> = Vec::new();
        for (before, after) in operations.iter().zip(following) {
            let Some((device, edge)) = self.edge(before, after) else { continue };
            match edges.last_mut() {
                // One rank issued several in a row: the first and the last of them matter.
                Some((last, known)) if *last == device => known.second = edge.second,
                _ => edges.push((device, edge)),
            }
        }
        if edges.len() > 1 && edges.first().map(|(device, _)| *device) == edges.last().map(|(device, _)| *device) {
            let (_, last) = edges.remove(edges.len() - 1);
            edges[0].1.first = last.first;
        }
        edges.into_iter().map(|(_, edge)| edge).collect()
    }

    /// A device that issued `before` before `after`.
    fn edge(&self, before: &Instance, after: &Instance) -> Option<(Device, Edge)> {
        let parts = |instance: &Instance| self.orders.pending.get(instance).map(|pending| &pending.parts);
        let (firsts, seconds) = (parts(before)?, parts(after)?);
        let pairs = firsts.iter().flat_map(|first| seconds.iter().map(move |second| (first, second)));
        let mut found: Vec<(&Part, &Part)> = pairs
            .filter(|(first, second)| {
                first.device == second.device && first.place.zip(second.place).is_some_and(|(one, other)| one < other)
            })
            .collect();
        found.sort_by_key(|(first, _)| first.rank);
        let (first, second) = found.first()?;
        Some((first.device, Edge { first: first.side_of(before), second: second.side_of(after) }))
    }
}
