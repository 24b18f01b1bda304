//! One process of a replay: its host goes through the log, its streams do what was submitted, and both wait for each other.

use std::collections::{BTreeMap, HashMap, VecDeque};

use protocol::device_report::DeviceTime;
use protocol::ids::Rank;
use protocol::operations::{Act, LoggedOperation, OperationLog, StreamOrder, WorkKind};
use protocol::ready::Ready;
use protocol::report::PathKind;

use super::Refused;
use super::cluster::Cluster;
use super::meeting::{Communicator, Key, Meetings, Role};
use crate::steps::{Mark, Part, Piece, Ran, Recorder};
use crate::streams::{Loss, Reached, Sharing, Start};
use crate::work::{Cost, Gpu, Load, is_for_tensor_cores};

/// Records of our own have numbers from here.
const OWN_RECORDS: u64 = 1 << 63;

#[derive(Clone, Copy, Debug)]
enum Item {
    /// Work, or a group of NCCL's.
    Work {
        at_ns: u64,
        marked: usize,
        shape: u32,
        line: u32,
        group: Option<u32>,
    },
    Record {
        record: u64,
        least_ns: u64,
    },
    Wait {
        record: u64,
    },
    /// Goes on when so much of another stream is done.
    Behind {
        stream: usize,
        count: u64,
    },
}

#[derive(Debug, Default)]
struct Stream {
    items: VecDeque<Item>,
    issued: u64,
    done: u64,
    ends_ns: u64,
    load: Load,
    /// The group at the front, which other ranks have to come to.
    meets: Option<(Start, Vec<(Key, Role)>)>,
}

#[derive(Debug, Default)]
struct Device {
    sharing: Sharing<u32>,
    ends_ns: u64,
    blocking_ends_ns: u64,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process<'a> {
    log: &'a OperationLog,
    rank: u32,
    replica: u32,
    gpus: Vec<(Gpu, f64)>,
    next: usize,
    /// Whether the host's time up to the next operation has passed.
    has_come: bool,
    host_ns: u64,
    marked: usize,
    streams: Vec<Stream>,
    devices: BTreeMap<u32, Device>,
    records: HashMap<u64, Reached>,
    own_records: u64,
    communicators: HashMap<u32, Communicator>,
    recorder: Recorder,
}

impl<'a> Process<'a> {
    pub(super) fn new(log: &'a OperationLog, replica: u32, cluster: &Cluster<'_>) -> Result<Self, Refused> {
        let gpus = (0..log.devices.len()).map(|device| cluster.gpu(log, device, replica));
        Ok(Self {
            log,
            rank: cluster.rank(log.rank, replica),
            replica,
            gpus: gpus.collect::<Result<_, _>>()?,
            next: 0,
            has_come: false,
            host_ns: 0,
            marked: 0,
            streams: log.streams.iter().map(|_| Stream::default()).collect(),
            devices: log.streams.iter().map(|stream| (stream.device, Device::default())).collect(),
            records: HashMap::new(),
            own_records: 0,
            communicators: HashMap::new(),
            recorder: Recorder::new(),
        })
    }

