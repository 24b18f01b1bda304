//! Start, readiness, refresh, and the ways to end.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use protocol::message::{ToCoordinator, ToRank};

use crate::harness::{Coordinator, DEADLINE, read_report};

#[test]
fn shutdown_answers_writes_the_report_and_removes_the_socket() {
    for transport in ["unix", "tcp"] {
        let mut coordinator = Coordinator::start(transport);
        let mut control = coordinator.control();
        control.send(&ToCoordinator::Shutdown);
        assert_eq!(control.receive(), Some(ToRank::ShuttingDown));
        assert_eq!(control.receive(), None);
        assert_eq!(coordinator.ended().code(), Some(0));
        assert!(!coordinator.socket().exists());
        let report = coordinator.report();
        assert_eq!((report.cluster.world_size, report.cluster.coordinator_transport.as_str()), (4, transport));
        let markdown = std::fs::read_to_string(coordinator.directory.path().join("report.md")).unwrap();
        assert!(markdown.starts_with("# FakeGPU Cluster Communication Report\n"));
        let left: Vec<_> = std::fs::read_dir(coordinator.directory.path()).unwrap().collect();
        assert_eq!(left.len(), 3, "cluster.yaml, report.json, report.md and nothing else: {left:?}");
    }
}

#[test]
fn term_and_int_end_at_once_and_in_order() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut coordinator = Coordinator::start("unix");
        // A client that has not sent its hello is not waited for.
        let _stranger = coordinator.connect();
        let start = Instant::now();
        coordinator.signal(signal);
        assert_eq!(coordinator.ended().code(), Some(0));
        assert!(start.elapsed() < Duration::from_millis(900), "{:?}", start.elapsed());
        assert!(!coordinator.socket().exists());
        coordinator.report();
    }
}

#[test]
fn the_end_collects_what_ranks_completed() {
    let mut coordinator = Coordinator::start("unix");
    let mut clients = coordinator.world();
    // Rank 3 never answers: the others are collected all the same.
    coordinator.signal(libc::SIGTERM);
    for (rank, client) in clients.iter_mut().take(3).enumerate() {
        let Some(ToRank::Flush { request }) = client.receive() else { panic!("no flush") };
        client.done(rank as u32, 1);
        client.send(&ToCoordinator::Flushed { request });
    }
    for client in clients.iter_mut().take(3) {
        assert_eq!(client.receive(), Some(ToRank::ShuttingDown));
        assert_eq!(client.receive(), None);
    }
    assert_eq!(coordinator.ended().code(), Some(0));
    let report = coordinator.report();
    assert_eq!(report.collectives["all_reduce"].calls, 1);
    assert_eq!(report.resilience.failure_count, 0);
}

#[test]
fn the_report_is_refreshed_while_running() {
    let coordinator = Coordinator::start("unix");
    assert_eq!(coordinator.report().cluster.communicators, 0);
    let mut clients = coordinator.world();
    let start = Instant::now();
    let mut reported = false;
    // The refresh asks for what was completed: answering it is what brings the record into the file.
    for (rank, client) in clients.iter_mut().enumerate() {
        let Some(ToRank::Flush { request }) = client.receive() else { panic!("no flush") };
        client.done(rank as u32, 1);
        client.send(&ToCoordinator::Flushed { request });
    }
    while !reported && start.elapsed() < DEADLINE {
        reported = read_report(&coordinator.report_path()).collectives["all_reduce"].calls == 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(reported);
}

#[test]
fn readiness_is_a_line_and_a_lifeline_ends_it() {
    // Any inherited descriptors will do, so the standard ones serve: stderr to announce on, stdin as the lifeline.
    let mut coordinator = Coordinator::start_with("tcp", |command| {
        command.args(["--ready-fd", "2", "--lifeline-fd", "0"]).stdin(Stdio::piped());
    });
    let mut line = String::new();
    BufReader::new(coordinator.child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("{}\n", coordinator.address));
    assert!(!line.ends_with(":0\n"));
    coordinator.control().status();
    drop(coordinator.child.stdin.take());
    assert_eq!(coordinator.ended().code(), Some(0));
    coordinator.report();
}

#[test]
fn nobody_reading_its_output_does_not_stop_it() {
    let mut coordinator = Coordinator::start("unix");
    // The harness dropped the read end of stdout after the first line.
    let mut control = coordinator.control();
    control.status();
    coordinator.signal(libc::SIGTERM);
    assert_eq!(coordinator.ended().code(), Some(0));
    let mut complaints = String::new();
    coordinator.child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!(complaints, "");
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_at_the_start() {
    let mut command = crate::harness::command();
    let output = command.args(["--address", "127.0.0.1:0", "--report", "/nowhere/r.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the cluster report /nowhere/r.json"));
}

#[test]
fn many_connections_and_operations_leave_nothing_behind() {
    let coordinator = Coordinator::start("unix");
    let fds = || std::fs::read_dir(format!("/proc/{}/fd", coordinator.child.id())).unwrap().count();
    coordinator.control().status();
    let before = fds();
    for _ in 0..200 {
        coordinator.control().status();
    }
    let mut last = coordinator.control();
    last.status();
    let start = Instant::now();
    while fds() > before + 2 {
        assert!(start.elapsed() < DEADLINE, "descriptors leak");
        std::thread::sleep(Duration::from_millis(10));
    }
}
