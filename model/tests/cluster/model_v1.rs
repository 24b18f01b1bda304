//! Bytes and times of model v1 against the numbers that FakeGPU 1.5.5 prints for the same workloads.

use crate::harness::{World, failure, plan, record};
use protocol::datatype::{Datatype, Operation};
use protocol::ids::{CommunicatorId, Rank};
use protocol::message::ToCoordinator;
use protocol::record::{ErrorCode, OperationRecord};
use protocol::report::{ClusterReport, FailureSource, LinkScope, OperationKind};

fn totals(report: &ClusterReport, name: &str) -> (u64, u64, f64) {
    let totals = &report.collectives[name];
    (totals.calls, totals.bytes, totals.estimated_time_us_total)
}

#[test]
fn two_ranks_of_one_node() {
    let mut world = World::formed(Some(plan(1, 2)), 2, 100);
    world.collective(Operation::AllReduce, 1, 2, 4);
    let report = world.report();
    assert_eq!(totals(&report, "all_reduce"), (1, 32, 6.002));
    assert_eq!(report.links.len(), 1);
    let link = &report.links[0];
    assert_eq!((link.bytes, link.samples, link.operations, link.scope), (64, 2, 1, LinkScope::IntraNode));
    assert_eq!((link.src.as_str(), link.dst.as_str()), ("node0", "node0"));
    assert!(report.node_pairs.is_empty());
}

#[test]
fn two_nodes_of_two() {
    let cases = [
        (Operation::AllReduce, "all_reduce", 1, Datatype::Float32, 16, 36.001),
        (Operation::AllReduce, "all_reduce", 212, Datatype::Float32, 3392, 36.294),
        (Operation::Broadcast, "broadcast", 212, Datatype::Float32, 3392, 36.147),
        (Operation::AllGather, "all_gather", 1, Datatype::Int64, 128, 36.006),
    ];
    for (operation, name, count, datatype, bytes, time) in cases {
        let mut world = World::formed(Some(plan(2, 2)), 4, 100);
        for rank in 0..4 {
            world.done(rank.into(), harness_record(operation, rank, count, datatype));
        }
        let report = world.report();
        assert_eq!(totals(&report, name), (1, bytes, time), "{operation} of {count} {datatype}");
        assert_eq!(report.links.len(), 4);
        assert_eq!(report.operation_timeline.entries[0].modeled_time_us, time);
    }
}

fn harness_record(operation: Operation, rank: u32, count: u64, datatype: Datatype) -> OperationRecord {
    OperationRecord { datatype, ..record(operation, 1, rank, count) }
}

#[test]
fn both_directions_of_a_pair_carry_eight_bytes_and_the_operation_counts_once() {
    let mut world = World::formed(Some(plan(2, 2)), 4, 100);
    world.collective(Operation::AllReduce, 1, 4, 1);
    let report = world.report();
    let pair = &report.node_pairs[0];
    assert_eq!((pair.a_to_b.total_bytes, pair.b_to_a.total_bytes), (8, 8));
    assert_eq!((pair.operations, pair.total_bytes, pair.peak_combined_bytes_per_operation), (1, 16, 16));
    // 8 * 8 B / (1000 * 200) * 0.5 us each way, rounded to three decimals.
    assert_eq!(report.collectives["all_reduce"].contention_penalty_us_total, 0.0);
    assert_eq!(pair.estimated_time_us_total, 30.001);
}

#[test]
fn a_ring_over_four_nodes_has_two_idle_pairs() {
    let mut four = plan(4, 1);
    four.inter_node.bandwidth_gbps = 25.0;
    let mut world = World::formed(Some(four), 4, 100);
    world.collective(Operation::AllReduce, 1, 4, 1024);
    let pairs = world.report().node_pairs;
    assert_eq!(pairs.len(), 6);
    assert_eq!(pairs.iter().filter(|pair| pair.operations > 0).count(), 4);
}

