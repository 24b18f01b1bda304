//! Where ranks meet: collectives begin when all their ranks are ready, and receives when their sender is.

use std::collections::HashMap;
use std::mem;

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank};
use protocol::operations::{EAGER_BYTES, GroupPart, OperationLog};
use protocol::ready::Ready;
use protocol::route;

use super::cluster::Cluster;
use crate::physics::Uses;

/// What ranks meet in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The collective with this number of a communicator.
    Collective(Place, u64),
    /// The transfer with this number from one of its ranks to another.
    Transfer(Place, u32, u32, u64),
}

/// A communicator: its number, and the replica of the job, unless it spans all.
pub(super) type Place = (CommunicatorId, u32);

/// A group of a communicator, without transfers.
type GroupKey = (Place, Vec<GroupPart>);

/// What a rank is in a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Member,
    /// Waits for its receiver, unless the message is small.
    Sender {
        is_eager: bool,
    },
    Receiver,
}

#[derive(Debug, Default)]
struct Meeting {
    arrived: u32,
    latest: Option<Ready>,
    sender: Option<Ready>,
    receiver: Option<Ready>,
    waiting: Vec<usize>,
}

/// A communicator in the cluster.
#[derive(Debug)]
pub(super) struct Communicator {
    pub(super) place: Place,
    /// The members whose operations are known.
    present: u32,
    nodes: std::rc::Rc<[Option<usize>]>,
    /// The members of the log's communicator.
    size: usize,
    pub(super) rank: u32,
    /// How many of its collectives, and of its transfers from one rank to another, this rank came to.
    collectives: u64,
    transfers: HashMap<(u32, u32), u64>,
}

/// All meetings of a replay.
#[derive(Debug)]
pub(super) struct Meetings<'a> {
    cluster: &'a Cluster<'a>,
    present: HashMap<CommunicatorId, u32>,
    nodes: HashMap<Place, std::rc::Rc<[Option<usize>]>>,
    meetings: HashMap<Key, Meeting>,
    costs: HashMap<GroupKey, Option<(f64, Uses)>>,
    traffic: HashMap<(Place, Operation, u64), (u64, u64)>,
    total: (u64, u64),
    met: Vec<usize>,
}

impl<'a> Meetings<'a> {
    pub(super) fn new(logs: &[OperationLog], cluster: &'a Cluster<'a>) -> Self {
        let mut present: HashMap<CommunicatorId, u32> = HashMap::new();
        for communicator in logs.iter().flat_map(|log| &log.communicators) {
            *present.entry(communicator.id).or_default() += 1;
        }
        Self {
            cluster,
            present,
            nodes: HashMap::new(),
            meetings: HashMap::new(),
            costs: HashMap::new(),
            traffic: HashMap::new(),
            total: (0, 0),
            met: Vec::new(),
        }
    }

    /// A communicator of a log, in a replica.
    pub(super) fn communicator(&mut self, log: &OperationLog, position: usize, replica: u32) -> Communicator {
        let logged = &log.communicators[position];
        let size = logged.ranks.len();
        let grows = self.cluster.grows(size);
        // Ranks that ran alone have communicators of their own, whose numbers say nothing to others.
        let apart = if log.is_alone { log.rank.0 } else { replica };
        let place = (logged.id, if grows { 0 } else { apart });
        let present = if log.is_alone { 1 } else { self.present[&logged.id] };
        let cluster = self.cluster;
        let nodes = self.nodes.entry(place).or_insert_with(|| nodes(cluster, &logged.ranks, replica));
        Communicator {
            place,
            present: if grows {
                present * cluster.members(&logged.ranks, 0).len() as u32 / size as u32
            } else {
                present
            },
            nodes: std::rc::Rc::clone(nodes),
            size,
            rank: if grows { logged.rank + replica * size as u32 } else { logged.rank },
            collectives: 0,
            transfers: HashMap::new(),
        }
    }

