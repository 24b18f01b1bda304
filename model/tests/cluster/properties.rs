//! What holds for every workload and every order of arrival.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use model::exchange::{ConnectionId, Input, Output};
use protocol::datatype::{Datatype, Operation};
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::message::{ToCoordinator, ToRank};
use protocol::record::{ErrorCode, OperationRecord};
use protocol::report::{ClusterReport, OperationKind};

use crate::harness::{World, failure, plan, record};

const SIZE: u32 = 4;

/// What every rank of a communicator of four does: collectives, and transfers between neighbors.
fn workload() -> impl Strategy<Value = Vec<(Operation, u64, Datatype)>> {
    let operation = prop::sample::select(vec![
        Operation::AllReduce,
        Operation::Reduce,
        Operation::Broadcast,
        Operation::AllGather,
        Operation::ReduceScatter,
        Operation::AllToAll,
        Operation::Gather,
        Operation::Scatter,
        Operation::Barrier,
        Operation::Send,
    ]);
    let datatype = prop::sample::select(Datatype::ALL);
    prop::collection::vec((operation, 0..5000_u64, datatype), 1..30)
}

/// The records of each rank, in its own order.
fn records(workload: &[(Operation, u64, Datatype)]) -> Vec<Vec<OperationRecord>> {
    let of_rank = |rank: u32| {
        let (mut collectives, mut transfers) = (0, 0);
        let mut records = Vec::new();
        for &(operation, count, datatype) in workload {
            let base = |operation, sequence| OperationRecord {
                datatype,
                root: Some(Rank(1)),
                ..record(operation, sequence, rank, count)
            };
            if operation == Operation::Send {
                transfers += 1;
                let send = base(Operation::Send, transfers);
                records.push(OperationRecord { peer: Some(Rank((rank + 1) % SIZE)), root: None, ..send });
                let recv = base(Operation::Recv, transfers);
                records.push(OperationRecord { peer: Some(Rank((rank + SIZE - 1) % SIZE)), root: None, ..recv });
            } else {
                collectives += 1;
                records.push(base(operation, collectives));
            }
        }
        records
    };
    (0..SIZE).map(of_rank).collect()
}

/// Plays the records of all ranks, taking the next from the rank that `turns` names.
fn report_of(workload: &[(Operation, u64, Datatype)], turns: &[usize], kept: usize) -> ClusterReport {
    let mut world = World::formed(Some(plan(2, 2)), SIZE, kept);
    let mut queues: Vec<_> = records(workload).into_iter().map(Vec::into_iter).collect();
    let mut turns = turns.iter().copied().cycle();
    while queues.iter().any(|queue| queue.len() > 0) {
        let turn = turns.next().unwrap();
        let rank = (turn..turn + queues.len()).map(|rank| rank % SIZE as usize).find(|rank| queues[*rank].len() > 0);
        let rank = rank.unwrap();
        world.done(rank as u64, queues[rank].next().unwrap());
    }
    world.report()
}

/// What a rank reports of a failure: ranks may have called different operations, and have moved on to different ones.
fn reported_failure() -> impl Strategy<Value = (Operation, u64, ErrorCode, Vec<u32>)> {
    let operation = [Operation::AllReduce, Operation::Broadcast, Operation::Send, Operation::Recv];
    let code = [
        ErrorCode::CollectiveTypeMismatch,
        ErrorCode::CountMismatch,
        ErrorCode::RankLost,
        ErrorCode::InjectedRankFailure,
    ];
    let culprits = (0..SIZE).collect::<Vec<_>>();
    (
        prop::sample::select(operation.to_vec()),
        0..3_u64,
        prop::sample::select(code.to_vec()),
        prop::sample::subsequence(culprits, 0..2),
    )
}

