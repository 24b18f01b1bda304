//! Peers that send garbage, too much, too little, or do not read: only they suffer.

use std::io::Write;
use std::time::{Duration, Instant};

use protocol::frame;
use protocol::ids::{CommunicatorId, Rank};
use protocol::message::{Role, ToCoordinator, ToRank};
use protocol::record::ErrorCode;

use crate::harness::{Coordinator, Stream, info};

#[test]
fn bad_frames_cost_only_their_own_connection() {
    let hello = frame::encode(&ToCoordinator::Hello {
        version: protocol::message::VERSION,
        token: String::new(),
        role: Role::Process(info(1)),
    });
    let garbage: [(&str, Vec<u8>); 4] = [
        ("a line of text", b"PING payload_bytes=9999999999999999\n".to_vec()),
        ("a frame of 4 GiB", u32::MAX.to_le_bytes().to_vec()),
        ("an unknown message", [&hello[..], &[1, 0, 0, 0, 99]].concat()),
        ("a frame above the limit after hello", [&hello[..], &(2_u32 << 20).to_le_bytes()].concat()),
    ];
    for transport in ["unix", "tcp"] {
        let coordinator = Coordinator::start(transport);
        let mut others = coordinator.world();
        for (what, bytes) in &garbage {
            let mut bad = coordinator.connect();
            bad.stream.write(bytes).unwrap();
            while let Some(answer) = bad.receive() {
                assert!(matches!(answer, ToRank::Welcome { .. } | ToRank::Refused { .. }), "{what}: {answer:?}");
            }
        }
        others[0].status();
        let mut rest = coordinator.control();
        assert!(rest.status().contains("\"failures\":[]"));
    }
}

#[test]
fn a_member_that_sends_garbage_is_lost_to_the_others_with_the_reason() {
    let coordinator = Coordinator::start("unix");
    let mut clients = coordinator.world();
    clients[2].stream.write(&u32::MAX.to_le_bytes()).unwrap();
    for rank in [0, 1, 3] {
        let Some(ToRank::MemberLost { rank, code, detail, .. }) = clients[rank].receive() else {
            panic!("not notified")
        };
        assert_eq!((rank, code), (Rank(2), ErrorCode::RankLost));
        assert!(
            detail.starts_with("rank 2 (pid 102, node1) was cut off: it sent bytes that are not a message"),
            "{detail}"
        );
    }
}

#[test]
fn a_trickle_without_hello_and_an_idle_connection_hold_nobody_up() {
    let coordinator = Coordinator::start("tcp");
    let mut trickle = coordinator.connect();
    trickle.stream.write(&[10, 0]).unwrap();
    let _idle = coordinator.connect();
    let start = Instant::now();
    coordinator.world();
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_the_others_go_on() {
    let coordinator = Coordinator::start("unix");
    let mut clients = coordinator.world();
    // Answers that it never reads fill its socket, then its queue; then it is gone for the others.
    let query = frame::encode(&ToCoordinator::QueryStatus);
    let mut deaf = clients.remove(3);
    if let Stream::Unix(stream) = &mut deaf.stream {
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        for _ in 0..20_000 {
            if stream.write_all(&query).is_err() {
                break;
            }
        }
    }
    loop {
        match clients[0].receive() {
            Some(ToRank::MemberLost { communicator, rank, detail, .. }) => {
                assert_eq!((communicator, rank), (CommunicatorId(1), Rank(3)));
                assert!(detail.contains("does not read what it is sent"), "{detail}");
                break;
            }
            Some(ToRank::Flush { request }) => clients[0].send(&ToCoordinator::Flushed { request }),
            other => panic!("not notified but {other:?}"),
        }
    }
    coordinator.control().status();
}

#[test]
fn out_of_descriptors_is_survived() {
    let mut command = std::process::Command::new("sh");
    let coordinator = Coordinator::start("unix");
    let pid = coordinator.child.id().to_string();
    // The limit falls on the running process; a few more connections than it allows.
    let limited = command.args(["-c", "prlimit --pid \"$0\" --nofile=24:24", &pid]).status().unwrap();
    assert!(limited.success(), "prlimit (util-linux) is needed");
    let mut first = coordinator.control();
    let crowd: Vec<_> = (0..40).map(|_| coordinator.connect()).collect();
    first.status();
    drop(crowd);
    coordinator.control().status();
}

/// Bytes of memory that the coordinator holds.
fn memory(coordinator: &Coordinator) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", coordinator.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Connections that say nothing, or begin a hello of a mebibyte and go on sending, as many as one process gets.
#[test]
fn a_crowd_of_strangers_holds_little_and_keeps_nobody_out() {
    for transport in ["unix", "tcp"] {
        let coordinator = Coordinator::start_with(transport, |command| {
            command.env("FAKEGPU_COORDINATOR_TOKEN", "secret");
        });
        let before = memory(&coordinator);
        let long = [&(1_u32 << 20).to_le_bytes()[..], &vec![0; 1 << 20]].concat();
        let mut crowd = Vec::new();
        for number in 0..300 {
            let mut stranger = coordinator.connect();
            stranger.stream.set_nonblocking();
            if number % 2 == 0 {
                // As much as it takes; it may have hung up.
                let _ = stranger.stream.write(&long);
            }
            crowd.push(stranger);
        }
        let started = Instant::now();
        for _ in 0..4 {
            let mut rank = coordinator.connect();
            rank.hello("secret", Role::Process(info(1)));
            assert!(matches!(rank.receive(), Some(ToRank::Welcome { .. })));
        }
        assert!(started.elapsed() < Duration::from_secs(5), "ranks wait for strangers");
        for stranger in &mut crowd {
            let _ = stranger.stream.write(&long);
        }
        let mut control = coordinator.connect();
        control.hello("secret", Role::Control);
        control.receive();
        control.status();
        let held = memory(&coordinator).saturating_sub(before);
        assert!(held < 16 << 20, "300 strangers make the coordinator hold {held} bytes");
        let open = std::fs::read_dir(format!("/proc/{}/fd", coordinator.child.id())).unwrap().count();
        assert!(open < 200, "{open} descriptors are open");
    }
}

#[test]
fn strangers_that_hold_every_descriptor_let_go_of_them() {
    let coordinator = Coordinator::start("unix");
    let pid = coordinator.child.id().to_string();
    let mut command = std::process::Command::new("sh");
    let limited = command.args(["-c", "prlimit --pid \"$0\" --nofile=24:24", &pid]).status().unwrap();
    assert!(limited.success(), "prlimit (util-linux) is needed");
    let _crowd: Vec<_> = (0..40).map(|_| coordinator.connect()).collect();
    let started = Instant::now();
    coordinator.control().status();
    assert!(started.elapsed() < Duration::from_secs(5), "it waited for the strangers' deadline");
}