    /// A rank is ready for a group; returns what it meets others in. `is_alone`: it meets nobody.
    pub(super) fn arrive(
        &mut self,
        communicator: &mut Communicator,
        parts: &[GroupPart],
        ready_ns: u64,
        is_alone: bool,
    ) -> Vec<(Key, Role)> {
        let place = communicator.place;
        let own = communicator.rank;
        let mut keys = Vec::new();
        for part in parts {
            let part = self.cluster.part(part, communicator.size);
            self.count(communicator, &part);
            let (key, role) = match (part.operation, part.peer) {
                (_, Some(peer)) if peer == own => continue,
                (Operation::Send, Some(peer)) => {
                    let number = communicator.transfers.entry((own, peer)).or_default();
                    *number += 1;
                    let bytes = part.count * part.datatype.size() as u64;
                    (Key::Transfer(place, own, peer, *number), Role::Sender { is_eager: bytes <= EAGER_BYTES })
                }
                (Operation::Recv, Some(peer)) => {
                    let number = communicator.transfers.entry((peer, own)).or_default();
                    *number += 1;
                    (Key::Transfer(place, peer, own, *number), Role::Receiver)
                }
                // One-sided operations wait for nobody.
                (_, Some(_)) | (Operation::Signal | Operation::WaitSignal, None) => continue,
                (_, None) => {
                    communicator.collectives += 1;
                    (Key::Collective(place, communicator.collectives), Role::Member)
                }
            };
            if is_alone {
                continue;
            }
            let meeting = self.meetings.entry(key).or_default();
            meeting.arrived += 1;
            let ready = Ready { ns: ready_ns, rank: own };
            meeting.latest = Some(meeting.latest.map_or(ready, |latest| latest.or_later(ready)));
            match role {
                Role::Member => {}
                Role::Sender { .. } => meeting.sender = Some(ready),
                Role::Receiver => meeting.receiver = Some(ready),
            }
            let is_due = role != Role::Member || meeting.arrived >= communicator.present;
            if is_due {
                self.met.append(&mut meeting.waiting);
            }
            keys.push((key, role));
        }
        keys
    }

    /// The last rank that is needed, or `own`, and when it was ready; `None` if that is not known yet: `process` is told when it may be.
    pub(super) fn latest(
        &mut self,
        communicator: &Communicator,
        keys: &[(Key, Role)],
        own: Ready,
        process: usize,
    ) -> Option<Ready> {
        let mut latest = own;
        for (key, role) in keys {
            let meeting = self.meetings.get_mut(key)?;
            let theirs = match role {
                Role::Member => (meeting.arrived >= communicator.present).then_some(meeting.latest).flatten(),
                Role::Sender { is_eager: true } => Some(own),
                Role::Sender { is_eager: false } => meeting.receiver,
                Role::Receiver => meeting.sender,
            };
            let Some(theirs) = theirs else {
                meeting.waiting.push(process);
                return None;
            };
            latest = latest.or_later(theirs);
        }
        Some(latest)
    }

    /// What a group costs its rank.
    pub(super) fn cost(&mut self, communicator: &Communicator, parts: &[GroupPart]) -> Option<(f64, Uses)> {
        let parts: Vec<GroupPart> = parts.iter().map(|part| self.cluster.part(part, communicator.size)).collect();
        if parts.iter().any(|part| part.peer.is_some()) {
            return self.cluster.group(&communicator.nodes, communicator.rank, &parts);
        }
        // The same for all of its ranks.
        let cluster = self.cluster;
        let key = (communicator.place, parts);
        if let Some(known) = self.costs.get(&key) {
            return *known;
        }
        let cost = cluster.group(&communicator.nodes, communicator.rank, &key.1);
        self.costs.insert(key, cost);
        cost
    }

    /// Adds the bytes of an operation: of a collective, those that one rank sends on are the same for each edge.
    fn count(&mut self, communicator: &Communicator, part: &GroupPart) {
        let nodes = &communicator.nodes;
        let size = nodes.len() as u32;
        let bytes = route::request_bytes(part.operation, size, part.count, part.datatype.size() as u64);
        let is_inside = |from: u32, to: u32| nodes.get(from as usize) == nodes.get(to as usize);
        match part.peer {
            Some(peer) => {
                let is_sent = matches!(part.operation, Operation::Send | Operation::PutSignal);
                if is_sent && peer != communicator.rank {
                    *if is_inside(communicator.rank, peer) { &mut self.total.0 } else { &mut self.total.1 } += bytes;
                }
            }
            // Once for all of its ranks, or for those that are there.
            None if communicator.rank == 0 || communicator.present == 1 => {
                let (inside, between) =
                    *self.traffic.entry((communicator.place, part.operation, bytes)).or_insert_with(|| {
                        let edges = route::edges(part.operation, size, None, bytes);
                        edges.iter().fold((0, 0), |(inside, between), edge| match is_inside(edge.src.0, edge.dst.0) {
                            true => (inside + edge.bytes, between),
                            false => (inside, between + edge.bytes),
                        })
                    });
                self.total.0 += inside;
                self.total.1 += between;
            }
            None => {}
        }
    }

    /// Bytes inside of nodes and between them.
    pub(super) fn traffic(&self) -> (u64, u64) {
        self.total
    }

    /// The processes that may go on.
    pub(super) fn take_met(&mut self) -> Vec<usize> {
        mem::take(&mut self.met)
    }
}

fn nodes(cluster: &Cluster<'_>, ranks: &[Rank], replica: u32) -> std::rc::Rc<[Option<usize>]> {
    cluster.members(ranks, replica).into_iter().map(|rank| cluster.node(rank)).collect()
}
