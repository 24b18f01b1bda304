//! Faults that fire: reported once, however many ranks report them, and listed in the cluster report.

use std::time::Duration;

use model::exchange::{ConnectionId, Output};
use protocol::datatype::Operation;
use protocol::fault::{Action, Fault, FaultRecord, Trigger};
use protocol::gpu_event::board::Times;
use protocol::gpu_event::{GpuEvent, GpuHealth};
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{ToCoordinator, ToRank};
use protocol::report::{FaultKind, GpuChange, InjectedFault};

use crate::harness::{World, plan};

fn noted(first: bool) -> Vec<Output> {
    vec![Output::Send { connection: ConnectionId(1), message: ToRank::FaultNoted { request: 7, first } }]
}

#[test]
fn a_fault_counts_once_and_is_in_the_report() {
    let mut world = World::formed(Some(plan(2, 2)), 4, 10);
    let collective = Some((CommunicatorId(1), Sequence(3), Operation::AllReduce));
    let kill = FaultRecord { number: 2, kind: FaultKind::Kill, rank: Some(Rank(1)), collective };
    let slow = FaultRecord { number: 1, kind: FaultKind::SlowLink, rank: None, collective: None };
    let fires = |record: &FaultRecord| ToCoordinator::FaultFires { request: 7, record: record.clone() };
    assert_eq!(world.say(1, fires(&kill)), noted(true));
    assert_eq!(world.say(1, fires(&kill)), noted(false), "a rank that was started again does not suffer it again");
    assert_eq!(world.say(1, fires(&slow)), noted(true));
    let report = world.report();
    let listed = |index, kind, rank, comm_id, seqno, operation: &str| InjectedFault {
        index,
        kind,
        rank,
        comm_id,
        seqno: Sequence(seqno),
        operation: operation.to_owned(),
        gpu: None,
    };
    assert_eq!(
        report.resilience.injected_faults,
        [
            listed(1, FaultKind::SlowLink, None, None, 0, "none"),
            listed(2, FaultKind::Kill, Some(Rank(1)), Some(CommunicatorId(1)), 3, "all_reduce"),
        ]
    );
    let text = model::report_markdown::render(&report, "report.json");
    assert!(text.contains("| 2 | kill | 1 | 1:3 | all_reduce |"), "{text}");
}

#[test]
fn a_fault_in_an_unknown_communicator_breaks_the_rules() {
    let mut world = World::formed(None, 2, 10);
    let collective = Some((CommunicatorId(9), Sequence(1), Operation::AllReduce));
    let record = FaultRecord { number: 1, kind: FaultKind::Delay, rank: Some(Rank(1)), collective };
    let outputs = world.say(1, ToCoordinator::FaultFires { request: 7, record });
    assert!(matches!(&outputs[..], [Output::Close { reason, .. }] if reason.contains("not known")), "{outputs:?}");
}

#[test]
fn a_change_of_a_gpu_is_in_the_report_with_what_changed() {
    let mut world = World::formed(Some(plan(2, 2)), 4, 10);
    let health = GpuHealth { lost: true, xid: Some(79), ..GpuHealth::default() };
    let event = GpuEvent { gpu: "node1/1".to_owned(), node: 1, local: 1, slot: 0, health };
    let at = Trigger::After { rank: Some(Rank(3)), elapsed: Duration::from_secs(2) };
    world.cluster.asks_for(vec![Fault { number: 1, origin: "s.yaml:5:7".to_owned(), at, action: Action::Gpu(event) }]);
    let times = Times { start: 1_000_000, happened: Vec::new() };
    world.cluster.gpus_changed(&times, 2_999_999);
    assert_eq!(world.report().resilience.injected_faults, []);
    world.cluster.gpus_changed(&times, 3_000_000);
    let report = world.report();
    let [fault] = &report.resilience.injected_faults[..] else { panic!("{:?}", report.resilience) };
    assert_eq!((fault.kind, fault.rank, fault.operation.as_str()), (FaultKind::Gpu, Some(Rank(3)), "none"));
    let change = GpuChange { gpu: "node1/1".to_owned(), health: "xid 79, lost".to_owned(), is_fatal: true };
    assert_eq!(fault.gpu, Some(change));
    let text = model::report_markdown::render(&report, "report.json");
    assert!(text.contains("| 1 | gpu: node1/1: xid 79, lost | 3 | - | none |"), "{text}");
}
