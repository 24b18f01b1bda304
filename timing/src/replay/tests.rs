//! Logs written by hand, with times that are added up here.

use protocol::datatype::{Datatype, Operation};
use protocol::ids::{CommunicatorId, Rank};
use protocol::operations::{
    Act, Form, GroupPart, LoggedCommunicator, LoggedDevice, LoggedGroup, LoggedOperation, LoggedStream, LoggedWork,
    OPERATIONS_VERSION, OperationLog, StreamOrder, WorkKind,
};
use protocol::plan::{ClusterPlan, FabricPlan, NodePlan};
use protocol::profile;
use protocol::report::StepMark;

use super::{Replayed, replay};
use crate::work::{self, Gpu, host};
use crate::{Launch, Settings, machine, physics};

/// Equal nodes of H100.
fn plan(nodes: u32, per_node: u32) -> ClusterPlan {
    let fabric = FabricPlan { kind: "nvlink".into(), bandwidth_gbps: 400.0, latency_us: 1.0, oversubscription: 1.0 };
    let node = |node: u32| NodePlan {
        id: format!("node{node}"),
        host: String::new(),
        ranks: (node * per_node..(node + 1) * per_node).map(Rank).collect(),
        gpus: vec!["h100".to_owned(); per_node as usize],
    };
    ClusterPlan {
        name: "test".to_owned(),
        default_backend: "nccl".to_owned(),
        nodes: (0..nodes).map(node).collect(),
        intra_node: fabric.clone(),
        inter_node: fabric,
        custom_profiles: Default::default(),
        machine: None,
    }
}

const KERNEL_BYTES: u64 = 1 << 30;
const ELEMENTS: u64 = 64 << 20;

/// A rank of `world`: streams 0 (compute) and 1 (communication), work 0 (a kernel) and 1 (NCCL's).
fn log(rank: u32, plan: &ClusterPlan, parts: Vec<GroupPart>, operations: Vec<LoggedOperation>) -> OperationLog {
    let stream = || LoggedStream { device: 0, order: StreamOrder::NonBlocking };
    let work = |kind| LoggedWork {
        name: 0,
        kind,
        element: None,
        flops: 0,
        form: Form::Other,
        bytes: KERNEL_BYTES,
        is_node: false,
    };
    let world = plan.world_size();
    OperationLog {
        version: OPERATIONS_VERSION.to_owned(),
        rank: Rank(rank),
        is_alone: false,
        cluster: plan.clone(),
        nccl_variables: Default::default(),
        nccl_minor: 0,
        devices: vec![LoggedDevice { profile: "h100".to_owned(), nvlink_gbytes: 450.0 }],
        names: vec!["work".to_owned()],
        lines: Vec::new(),
        streams: vec![stream(), stream()],
        works: vec![work(WorkKind::Operator), work(WorkKind::Collective)],
        communicators: vec![LoggedCommunicator { id: CommunicatorId(1), ranks: (0..world).map(Rank).collect(), rank }],
        groups: vec![LoggedGroup { communicator: 0, parts }],
        operations,
        dropped: 0,
    }
}

fn all_reduce() -> Vec<GroupPart> {
    vec![GroupPart { operation: Operation::AllReduce, datatype: Datatype::Float32, count: ELEMENTS, peer: None }]
}

/// Steps of so many all_reduces, each rank submitting its own `late_ns` after the one before.
fn job(plan: &ClusterPlan, steps: u32, late_ns: impl Fn(u32) -> u64) -> Vec<OperationLog> {
    let rank = |rank: u32| {
        let step = [
            LoggedOperation(late_ns(rank), Act::Group(1, 1, 0, 0)),
            LoggedOperation(0, Act::Device(0)),
            LoggedOperation(0, Act::Mark(StepMark::Optimizer, false)),
        ];
        let steps = (0..steps).flat_map(|_| step).chain([LoggedOperation(0, Act::End)]);
        log(rank, plan, all_reduce(), steps.collect())
    };
    (0..plan.world_size()).map(rank).collect()
}

fn ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

fn collective_ns(plan: &ClusterPlan, operation: Operation, bytes: u64) -> u64 {
    let machine = machine::of_cluster(plan).unwrap();
    let (settings, physics) = (Settings::default(), physics::Physics::default());
    ns(timing_of(physics::estimate(&machine, &settings, &physics, operation, bytes, Launch::ProcessPerGpu)))
}

fn timing_of(estimate: Option<physics::Estimate>) -> f64 {
    estimate.unwrap().us
}

fn refused(logs: &[OperationLog], plan: &ClusterPlan, replicas: u32) -> String {
    replay(logs, plan, replicas).unwrap_err().to_string()
}

#[test]
fn a_collective_begins_when_its_last_rank_is_ready() {
    let plan = plan(2, 2);
    let logs = job(&plan, 3, |rank| if rank == 3 { 50_000 } else { 7_000 });
    let Replayed { time, between_bytes, inside_bytes, .. } = replay(&logs, &plan, 1).unwrap();
    let took = collective_ns(&plan, Operation::AllReduce, ELEMENTS * 4);
    let step = 50_000 + ns(host::SUBMISSION_US) + took;
    for steps in &time.steps {
        assert_eq!(steps.first.duration_ns, step, "rank {:?}", steps.rank);
        assert_eq!(steps.last.communication_ns, took);
        assert_eq!(steps.last.collective_wait_ns, if steps.rank == Some(Rank(3)) { 0 } else { 43_000 });
    }
    // Three rings of four edges, each with twice the message; two of the four are between nodes.
    assert_eq!([inside_bytes, between_bytes], [3 * 2 * 2 * ELEMENTS * 4; 2]);
}