fn config() -> ProptestConfig {
    // A fixed seed: a failure on one machine is one on every other.
    ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_report_does_not_depend_on_the_order_of_reports(
        workload in workload(),
        turns in prop::collection::vec(0..SIZE as usize, 1..50),
        kept in 0..40_usize,
    ) {
        let straight = report_of(&workload, &[0], kept);
        let mut shuffled = report_of(&workload, &turns, kept);
        shuffled.measured = straight.measured.clone();
        prop_assert_eq!(straight, shuffled);
    }

    #[test]
    fn failures_do_not_depend_on_the_order_of_reports(
        reports in prop::collection::vec((0..SIZE, reported_failure()), 1..8),
        order in prop::sample::subsequence((0..8_usize).collect::<Vec<_>>(), 8).prop_shuffle(),
    ) {
        let events = |order: &[usize]| {
            let mut world = World::formed(Some(plan(2, 2)), SIZE, 8);
            for (rank, (operation, sequence, code, culprits)) in order.iter().filter_map(|at| reports.get(*at)) {
                world.say(u64::from(*rank), ToCoordinator::Failed {
                    failure: failure(*operation, *sequence, *rank, *code, culprits, 4),
                });
            }
            world.report().resilience.failure_events
        };
        let straight: Vec<usize> = (0..reports.len()).collect();
        prop_assert_eq!(events(&straight), events(&order));
    }

    #[test]
    fn the_sums_of_a_report_agree(workload in workload(), kept in 0..40_usize) {
        let report = report_of(&workload, &[0, 1, 2, 3], kept);
        let calls: u64 = report.collectives.values().map(|totals| totals.calls).sum();
        let timeline = &report.operation_timeline;
        prop_assert_eq!(timeline.retained_entries + timeline.dropped_entries, calls + report.point_to_point.operations);
        prop_assert!(timeline.entries.len() <= kept);
        prop_assert!(timeline.entries.windows(2).all(|pair| pair[0].index + 1 == pair[1].index));
        let sends = workload.iter().filter(|(operation, ..)| *operation == Operation::Send).count() as u64;
        prop_assert_eq!(report.point_to_point.sends, sends * u64::from(SIZE));
        prop_assert!(report.ranks.iter().all(|rank| rank.point_to_point_calls == 2 * sends));
        for pair in &report.node_pairs {
            prop_assert_eq!(pair.total_bytes, pair.a_to_b.total_bytes + pair.b_to_a.total_bytes);
            prop_assert_eq!(pair.operations, pair.collective_operations + pair.point_to_point_operations);
            prop_assert!(pair.peak_combined_bytes_per_operation >= pair.a_to_b.peak_bytes_per_operation);
            for (direction, src, dst) in [(&pair.a_to_b, &pair.node_a, &pair.node_b), (&pair.b_to_a, &pair.node_b, &pair.node_a)] {
                let link = report.links.iter().find(|link| link.src == *src && link.dst == *dst);
                prop_assert_eq!(direction.total_bytes, link.map_or(0, |link| link.bytes));
                prop_assert_eq!(direction.transfers, link.map_or(0, |link| link.samples));
            }
        }
        let of_links: f64 = report.links.iter().map(|link| link.estimated_time_us_total).sum();
        let of_operations: f64 = report.collectives.values().map(|totals| totals.estimated_time_us_total).sum();
        let total = of_operations + report.point_to_point.estimated_time_us_total;
        // Each summand is rounded to 0.001.
        prop_assert!((of_links - total).abs() < 0.02, "links {} operations {}", of_links, total);
    }

    #[test]
    fn kept_operations_agree_with_the_totals_when_none_is_dropped(workload in workload()) {
        let report = report_of(&workload, &[0], 1000);
        prop_assert_eq!(report.operation_timeline.dropped_entries, 0);
        for (name, totals) in &report.collectives {
            let entries = report.operation_timeline.entries.iter().filter(|entry| entry.operation == *name);
            let (calls, bytes) = entries.fold((0, 0), |(calls, bytes), entry| (calls + 1, bytes + entry.logical_payload_bytes));
            prop_assert_eq!((calls, bytes), (totals.calls, totals.bytes));
        }
        let transfers = report.operation_timeline.entries.iter().filter(|entry| entry.kind == OperationKind::PointToPoint);
        prop_assert_eq!(transfers.count() as u64, report.point_to_point.operations);
    }

    #[test]
    fn every_request_is_answered_once(
        applications in prop::collection::vec((0..8_u64, 0..3_u8, 0..5_u32, 0..5_u32), 1..40),
        deaths in prop::collection::vec(0..8_u64, 0..4),
    ) {
        let mut world = World::new(Some(plan(2, 2)), 10);
        (0..8).for_each(|process| drop(world.join(process)));
        let mut outputs = Vec::new();
        for (request, (process, id, size, rank)) in applications.iter().enumerate() {
            outputs.extend(world.say(*process, ToCoordinator::InitCommunicator {
                request: request as u64,
                unique_id: vec![*id; 128],
                size: *size,
                rank: Rank(*rank),
                member: crate::harness::member(*process as u32 % 4, 1),
            }));
        }
        let mut dead = Vec::new();
        for process in deaths {
            dead.push(process);
            outputs.extend(world.step(Input::Disconnected { connection: ConnectionId(process), reason: None }));
        }
        world.now_us += 10_000_000;
        outputs.extend(world.step(Input::Tick));
        prop_assert_eq!(world.cluster.deadline(), None);
        let mut answered = vec![0; applications.len()];
        for output in outputs {
            if let Output::Send { connection, message: ToRank::CommunicatorFormed { request, .. } | ToRank::RequestFailed { request, .. } } = output {
                prop_assert_eq!(connection.0, applications[request as usize].0);
                answered[request as usize] += 1;
            }
        }
        for (answers, (process, ..)) in answered.iter().zip(&applications) {
            prop_assert!(*answers == 1 || (*answers == 0 && dead.contains(process)));
        }
    }

    #[test]
    fn every_request_is_answered_once_although_ranks_end(
        applications in prop::collection::vec((0..4_u64, 0..2_u8, 1..5_u32, 0..4_u32), 1..20),
        ends in prop::collection::vec((0..4_u32, 0..20_usize), 1..5),
    ) {
        let mut world = World::new(Some(plan(2, 2)), 10);
        (0..4).for_each(|rank| world.join_as(rank, rank as u32, 4));
        let (mut outputs, mut dead) = (Vec::new(), Vec::new());
        for (request, (process, id, size, rank)) in applications.iter().enumerate() {
            for (rank, _) in ends.iter().filter(|(_, when)| *when == request) {
                dead.push(u64::from(*rank));
                let connection = ConnectionId(u64::from(*rank));
                outputs.extend(world.step(Input::RankEnded { rank: Rank(*rank), pid: 100 + rank, how: "ended".to_owned() }));
                outputs.extend(world.step(Input::Disconnected { connection, reason: None }));
            }
            if dead.contains(process) {
                continue;
            }
            outputs.extend(world.say(*process, ToCoordinator::InitCommunicator {
                request: request as u64,
                unique_id: vec![*id; 128],
                size: *size,
                rank: Rank(*rank),
                member: crate::harness::member(*process as u32, 100 + *process as u32),
            }));
        }
        world.now_us += 10_000_000;
        outputs.extend(world.step(Input::Tick));
        let mut answered = vec![0; applications.len()];
        for output in outputs {
            if let Output::Send { message: ToRank::CommunicatorFormed { request, .. } | ToRank::RequestFailed { request, .. }, .. } = output {
                answered[request as usize] += 1;
            }
        }
        for (answers, (process, ..)) in answered.iter().zip(&applications) {
            prop_assert!(*answers == 1 || (*answers == 0 && dead.contains(process)));
        }
    }

    #[test]
    fn every_shrink_and_grow_is_answered_once(
        applications in prop::collection::vec((0..SIZE, prop::collection::vec(0..SIZE, 0..3), 1..3_u64), 0..24),
        deaths in prop::collection::vec(0..u64::from(SIZE), 0..3),
    ) {
        let mut world = World::formed(None, SIZE, 10);
        let mut outputs = Vec::new();
        for (request, (rank, excluded, sequence)) in applications.iter().enumerate() {
            let (request, rank, parent, sequence) = (request as u64, *rank, CommunicatorId(1), Sequence(*sequence));
            let member = crate::harness::member(rank, 100 + rank);
            let (process, rank) = (u64::from(rank), Rank(rank));
            // Nobody to leave out is a grow by a rank that never comes.
            let message = if excluded.is_empty() {
                ToCoordinator::GrowCommunicator { request, parent, sequence, size: SIZE + 1, rank, member }
            } else {
                let excluded = excluded.iter().copied().map(Rank).collect();
                ToCoordinator::ShrinkCommunicator { request, parent, sequence, rank, excluded, abort: false, member }
            };
            outputs.extend(world.say(process, message));
        }
        for process in &deaths {
            outputs.extend(world.step(Input::Disconnected { connection: ConnectionId(*process), reason: None }));
        }
        world.now_us += 10_000_000;
        outputs.extend(world.step(Input::Tick));
        prop_assert_eq!(world.cluster.deadline(), None);
        let mut answered = vec![0; applications.len()];
        for output in outputs {
            if let Output::Send { connection, message: ToRank::CommunicatorFormed { request, .. } | ToRank::RequestFailed { request, .. } } = output {
                prop_assert_eq!(connection.0, u64::from(applications[request as usize].0));
                answered[request as usize] += 1;
            }
        }
        prop_assert!(answered.iter().all(|answers| *answers == 1));
    }

    #[test]
    fn no_record_can_break_the_books(
        rank in 0..6_u32, sequence in any::<u64>(), count in any::<u64>(), peer in prop::option::of(0..6_u32),
        operation in prop::sample::select(Operation::ALL), wait in any::<f64>(), ended_ns in any::<u64>(),
    ) {
        let mut world = World::formed(Some(plan(2, 2)), SIZE, 10);
        let records = vec![OperationRecord {
            peer: peer.map(Rank),
            root: peer.map(Rank),
            sequence: Sequence(sequence),
            wait_us: wait,
            ended_ns,
            site: SiteId::default(),
            ..record(operation, 1, rank, count)
        }];
        world.say(0, ToCoordinator::Completed { records });
        let json = serde_json::to_string(&world.report()).unwrap();
        serde_json::from_str::<ClusterReport>(&json).unwrap();
    }

    #[test]
    fn no_text_makes_the_cluster_reader_panic(at in 0..400_usize, cut in 0..40_usize, insert in "[-:{}\\[\\]\"'&*a-z0-9 \n]{0,6}") {
        let mut text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/two_nodes.yaml")).unwrap();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &insert);
        if let Err(mistakes) = model::cluster_file::parse("c.yaml", &text, &|_| Err("none".to_owned())) {
            prop_assert!(!mistakes.is_empty());
            prop_assert!(!model::diagnostic::render(&mistakes, &text).is_empty());
        }
    }
}
