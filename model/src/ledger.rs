//! The books: they count every completed operation once in the totals, links and node pairs, and on each rank that
//! reported it.

use std::collections::{BTreeMap, BTreeSet};

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::plan::ClusterPlan;
use protocol::record::{BufferTransport, ErrorCode, OperationRecord};
use protocol::report::OperationKind;
use smallvec::SmallVec;

use crate::communicator::Communicator;
use crate::cost::{self, Duration, Edge};
use crate::timeline::{Entry, Position, Span, Timeline};
use crate::topology::Topology;

/// Sums over operations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    pub(crate) penalty: Duration,
}

/// Sums over the edges of one link, or of both directions of a node pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) samples: u64,
    pub(crate) collectives: u64,
    pub(crate) transfers: u64,
    pub(crate) bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) time: Duration,
    pub(crate) penalty: Duration,
    pub(crate) peak_gbps: f64,
}

/// What one operation puts on one link.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    samples: u64,
    bytes: u64,
    time: Duration,
    penalty: Duration,
}

/// One rank's own counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankCounts {
    pub(crate) pids: BTreeSet<u32>,
    pub(crate) inits: u64,
    pub(crate) collectives: u64,
    pub(crate) transfers: u64,
    pub(crate) barriers: u64,
    pub(crate) timeouts: u64,
    pub(crate) wait_us: f64,
}

/// Sequences seen, mostly in order: all up to the floor, and some beyond.
#[derive(Debug, Default)]
struct Seen {
    floor: u64,
    beyond: BTreeSet<u64>,
}

impl Seen {
    /// Whether `sequence` is new.
    fn insert(&mut self, sequence: u64) -> bool {
        if sequence <= self.floor || !self.beyond.insert(sequence) {
            return false;
        }
        while self.beyond.remove(&(self.floor + 1)) {
            self.floor += 1;
        }
        true
    }
}

/// The ranks of a communicator that reported a collective.
#[derive(Debug, Default)]
struct Reporters {
    count: u32,
    /// A bit for each rank.
    bits: SmallVec<[u64; 1]>,
}

impl Reporters {
    /// Whether `rank` is new.
    fn insert(&mut self, rank: Rank) -> bool {
        let (word, bit) = (rank.0 as usize / 64, 1 << (rank.0 % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.count += u32::from(is_new);
        is_new
    }
}

/// What the ranks of a communicator reported so far: some may be ahead of others.
#[derive(Debug, Default)]
struct Progress {
    /// Every rank reported all up to here.
    floor: u64,
    /// Beyond the floor: the ranks that reported.
    open: BTreeMap<u64, Reporters>,
    /// Transfers by (sender, receiver, which of the operations on them).
    pairs: BTreeMap<(Rank, Rank, Operation), Seen>,
    collectives: u64,
    transfers: u64,
    /// Request bytes of all ranks.
    bytes: u64,
}

/// The books of one run.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) topology: Option<Topology>,
    pub(crate) collectives: BTreeMap<Operation, Totals>,
    pub(crate) point_to_point: Totals,
    /// The traffic by (source node, destination node).
    pub(crate) links: BTreeMap<(usize, usize), Traffic>,
    /// By nodes, the lower index first.
    pub(crate) pairs: BTreeMap<(usize, usize), Traffic>,
    pub(crate) ranks: BTreeMap<Rank, RankCounts>,
    pub(crate) timeline: Timeline,
    progress: BTreeMap<CommunicatorId, Progress>,
    is_proxy: bool,
}

impl Ledger {
    pub(crate) fn new(plan: Option<&ClusterPlan>, max_operations: usize) -> Self {
        Self {
            topology: plan.map(Topology::new),
            collectives: BTreeMap::new(),
            point_to_point: Totals::default(),
            links: BTreeMap::new(),
            pairs: BTreeMap::new(),
            ranks: BTreeMap::new(),
            timeline: Timeline::new(max_operations),
            progress: BTreeMap::new(),
            is_proxy: false,
        }
    }

    /// Whether the real NCCL moved the bytes of any operation.
    pub(crate) fn is_proxy(&self) -> bool {
        self.is_proxy
    }

    pub(crate) fn count_init(&mut self, rank: Rank, pid: u32) {
        let counts = self.ranks.entry(rank).or_default();
        counts.inits += 1;
        counts.pids.insert(pid);
    }

    pub(crate) fn count_failure(&mut self, rank: Rank, code: ErrorCode) {
        use protocol::report::FailureSource::{CollectiveTimeout, PointToPointTimeout, RendezvousTimeout};
        if matches!(code.source(), CollectiveTimeout | PointToPointTimeout | RendezvousTimeout) {
            self.ranks.entry(rank).or_default().timeouts += 1;
        }
    }