    /// Goes on until it waits for another process, or to its end.
    pub(super) fn run(&mut self, own: usize, meetings: &mut Meetings<'_>) {
        loop {
            let mut has_moved = false;
            while self.host_acts() {
                has_moved = true;
            }
            for stream in 0..self.streams.len() {
                while self.streams[stream].items.front().is_some() && self.stream_acts(stream, own, meetings) {
                    has_moved = true;
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.next == self.log.operations.len() && self.streams.iter().all(|stream| stream.items.is_empty())
    }

    pub(super) fn host_ns(&self) -> u64 {
        self.host_ns
    }

    /// Who waits for what, of a process that does not go on.
    pub(super) fn why_stuck(&self) -> String {
        let group = self.streams.iter().find_map(|stream| match (stream.items.front(), &stream.meets) {
            (Some(Item::Work { group: Some(group), .. }), Some(_)) => Some(*group),
            _ => None,
        });
        let what = group.and_then(|group| self.log.groups[group as usize].parts.first());
        match what {
            Some(part) => format!(
                "rank {} waits in {} of {} elements for ranks that never come to it: a process that was killed leaves \
                 no operations",
                self.rank, part.operation, part.count
            ),
            None => format!("rank {} waits at operation {} for what no stream reaches", self.rank, self.next),
        }
    }

    /// What each device did.
    pub(super) fn totals(&mut self) -> Vec<DeviceTime> {
        let devices: Vec<u32> = self.devices.keys().copied().collect();
        let rank = Some(Rank(self.rank));
        let gpus = &self.gpus;
        let recorder = &mut self.recorder;
        let time = |device: u32| recorder.totals(rank, device, gpus[device as usize].0.is_calibrated());
        devices.into_iter().filter_map(time).collect()
    }

    /// The host's next operation; false if it has to wait for it.
    fn host_acts(&mut self) -> bool {
        let Some(&LoggedOperation(spent_ns, act)) = self.log.operations.get(self.next) else { return false };
        if !self.has_come {
            self.host_ns += spent_ns;
            self.has_come = true;
        }
        match act {
            Act::Work(stream, shape, line) => self.submit(stream, shape, line, None),
            Act::Group(stream, shape, line, group) => self.submit(stream, shape, line, Some(group)),
            Act::Record(stream, record) => {
                self.order(stream as usize);
                self.issue(stream as usize, Item::Record { record, least_ns: self.host_ns });
            }
            Act::Wait(stream, record) => {
                if record > 0 {
                    self.issue(stream as usize, Item::Wait { record });
                }
            }
            Act::After(stream, other) => {
                self.own_records += 1;
                let record = OWN_RECORDS + self.own_records;
                self.issue(other as usize, Item::Record { record, least_ns: 0 });
                self.issue(stream as usize, Item::Wait { record });
            }
            Act::Stream(stream) | Act::SawStream(stream) => {
                if !self.is_done(stream as usize) {
                    return false;
                }
                let ends_ns = self.ends_in_order_ns(stream as usize);
                self.wait(ends_ns, matches!(act, Act::Stream(_)));
            }
            Act::Event(record) | Act::SawEvent(record) => {
                let reached = self.records.get(&record).map(|reached| reached.ns);
                let Some(ns) = reached.or((record == 0).then_some(0)) else { return false };
                self.wait(ns, matches!(act, Act::Event(_)));
            }
            Act::Device(device) => {
                let on_device = |stream: usize| self.log.streams[stream].device == device;
                if (0..self.streams.len()).any(|stream| on_device(stream) && !self.streams[stream].items.is_empty()) {
                    return false;
                }
                let losses = self.devices.get_mut(&device).map(|device| device.sharing.settle()).unwrap_or_default();
                losses.into_iter().for_each(|(stream, loss)| self.lose(stream as usize, loss));
                let ends_ns = self.devices.get(&device).map_or(0, |device| device.ends_ns);
                self.wait(ends_ns, true);
            }
            Act::Mark(by, is_begin) => {
                self.marked = self.recorder.mark(Mark { by, is_begin, host_ns: self.host_ns });
            }
            Act::End => {}
        }
        self.next += 1;
        self.has_come = false;
        true
    }

    fn wait(&mut self, ends_ns: u64, is_told: bool) {
        if self.host_ns < ends_ns && is_told {
            self.recorder.host_waited((self.host_ns, ends_ns));
        }
        self.host_ns = self.host_ns.max(ends_ns);
    }

    fn submit(&mut self, stream: u32, shape: u32, line: u32, group: Option<u32>) {
        self.order(stream as usize);
        let (at_ns, marked) = (self.host_ns, self.marked);
        self.issue(stream as usize, Item::Work { at_ns, marked, shape, line, group });
    }

    fn issue(&mut self, stream: usize, item: Item) {
        let stream = &mut self.streams[stream];
        stream.items.push_back(item);
        stream.issued += 1;
    }

    /// The streams that a stream is ordered with, without a call that says so.
    fn ordered(&self, stream: usize) -> impl Iterator<Item = usize> + use<'_> {
        let of = &self.log.streams[stream];
        let others = match of.order {
            StreamOrder::Legacy => Some(StreamOrder::Blocking),
            StreamOrder::Blocking => Some(StreamOrder::Legacy),
            StreamOrder::NonBlocking => None,
        };
        let is_one = move |index: &usize| {
            let other = &self.log.streams[*index];
            other.device == of.device && Some(other.order) == others
        };
        (0..self.streams.len()).filter(is_one)
    }

    /// What is submitted to a stream comes after what was submitted to those that it is ordered with.
    fn order(&mut self, stream: usize) {
        let busy = |other: &usize| !self.streams[*other].items.is_empty();
        let others: Vec<usize> = self.ordered(stream).filter(busy).collect();
        for other in others {
            let count = self.streams[other].issued;
            self.issue(stream, Item::Behind { stream: other, count });
        }
    }

    /// Whether everything in a stream, and what it is ordered after, is done.
    fn is_done(&self, stream: usize) -> bool {
        let is_idle = |stream: usize| self.streams[stream].items.is_empty();
        is_idle(stream) && self.ordered(stream).all(is_idle)
    }

    fn ends_in_order_ns(&self, stream: usize) -> u64 {
        let of = &self.log.streams[stream];
        let others = match of.order {
            StreamOrder::NonBlocking => 0,
            StreamOrder::Blocking => self.ordered(stream).map(|legacy| self.streams[legacy].ends_ns).max().unwrap_or(0),
            StreamOrder::Legacy => self.devices[&of.device].blocking_ends_ns,
        };
        self.streams[stream].ends_ns.max(others)
    }

    /// What follows in a stream begins no earlier than `ns`.
    fn not_before(&mut self, stream: usize, ns: u64) {
        let of = &self.log.streams[stream];
        self.streams[stream].ends_ns = self.streams[stream].ends_ns.max(ns);
        let device = self.devices.entry(of.device).or_default();
        device.ends_ns = device.ends_ns.max(ns);
        if of.order == StreamOrder::Blocking {
            device.blocking_ends_ns = device.blocking_ends_ns.max(ns);
        }
    }

    fn lose(&mut self, stream: usize, loss: Loss) {
        let Loss { begin_ns, end_ns, is_collective, marked } = loss;
        let device = self.log.streams[stream].device;
        self.recorder.lost(device, stream as u64, (begin_ns, end_ns), is_collective, marked);
        self.not_before(stream, end_ns);
    }

    /// The item at the front of a stream; false if it has to wait.
    fn stream_acts(&mut self, stream: usize, own: usize, meetings: &mut Meetings<'_>) -> bool {
        let Some(&item) = self.streams[stream].items.front() else { return false };
        let device = self.log.streams[stream].device;
        match item {
            Item::Record { record, least_ns } => {
                let ns = self.ends_in_order_ns(stream).max(least_ns);
                let reached = self.devices[&device].sharing.moment(stream as u64, ns);
                self.records.insert(record, reached);
            }
            Item::Wait { record } => {
                let Some(reached) = self.records.get(&record).cloned() else { return false };
                let sharing = &mut self.devices.entry(device).or_default().sharing;
                let (ns, loss) = sharing.follow((stream as u64, &(stream as u32)), &reached);
                loss.into_iter().for_each(|loss| self.lose(stream, loss));
                self.not_before(stream, ns);
            }
            Item::Behind { stream: other, count } => {
                if self.streams[other].done < count {
                    return false;
                }
            }
            Item::Work { at_ns, marked, shape, line, group } => {
                if !self.work(stream, own, meetings, (at_ns, marked, shape, line, group)) {
                    return false;
                }
            }
        }
        let stream = &mut self.streams[stream];
        stream.items.pop_front();
        stream.done += 1;
        true
    }

    /// Work begins and ends; false if it waits for other ranks.
    fn work(
        &mut self,
        stream: usize,
        own: usize,
        meetings: &mut Meetings<'_>,
        (at_ns, marked, shape, line, group): (u64, usize, u32, u32, Option<u32>),
    ) -> bool {
        let log = self.log;
        let work = &log.works[shape as usize];
        let device = log.streams[stream].device;
        let (start, latest, met) = match group.map(|group| &log.groups[group as usize]) {
            None => {
                let start = Start::new(self.ends_in_order_ns(stream), at_ns, work.is_node);
                (start, None, None)
            }
            Some(group) => {
                let position = group.communicator;
                let after_ns = self.ends_in_order_ns(stream);
                let communicator = self
                    .communicators
                    .entry(position)
                    .or_insert_with(|| meetings.communicator(log, position as usize, self.replica));
                if self.streams[stream].meets.is_none() {
                    let start = Start::new(after_ns, at_ns, work.is_node);
                    let keys = meetings.arrive(communicator, &group.parts, start.ready_ns, log.is_alone);
                    self.streams[stream].meets = Some((start, keys));
                }
                let Some((start, keys)) = &self.streams[stream].meets else { return false };
                let ready = Ready { ns: start.ready_ns, rank: communicator.rank };
                let Some(latest) = meetings.latest(communicator, keys, ready, own) else { return false };
                // A rank of the log; of the others, nobody knows a number.
                let rank = log.communicators[position as usize].ranks.get(latest.rank as usize);
                let awaited = rank.filter(|_| latest.ns > start.ready_ns).map(|rank| rank.0);
                (*start, Some((latest.ns, awaited)), meetings.cost(communicator, &group.parts))
            }
        };
        self.streams[stream].meets = None;
        let (begin_ns, awaited) = latest.unwrap_or((start.ready_ns, None));
        let lost_ns = self.devices[&device].sharing.lost_ns(stream as u64, start.after_ns);
        let (gpu, nvlink_gbytes) = &self.gpus[device as usize];
        let mut cost = met
            .map_or_else(|| Cost::of_work(gpu, *nvlink_gbytes, work), |(us, uses)| Cost::of_collective(gpu, us, &uses));
        if is_for_tensor_cores(work) {
            cost.us = self.streams[stream].load.stretched_us(gpu, begin_ns, cost.us);
        }
        let (end_ns, pieces) = start.pieces(begin_ns, &cost);
        for (interval, demand) in pieces {
            let sharing = &mut self.devices.entry(device).or_default().sharing;
            sharing.add((stream as u64, &(stream as u32)), interval, start.gap_ns, marked, demand);
            self.not_before(stream, interval.1);
        }
        let part = match work.kind {
            WorkKind::HostFunction => Part::Nothing,
            WorkKind::Collective => Part::Communicating,
            _ => Part::Computing,
        };
        let Start { could_ns, ready_ns, after_ns, .. } = start;
        let name = &log.names[work.name as usize];
        let ran = Ran { device, part, marked, could_ns, ready_ns, begin_ns, end_ns };
        let unknown = (!cost.is_known).then_some(name.as_str());
        self.recorder.add(ran, unknown, || {
            let parts = group.map(|group| &log.groups[group as usize]);
            let size = parts.map_or(1, |group| log.communicators[group.communicator as usize].ranks.len() as u32);
            let parts = parts.filter(|_| work.kind == WorkKind::Collective).map(|group| &group.parts);
            let bytes = |part: &protocol::operations::GroupPart| {
                protocol::route::request_bytes(part.operation, size, part.count, part.datatype.size() as u64)
            };
            let first = parts.and_then(|parts| parts.first()).map(|part| part.operation);
            Piece {
                name: name.clone(),
                kind: match work.kind {
                    WorkKind::Collective => PathKind::Collective,
                    WorkKind::Copy(..) | WorkKind::Fill => PathKind::Copy,
                    _ => PathKind::Compute,
                },
                operation: first
                    .filter(|first| parts.iter().all(|parts| parts.iter().all(|part| part.operation == *first))),
                bytes: match work.kind {
                    WorkKind::Collective => parts.map(|parts| parts.iter().map(bytes).sum()),
                    WorkKind::Copy(.., bytes) => Some(bytes),
                    WorkKind::Fill => Some(work.bytes),
                    _ => None,
                },
                line: (line as usize).checked_sub(1).map(|line| (log.lines[line].file.clone(), log.lines[line].line)),
                stream: stream as u64,
                at_ns,
                after_ns,
                lost_ns,
                ready_ns,
                begin_ns,
                awaited,
                end_ns,
                is_host_late: could_ns < ready_ns,
            }
        });
        true
    }
}
