//! A cluster under test: processes by number, short verbs, answers collected.

use model::cluster::report::RunFacts;
use model::cluster::{Cluster, Settings};
use model::exchange::{ConnectionId, Input, Output};
use protocol::datatype::{Datatype, Operation};
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::message::{Member, ProcessInfo, ToCoordinator};
use protocol::plan::{ClusterPlan, FabricPlan, NodePlan};
use protocol::record::{BufferTransport, ErrorCode, FailureRecord, Issue, OperationRecord};
use protocol::report::ClusterReport;

/// `nodes` nodes of `gpus` a100 each, with FakeGPU's reference fabrics: intra 300 Gbit/s 3 us, inter 200/15/1.5.
pub(crate) fn plan(nodes: u32, gpus: u32) -> ClusterPlan {
    let fabric = |kind: &str, bandwidth_gbps, latency_us, oversubscription| FabricPlan {
        kind: kind.to_owned(),
        bandwidth_gbps,
        latency_us,
        oversubscription,
    };
    ClusterPlan {
        name: "test".to_owned(),
        default_backend: "nccl".to_owned(),
        nodes: (0..nodes)
            .map(|node| NodePlan {
                id: format!("node{node}"),
                host: "127.0.0.1".to_owned(),
                ranks: (node * gpus..(node + 1) * gpus).map(Rank).collect(),
                gpus: vec!["a100".to_owned(); gpus as usize],
            })
            .collect(),
        intra_node: fabric("nvlink", 300.0, 3.0, 1.0),
        inter_node: fabric("infiniband", 200.0, 15.0, 1.5),
        custom_profiles: Default::default(),
        machine: None,
    }
}

pub(crate) fn member(global_rank: u32, pid: u32) -> Member {
    Member {
        global_rank: Rank(global_rank),
        device: 0,
        pid,
        host: "host".to_owned(),
        arena: None,
        control: None,
        data_address: "unix:@x".to_owned(),
        site: SiteId::default(),
        gpu: u64::from(global_rank),
        is_only: true,
    }
}

/// Rank `rank`'s record of an operation on f32 in communicator 1.
pub(crate) fn record(operation: Operation, sequence: u64, rank: u32, count: u64) -> OperationRecord {
    OperationRecord {
        communicator: CommunicatorId(1),
        sequence: Sequence(sequence),
        rank: Rank(rank),
        operation,
        count,
        datatype: Datatype::Float32,
        reduction_op: None,
        root: None,
        peer: None,
        transport: BufferTransport::SharedMemory,
        wait_us: 1.0,
        execute_us: 2.0,
        ended_ns: 0,
        site: SiteId::default(),
        issue: Issue::default(),
    }
}

pub(crate) fn failure(
    operation: Operation,
    sequence: u64,
    rank: u32,
    code: ErrorCode,
    culprits: &[u32],
    bytes: u64,
) -> FailureRecord {
    FailureRecord {
        communicator: Some(CommunicatorId(1)),
        sequence: Sequence(sequence),
        rank: Rank(rank),
        operation,
        code,
        detail: format!("{operation} {sequence} failed"),
        culprits: culprits.iter().copied().map(Rank).collect(),
        attempted_bytes: bytes,
        site: SiteId::default(),
    }
}

/// A cluster whose process `n` has connection `n` and pid `100 + n`.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) now_us: u64,
}

impl World {
    pub(crate) fn new(plan: Option<ClusterPlan>, max_operations: usize) -> Self {
        let settings = Settings { plan, timeout_us: 10_000_000, max_operations, ..Settings::default() };
        Self { cluster: Cluster::new(settings), now_us: 0 }
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<Output> {
        self.cluster.step(input, self.now_us)
    }

    pub(crate) fn join(&mut self, process: u64) -> Vec<Output> {
        let info = ProcessInfo {
            pid: 100 + process as u32,
            rank: None,
            world_size: None,
            program: "test".to_owned(),
            backlog: None,
        };
        self.step(Input::Joined { connection: ConnectionId(process), info })
    }

    /// As [`Self::join`], for a process that its launcher gave its place.
    pub(crate) fn join_as(&mut self, process: u64, rank: u32, world_size: u32) {
        let (pid, program) = (100 + process as u32, "test".to_owned());
        let (rank, world_size) = (Some(Rank(rank)), Some(world_size));
        let info = ProcessInfo { pid, rank, world_size, program, backlog: None };
        self.step(Input::Joined { connection: ConnectionId(process), info });
    }

    pub(crate) fn say(&mut self, process: u64, message: ToCoordinator) -> Vec<Output> {
        self.step(Input::Message { connection: ConnectionId(process), message })
    }

    pub(crate) fn init(&mut self, process: u64, id: u8, size: u32, rank: u32, global: u32) -> Vec<Output> {
        let member = member(global, 100 + process as u32);
        self.say(
            process,
            ToCoordinator::InitCommunicator { request: 1, unique_id: vec![id; 128], size, rank: Rank(rank), member },
        )
    }

    /// A communicator of the given global ranks, each acted by the process of that number; they have to have joined.
    pub(crate) fn communicator(&mut self, id: u8, globals: &[u32]) {
        for (rank, global) in globals.iter().enumerate() {
            self.init(u64::from(*global), id, globals.len() as u32, rank as u32, *global);
        }
    }

    /// `size` processes in communicator 1 over all ranks.
    pub(crate) fn formed(plan: Option<ClusterPlan>, size: u32, max_operations: usize) -> Self {
        let mut world = Self::new(plan, max_operations);
        let globals: Vec<u32> = (0..size).collect();
        for global in &globals {
            world.join(u64::from(*global));
        }
        world.communicator(0, &globals);
        world
    }

    /// Process `process` reports one operation.
    pub(crate) fn done(&mut self, process: u64, record: OperationRecord) {
        let outputs = self.say(process, ToCoordinator::Completed { records: vec![record] });
        assert_eq!(outputs, []);
    }

    /// All of the first `size` processes report a collective of communicator 1.
    pub(crate) fn collective(&mut self, operation: Operation, sequence: u64, size: u32, count: u64) {
        for rank in 0..size {
            self.done(u64::from(rank), record(operation, sequence, rank, count));
        }
    }

    pub(crate) fn report(&self) -> ClusterReport {
        self.cluster.report(&RunFacts { transport: "unix".to_owned(), ..RunFacts::default() })
    }
}