    /// The numbers of (collectives, transfers) completed in a communicator.
    pub(crate) fn completed(&self, communicator: CommunicatorId) -> (u64, u64) {
        self.progress.get(&communicator).map_or((0, 0), |progress| (progress.collectives, progress.transfers))
    }

    /// Bytes that the ranks of a communicator gave to its operations.
    pub(crate) fn bytes(&self, communicator: CommunicatorId) -> u64 {
        self.progress.get(&communicator).map_or(0, |progress| progress.bytes)
    }

    /// Books one rank's record of an operation of `communicator`; `record.rank` is the rank there.
    ///
    /// # Errors
    /// One sentence about a record that cannot be true, in which case nothing is booked.
    pub(crate) fn book(&mut self, communicator: &Communicator, record: &OperationRecord) -> Result<(), String> {
        self.is_proxy |= record.transport == BufferTransport::ProxyOnly;
        let size = communicator.size();
        let wrong = |what: &str| {
            let (id, rank) = (record.communicator, record.rank);
            Err(format!("reported {} {} of communicator {id} as rank {rank} {what}", record.operation, record.sequence))
        };
        if [record.peer, record.root].into_iter().flatten().any(|rank| rank.0 >= size) {
            return wrong("with a rank that it does not have");
        }
        if !(record.wait_us.is_finite() && record.execute_us.is_finite()) {
            return wrong("with a time that is not a number");
        }
        let own = communicator.global_rank(record.rank).unwrap_or_default();
        let kind = match record.operation {
            Operation::Split | Operation::Shrink | Operation::Grow => return Ok(()),
            Operation::Send | Operation::Recv => OperationKind::PointToPoint,
            Operation::PutSignal | Operation::Signal | Operation::WaitSignal => OperationKind::OneSided,
            Operation::Barrier => OperationKind::Barrier,
            Operation::AllReduce
            | Operation::Reduce
            | Operation::Broadcast
            | Operation::AllGather
            | Operation::ReduceScatter
            | Operation::AllToAll
            | Operation::Gather
            | Operation::Scatter => OperationKind::Collective,
        };
        if record.operation.is_for_two() {
            let Some(peer) = record.peer else { return wrong("without the other side") };
            if !self.book_transfer(communicator, record, peer, kind) {
                return wrong("twice");
            }
        } else {
            match self.arrive(record, size) {
                Some(first) => {
                    let position = (record.sequence, kind, None);
                    if first {
                        self.book_collective(communicator, record, position);
                    } else {
                        self.timeline.observe(communicator.id, &position, record);
                    }
                }
                None => return wrong("twice"),
            }
        }
        let counts = self.ranks.entry(own).or_default();
        match kind {
            OperationKind::PointToPoint | OperationKind::OneSided => counts.transfers += 1,
            OperationKind::Barrier => counts.barriers += 1,
            OperationKind::Collective => counts.collectives += 1,
        }
        counts.wait_us += record.wait_us.max(0.0);
        Ok(())
    }

    /// Whether this is the first report of the collective; `None` if this rank reported it before.
    fn arrive(&mut self, record: &OperationRecord, size: u32) -> Option<bool> {
        let progress = self.progress.entry(record.communicator).or_default();
        let sequence = record.sequence.0;
        if sequence <= progress.floor {
            return None;
        }
        let reporters = progress.open.entry(sequence).or_default();
        let first = reporters.count == 0;
        if !reporters.insert(record.rank) {
            return None;
        }
        progress.collectives += u64::from(first);
        while let Some(next) = progress.open.first_entry()
            && *next.key() == progress.floor + 1
            && next.get().count == size
        {
            next.remove();
            progress.floor += 1;
        }
        Some(first)
    }

    fn book_collective(&mut self, communicator: &Communicator, record: &OperationRecord, position: Position) {
        let size = communicator.size();
        let request = cost::request_bytes(record.operation, size, record.count, record.datatype.size() as u64);
        let edges = cost::edges(record.operation, size, record.root, request);
        let (time, penalty) = self.book_edges(communicator, &edges, true);
        let bytes = request.saturating_mul(size.into());
        let totals = self.collectives.entry(record.operation).or_default();
        add(totals, bytes, time, penalty);
        let progress = self.progress.entry(communicator.id).or_default();
        progress.bytes = progress.bytes.saturating_add(bytes);
        let mut entry = self.entry(communicator.global_ranks(), communicator, record, bytes, time);
        if let Some(span) = entry.spans.get_mut(record.rank.0 as usize) {
            *span = Some(Span::from_record(record));
        }
        self.timeline.push(communicator.id, position, entry);
    }