#[test]
fn a_stream_waits_for_the_record_and_the_host_for_the_stream() {
    let plan = plan(1, 1);
    let acts = [
        LoggedOperation(6_700, Act::Work(0, 0, 0)),
        LoggedOperation(600, Act::Record(0, 1)),
        LoggedOperation(600, Act::Wait(1, 1)),
        LoggedOperation(6_700, Act::Work(1, 0, 0)),
        LoggedOperation(0, Act::Stream(1)),
        LoggedOperation(3_000, Act::End),
    ];
    let logs = [log(0, &plan, Vec::new(), acts.to_vec())];
    let kernel = ns(work::memory_us(&Gpu::from_profile(profile::builtin("h100").unwrap()), KERNEL_BYTES));
    let first = 6_700 + ns(host::SUBMISSION_US) + kernel;
    let end_ns = replay(&logs, &plan, 1).unwrap().end_ns;
    assert_eq!(end_ns, first + ns(work::GAP_US) + kernel + 3_000);
    // Without the wait, both run at the same time and share the memory; only a wait for the device shows that.
    let mut apart = logs[0].clone();
    apart.operations.remove(2);
    let alone = 6_700 + 600 + 6_700 + ns(host::SUBMISSION_US) + kernel + 3_000;
    assert_eq!(replay(&[apart.clone()], &plan, 1).unwrap().end_ns, alone);
    apart.operations[3] = LoggedOperation(0, Act::Device(0));
    assert!(replay(&[apart], &plan, 1).unwrap().end_ns > alone);
}

#[test]
fn a_small_send_does_not_wait_and_a_large_one_does() {
    let plan = plan(1, 2);
    for (count, waits) in [(8 << 10, false), ((8 << 10) + 1, true)] {
        let rank = |rank: u32, operation: Operation, late_ns: u64| {
            let part = GroupPart { operation, datatype: Datatype::Float32, count, peer: Some(1 - rank) };
            let acts = [LoggedOperation(late_ns, Act::Group(1, 1, 0, 0)), LoggedOperation(0, Act::Stream(1))];
            log(rank, &plan, vec![part], acts.into_iter().chain([LoggedOperation(0, Act::End)]).collect())
        };
        let sends = rank(0, Operation::Send, 7_000);
        let receives = |late_ns: u64| rank(1, Operation::Recv, late_ns);
        let end_ns = |late_ns: u64| {
            // The receive itself takes no time, so the sender's end is the last one unless the receiver is late.
            replay(&[sends.clone(), receives(late_ns)], &plan, 1).unwrap().end_ns
        };
        let sent = collective_ns(&plan, Operation::Send, count * 4);
        let late = 900_000 + ns(host::SUBMISSION_US);
        assert_eq!(end_ns(7_000), 7_000 + ns(host::SUBMISSION_US) + sent);
        assert_eq!(end_ns(900_000), if waits { late + sent } else { late }, "{count} elements");
    }
}

#[test]
fn half_the_network_makes_an_all_reduce_longer_by_what_the_model_says() {
    let before = plan(2, 8);
    let mut after = before.clone();
    after.machine = Some(Box::new(protocol::plan::MachinePlan { nic_gbps: Some(200.0), ..Default::default() }));
    let logs = job(&before, 3, |_| 7_000);
    let took = |plan: &ClusterPlan| collective_ns(plan, Operation::AllReduce, ELEMENTS * 4);
    let step = |plan: &ClusterPlan| replay(&logs, plan, 1).unwrap().time.steps[0].last.duration_ns;
    assert!(took(&after) > took(&before));
    assert_eq!(step(&after) - step(&before), took(&after) - took(&before));
}

#[test]
fn a_larger_job_has_the_collectives_of_its_size() {
    let before = plan(1, 8);
    let logs = job(&before, 3, |_| 7_000);
    let after = plan(4, 8);
    let replayed = replay(&logs, &after, 4).unwrap();
    assert_eq!(replayed.time.steps.len(), 32);
    let took = collective_ns(&after, Operation::AllReduce, ELEMENTS * 4);
    assert!(replayed.time.steps.iter().all(|steps| steps.last.communication_ns == took));
    assert_eq!(refused(&logs, &before, 4), "cluster test has 8 GPUs, and the job has 32 ranks");
    let mut apart = logs.clone();
    apart[0].communicators[0].ranks.truncate(4);
    let said = refused(&apart, &after, 4);
    assert!(said.starts_with("a communicator of rank 0 has 4 of 8 ranks"), "{said}");
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let plan = plan(1, 2);
    let logs = job(&plan, 2, |_| 7_000);
    let changed = |change: &dyn Fn(&mut OperationLog)| {
        let mut logs = logs.clone();
        change(&mut logs[1]);
        refused(&logs, &plan, 1)
    };
    for (change, said) in [
        (
            &(|log: &mut OperationLog| log.version = "operations.v9".to_owned()) as &dyn Fn(&mut OperationLog),
            "rank 1: the log is of version `operations.v9`, not operations.v1",
        ),
        (&|log| log.dropped = 3, "rank 1 submitted 3 operations more than the 7 that are kept; run fewer steps"),
        (&|log| log.rank = Rank(0), "two processes are rank 0"),
        (&|log| log.streams.truncate(1), "rank 1: operation 0 names something that its tables do not have"),
        (
            &|log| log.operations.retain(|operation| !matches!(operation.1, Act::Group(..))),
            "rank 0 waits in all_reduce of 67108864 elements for ranks that never come to it: a process that was killed leaves no operations",
        ),
    ] {
        assert_eq!(changed(change), said);
    }
    assert_eq!(refused(&[], &plan, 1), "there are no operations");
    // A rank that left no log holds nobody up.
    assert!(replay(&logs[..1], &plan, 1).is_ok());
}
