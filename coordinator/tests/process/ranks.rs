//! Ranks that come together, work, and die.

use std::time::{Duration, Instant};

use protocol::activity::{Activation, Activity};
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::message::{ToCoordinator, ToRank};
use protocol::record::ErrorCode;

use crate::harness::{Client, Coordinator};

#[test]
fn a_world_forms_over_both_transports() {
    for transport in ["unix", "tcp"] {
        let coordinator = Coordinator::start(transport);
        let mut clients: Vec<_> = (0..4).map(|rank| coordinator.process(100 + rank)).collect();
        for (rank, client) in clients.iter_mut().enumerate().rev() {
            client.init(7, 4, rank as u32);
        }
        for (expected, client) in clients.iter_mut().enumerate() {
            match client.receive() {
                Some(ToRank::CommunicatorFormed { request: 1, communicator, rank, members }) => {
                    assert_eq!((communicator, rank), (CommunicatorId(1), Rank(expected as u32)));
                    assert_eq!(members.iter().map(|member| member.pid).collect::<Vec<_>>(), [100, 101, 102, 103]);
                }
                other => panic!("not formed but {other:?}"),
            }
        }
    }
}

#[test]
fn a_death_is_reported_at_once() {
    for transport in ["unix", "tcp"] {
        let mut coordinator = Coordinator::start(transport);
        let mut clients = coordinator.world();
        let start = Instant::now();
        drop(clients.remove(2));
        for client in &mut clients {
            match client.receive() {
                Some(ToRank::MemberLost { communicator, rank, code, detail }) => {
                    assert_eq!((communicator, rank, code), (CommunicatorId(1), Rank(2), ErrorCode::RankLost));
                    assert_eq!(detail, "rank 2 (pid 102, node1) ended unexpectedly");
                }
                other => panic!("not notified but {other:?}"),
            }
        }
        assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
        coordinator.signal(libc::SIGTERM);
        drop(clients);
        coordinator.ended();
        let report = coordinator.report();
        assert_eq!(report.resilience.failure_count, 1);
        assert_eq!(report.resilience.failure_events[0].global_rank, Some(Rank(2)));
    }
}

#[test]
fn a_goodbye_is_no_failure() {
    let mut coordinator = Coordinator::start("unix");
    let mut clients = coordinator.world();
    for (rank, client) in clients.iter_mut().enumerate() {
        client.done(rank as u32, 1);
        client.send(&ToCoordinator::Goodbye);
    }
    drop(clients);
    coordinator.signal(libc::SIGTERM);
    coordinator.ended();
    let report = coordinator.report();
    assert_eq!(report.resilience.failure_count, 0);
    assert_eq!(report.collectives["all_reduce"].calls, 1);
    assert!(report.ranks.iter().all(|rank| rank.collective_calls == 1));
}

/// What the coordinator says of [`hang`].
const HANG: &str = "ranks 0, 1 and 2 wait in all_reduce(count 4, float32, sum), collective 1 of communicator 1, for rank 3; \
                    rank 3 is in no NCCL call and has completed nothing there";

/// Ranks of which one does not come, until the coordinator says so.
fn hang() -> (Coordinator, Vec<Client>) {
    let mut coordinator = Coordinator::start_with("unix", |command| {
        command.args(["--idle-ms", "300"]);
    });
    let mut clients = coordinator.world();
    let activation = Activation {
        sequence: Sequence(1),
        operation: Operation::AllReduce,
        count: 4,
        datatype: Datatype::Float32,
        reduction_op: Some(ReductionOp::Sum),
        root: None,
        peer: None,
        age_us: 400_000,
        took_us: None,
        site: SiteId::default(),
    };
    for (rank, client) in clients.iter_mut().enumerate() {
        let Some(ToRank::Inquire { request }) = client.receive() else { panic!("was not asked") };
        let current = if rank == 3 { Vec::new() } else { vec![activation.clone()] };
        let (communicator, rank) = (CommunicatorId(1), Rank(rank as u32));
        let activity = Activity { communicator, rank, current, queued: 0, recent: Vec::new() };
        client.send(&ToCoordinator::Active { request, activities: vec![activity] });
    }
    let line = coordinator.line();
    assert!(line.starts_with("fakegpu-coordinator hang: nothing has moved for 0."), "{line}");
    assert!(line.trim_end().ends_with(HANG), "{line}");
    (coordinator, clients)
}

/// The sentence of the report's hang, at the end.
fn reported_hang(coordinator: &mut Coordinator) -> Option<String> {
    coordinator.signal(libc::SIGTERM);
    coordinator.ended();
    coordinator.report().hang.map(|hang| hang.sentence)
}

#[test]
fn when_nobody_moves_the_coordinator_names_the_waiting_and_the_missing() {
    let (mut coordinator, mut clients) = hang();
    let mut control = coordinator.control();
    control.send(&ToCoordinator::Diagnose { last: false });
    for client in &mut clients {
        let Some(ToRank::Inquire { request }) = client.receive() else { panic!("was not asked again") };
        client.send(&ToCoordinator::Active { request, activities: Vec::new() });
    }
    let Some(ToRank::Diagnosis { json }) = control.receive() else { panic!("no answer") };
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        document,
        serde_json::json!({ "hang": null, "waits_ms": null, "missing_processes": null, "activities": [] })
    );
    assert_eq!(reported_hang(&mut coordinator).as_deref(), Some(HANG));
}

#[test]
fn a_hang_is_taken_back_by_answers_and_not_by_processes_that_are_ended_meanwhile() {
    for answer in [true, false] {
        let (mut coordinator, mut clients) = hang();
        let mut control = coordinator.control();
        control.send(&ToCoordinator::Diagnose { last: true });
        for client in &mut clients {
            let Some(ToRank::Inquire { request }) = client.receive() else { panic!("was not asked again") };
            if answer {
                client.send(&ToCoordinator::Active { request, activities: Vec::new() });
            }
        }
        if !answer {
            clients.clear();
        }
        let Some(ToRank::Diagnosis { .. }) = control.receive() else { panic!("no answer") };
        assert_eq!(reported_hang(&mut coordinator).as_deref(), (!answer).then_some(HANG));
        if !answer {
            let failures = coordinator.report().resilience.failure_count;
            assert_eq!(failures, 0, "whoever ended a hanging case ended its ranks");
        }
    }
}

#[test]
fn a_missing_rank_is_named_when_the_time_is_up() {
    let coordinator = Coordinator::start_with("unix", |command| {
        command.env("FAKEGPU_COORDINATOR_TIMEOUT_MS", "200");
    });
    let mut client = coordinator.process(100);
    client.init(7, 4, 1);
    match client.receive() {
        Some(ToRank::RequestFailed { request: 1, code: ErrorCode::TimeoutWaitingForRanks, detail }) => {
            assert_eq!(detail, "waited 0.2 s for ranks of a communicator of 4; missing: 0, 2, 3");
        }
        other => panic!("no timeout but {other:?}"),
    }
}