    /// A transfer is booked from its send or put; a recv, a signal and a wait only count for their rank. False if this side
    /// reported it before.
    fn book_transfer(
        &mut self,
        communicator: &Communicator,
        record: &OperationRecord,
        peer: Rank,
        kind: OperationKind,
    ) -> bool {
        let receives = matches!(record.operation, Operation::Recv | Operation::WaitSignal);
        let (src, dst) = if receives { (peer, record.rank) } else { (record.rank, peer) };
        let progress = self.progress.entry(communicator.id).or_default();
        if !progress.pairs.entry((src, dst, record.operation)).or_default().insert(record.sequence.0) {
            return false;
        }
        let position = (record.sequence, kind, Some((src, dst)));
        if record.operation == Operation::Recv {
            self.timeline.received(communicator.id, position, Span::from_record(record));
        }
        if receives || record.operation == Operation::Signal {
            return true;
        }
        progress.transfers += 1;
        let bytes = cost::request_bytes(Operation::Send, 2, record.count, record.datatype.size() as u64);
        progress.bytes = progress.bytes.saturating_add(bytes);
        let edge = Edge { src, dst, bytes };
        let moves = src != dst && bytes > 0;
        let (time, penalty) =
            self.book_edges(communicator, if moves { std::slice::from_ref(&edge) } else { &[] }, false);
        add(&mut self.point_to_point, bytes, time, penalty);
        let ranks = [src, dst].into_iter().filter_map(|rank| communicator.global_rank(rank)).collect();
        let mut entry = self.entry(ranks, communicator, record, bytes, time);
        if let Some(sender) = entry.spans.first_mut() {
            *sender = Some(Span::from_record(record));
        }
        self.timeline.push(communicator.id, position, entry);
        true
    }

    fn entry(
        &self,
        ranks: Vec<Rank>,
        communicator: &Communicator,
        record: &OperationRecord,
        bytes: u64,
        time: Duration,
    ) -> Entry {
        let barrier = record.operation == Operation::Barrier;
        Entry {
            operation: record.operation,
            datatype: (!barrier).then_some(record.datatype),
            reduction_op: record.reduction_op,
            root: record.root.and_then(|root| communicator.global_rank(root)),
            count: if barrier { 0 } else { record.count },
            transport: if barrier { BufferTransport::Control } else { record.transport },
            spans: vec![None; ranks.len()],
            ranks,
            bytes,
            time,
            wait_us: record.wait_us,
            execute_us: record.execute_us,
        }
    }

    /// Books the edges of one operation on links and pairs, and returns its time and the penalty in it.
    fn book_edges(&mut self, communicator: &Communicator, edges: &[Edge], collective: bool) -> (Duration, Duration) {
        let Some(topology) = &self.topology else { return Default::default() };
        let mut shares: BTreeMap<(usize, usize), Share> = BTreeMap::new();
        let node = |rank| communicator.global_rank(rank).and_then(|rank| topology.node_of(rank));
        for edge in edges {
            let (Some(src), Some(dst)) = (node(edge.src), node(edge.dst)) else { continue };
            let share = shares.entry((src, dst)).or_default();
            share.samples += 1;
            share.bytes = share.bytes.saturating_add(edge.bytes);
            share.time += cost::edge_time(topology.fabric(topology.scope(src, dst)), edge.bytes);
        }
        let mut of_pairs: BTreeMap<(usize, usize), Share> = BTreeMap::new();
        for (&(src, dst), share) in &mut shares {
            share.penalty = cost::contention_penalty(topology.fabric(topology.scope(src, dst)), share.bytes);
            self.links.entry((src, dst)).or_default().add(share, collective);
            if src != dst {
                let pair = of_pairs.entry((src.min(dst), src.max(dst))).or_default();
                pair.samples += share.samples;
                pair.bytes = pair.bytes.saturating_add(share.bytes);
                pair.time += share.time;
                pair.penalty += share.penalty;
            }
        }
        for (nodes, share) in &of_pairs {
            self.pairs.entry(*nodes).or_default().add(share, collective);
        }
        (shares.values().map(|share| share.time).sum(), shares.values().map(|share| share.penalty).sum())
    }
}

impl Traffic {
    fn add(&mut self, share: &Share, collective: bool) {
        self.samples += share.samples;
        self.collectives += u64::from(collective);
        self.transfers += u64::from(!collective);
        self.bytes = self.bytes.saturating_add(share.bytes);
        self.peak_bytes = self.peak_bytes.max(share.bytes);
        self.time += share.time;
        self.penalty += share.penalty;
        self.peak_gbps = self.peak_gbps.max(cost::throughput_gbps(share.bytes, share.time));
    }
}

fn add(totals: &mut Totals, bytes: u64, time: Duration, penalty: Duration) {
    totals.calls += 1;
    totals.bytes = totals.bytes.saturating_add(bytes);
    totals.time += time;
    totals.penalty += penalty;
}

/// Marks a sequence that no operation has.
pub(crate) const NO_SEQUENCE: Sequence = Sequence(0);