#[test]
fn an_injected_failure_counts_everybody_and_a_timeout_the_survivors() {
    for (code, source, reporters, attempted) in [
        (ErrorCode::InjectedRankFailure, FailureSource::Injected, vec![0, 1, 2, 3], 16),
        (ErrorCode::TimeoutWaitingForCollective, FailureSource::CollectiveTimeout, vec![0, 1, 3], 12),
    ] {
        let mut world = World::formed(Some(plan(2, 2)), 4, 100);
        for rank in &reporters {
            let failure = failure(Operation::AllReduce, 1, *rank, code, &[2], 4);
            world.say(u64::from(*rank), ToCoordinator::Failed { failure: failure.clone() });
            world.say(u64::from(*rank), ToCoordinator::Failed { failure });
        }
        let report = world.report();
        assert_eq!(report.resilience.failure_count, 1);
        let event = &report.resilience.failure_events[0];
        assert_eq!((event.source, event.error_code), (source, code));
        assert_eq!(event.attempted_payload_bytes, attempted);
        assert_eq!(event.global_rank, Some(Rank(2)));
        assert_eq!(event.observed_ranks, reporters.iter().copied().map(Rank).collect::<Vec<_>>());
        let timeouts: u64 = report.ranks.iter().map(|rank| rank.timeouts).sum();
        assert_eq!(timeouts > 0, source == FailureSource::CollectiveTimeout);
    }
}

/// Over sockets a rank blames whoever told it first: the one that was hit, or one that had heard of it.
#[test]
fn an_injected_failure_is_the_fault_of_the_rank_that_was_hit() {
    for heard_from in [[1, 1, 1, 1], [2, 1, 1, 0], [3, 1, 1, 2]] {
        let mut world = World::formed(Some(plan(2, 2)), 4, 100);
        for (rank, culprit) in (0..).zip(heard_from) {
            let failure = failure(Operation::Send, 0, rank, ErrorCode::InjectedRankFailure, &[culprit], 4);
            world.say(u64::from(rank), ToCoordinator::Failed { failure });
        }
        let events = world.report().resilience.failure_events;
        assert_eq!((events.len(), &events[0].culprits[..]), (1, &[Rank(1)][..]), "{heard_from:?}");
    }
}

#[test]
fn the_timeline_keeps_the_last_and_counts_the_rest() {
    let mut world = World::formed(Some(plan(2, 2)), 4, 3);
    for sequence in 1..=8 {
        world.collective(Operation::AllReduce, sequence, 4, 1);
    }
    let timeline = world.report().operation_timeline;
    assert_eq!((timeline.retained_entries, timeline.dropped_entries), (3, 5));
    assert_eq!(timeline.entries.iter().map(|entry| entry.index).collect::<Vec<_>>(), [6, 7, 8]);
    assert_eq!(timeline.entries.iter().map(|entry| entry.seqno.0).collect::<Vec<_>>(), [6, 7, 8]);
}

#[test]
fn a_subgroup_is_booked_on_its_true_ranks() {
    let mut world = World::new(Some(plan(2, 2)), 100);
    (0..4).for_each(|process| drop(world.join(process)));
    world.communicator(1, &[2, 3]);
    world.done(2, record(Operation::AllReduce, 1, 0, 4));
    world.done(3, record(Operation::AllReduce, 1, 1, 4));
    let report = world.report();
    assert_eq!(report.links.len(), 1);
    assert_eq!(report.links[0].src, "node1");
    assert_eq!(report.operation_timeline.entries[0].ranks, [Rank(2), Rank(3)]);
    let calls: Vec<u64> = report.ranks.iter().map(|rank| rank.collective_calls).collect();
    assert_eq!(calls, [0, 0, 1, 1]);
}

#[test]
fn a_transfer_counts_once_and_from_its_send() {
    let mut world = World::formed(Some(plan(2, 2)), 4, 100);
    let peer = |operation, rank, peer| OperationRecord { peer: Some(Rank(peer)), ..record(operation, 1, rank, 256) };
    world.done(2, peer(Operation::Recv, 2, 1));
    world.done(1, peer(Operation::Send, 1, 2));
    world.done(3, peer(Operation::Send, 3, 3));
    world.done(3, peer(Operation::Recv, 3, 3));
    let report = world.report();
    let totals = &report.point_to_point;
    // 1024 B from node0 to node1: 15 + 8 * 1024 * 1.5 / 200000 us; to itself nothing moves.
    assert_eq!((totals.operations, totals.sends, totals.bytes), (2, 2, 2048));
    assert_eq!((totals.estimated_time_us_total, totals.contention_penalty_us_total), (15.061, 0.02));
    assert_eq!(report.links.len(), 1);
    assert_eq!((report.links[0].bytes, report.links[0].point_to_point_operations), (1024, 1));
    let calls: Vec<u64> = report.ranks.iter().map(|rank| rank.point_to_point_calls).collect();
    assert_eq!(calls, [0, 1, 1, 2]);
    assert!(report.operation_timeline.entries.iter().all(|entry| entry.kind == OperationKind::PointToPoint));
}

