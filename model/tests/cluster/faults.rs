//! Faults that fire: reported once, however many ranks report them, and listed in the cluster report.

use model::exchange::{ConnectionId, Output};
use protocol::datatype::Operation;
use protocol::fault::FaultRecord;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{ToCoordinator, ToRank};
use protocol::report::{FaultKind, InjectedFault};

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