#[test]
fn gather_and_scatter_are_transfers_to_and_from_the_root() {
    for (operation, name, inward) in [(Operation::Gather, "gather", true), (Operation::Scatter, "scatter", false)] {
        let mut world = World::formed(Some(plan(2, 2)), 4, 100);
        for rank in 0..4 {
            let root = Some(Rank(3));
            world.done(rank.into(), OperationRecord { root, ..record(operation, 1, rank, 2) });
        }
        let report = world.report();
        // One edge within node1, two between the nodes, 8 B each: 3 + 2 * 15 + (64 + 2 * 96 / 0.6667) / 300000.
        assert_eq!(totals(&report, name), (1, 32, 33.001));
        let across = report.links.iter().find(|link| link.scope == LinkScope::InterNode).unwrap();
        assert_eq!(across.dst == "node1", inward);
        assert_eq!((across.bytes, across.samples), (16, 2));
        assert_eq!(report.operation_timeline.entries[0].root, Some(Rank(3)));
    }
}

#[test]
fn barriers_carry_nothing() {
    let mut world = World::formed(Some(plan(2, 2)), 4, 100);
    world.collective(Operation::Barrier, 1, 4, 7);
    let report = world.report();
    assert_eq!(totals(&report, "barrier"), (1, 0, 0.0));
    assert!(report.links.is_empty());
    assert_eq!(report.operation_timeline.entries[0].kind, OperationKind::Barrier);
    assert!(report.ranks.iter().all(|rank| rank.barrier_calls == 1 && rank.collective_calls == 0));
}

#[test]
fn without_a_cluster_file_operations_count_and_cost_nothing() {
    let mut world = World::formed(None, 2, 100);
    world.collective(Operation::AllReduce, 1, 2, 4);
    let report = world.report();
    assert_eq!(totals(&report, "all_reduce"), (1, 32, 0.0));
    assert!(report.links.is_empty() && report.node_pairs.is_empty());
    assert_eq!((report.cluster.world_size, report.cluster.node_count), (2, 0));
    assert_eq!(report.ranks.len(), 2);
}

#[test]
fn communicators_are_numbered_by_their_ranks_and_not_by_arrival() {
    let orders: [[&[u32]; 3]; 2] = [[&[2, 3], &[0, 1], &[0, 1, 3]], [&[0, 1, 3], &[0, 1], &[2, 3]]];
    let reports = orders.map(|order| {
        let mut world = World::new(Some(plan(2, 2)), 100);
        (0..4).for_each(|process| drop(world.join(process)));
        for (id, globals) in (1..).zip(order) {
            world.communicator(id, globals);
            for (rank, global) in globals.iter().enumerate() {
                let communicator = CommunicatorId(u64::from(id));
                let record = record(Operation::AllReduce, 1, rank as u32, u64::from(globals[0] + 1));
                world.done(u64::from(*global), OperationRecord { communicator, ..record });
            }
        }
        let mut report = world.report();
        report.measured.operations.clear();
        report
    });
    assert_eq!(reports[0], reports[1]);
    let numbered: Vec<Vec<u32>> =
        reports[0].communicators.iter().map(|section| section.ranks.iter().map(|rank| rank.0).collect()).collect();
    assert_eq!(numbered, [vec![0, 1, 3], vec![0, 1], vec![2, 3]]);
}

/// Each rank's own times, also of a receive that is reported before its send; zero is when the first operation began.
#[test]
fn times_are_per_rank_and_since_the_first_operation() {
    let mut world = World::formed(Some(plan(2, 2)), 4, 10);
    let at = |record: OperationRecord, ended_ns| OperationRecord { wait_us: 10.0, execute_us: 5.0, ended_ns, ..record };
    for rank in 0..3 {
        world.done(rank.into(), at(record(Operation::AllReduce, 1, rank, 8), 1_000_000 + 1_000 * u64::from(rank)));
    }
    let side = |operation, rank, peer| OperationRecord { peer: Some(Rank(peer)), ..record(operation, 1, rank, 8) };
    world.done(1, at(side(Operation::Recv, 1, 0), 1_200_000));
    world.done(0, at(side(Operation::Send, 0, 1), 1_100_000));
    let operations = world.report().measured.operations;
    assert_eq!(operations[0].began_us, [Some(0.0), Some(1.0), Some(2.0), None]);
    assert_eq!(operations[0].ended_us, [Some(15.0), Some(16.0), Some(17.0), None]);
    assert_eq!(operations[1].began_us, [Some(100.0), Some(200.0)]);
    assert_eq!(operations[1].ended_us, [Some(115.0), Some(215.0)]);
}
