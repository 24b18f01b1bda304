//! Processes that die: with a child that holds their connection, with operations that they had no time to tell of, or before
//! they ever connected; and the death of whoever started the coordinator.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use protocol::backlog::Backlog;
use protocol::frame;
use protocol::ids::Rank;
use protocol::message::{ProcessInfo, Role, ToCoordinator, ToRank, VERSION};
use protocol::record::ErrorCode;

use crate::harness::{Coordinator, DEADLINE, info, record};

/// A process of the test below: joins, hands its connection to a child that stays, and dies.
#[test]
#[ignore = "a process of another test"]
fn a_process_whose_child_holds_its_connection() {
    let mut stream = UnixStream::connect(std::env::var("FTEST_TEST_ADDRESS").unwrap()).unwrap();
    let me = ProcessInfo { rank: Some(Rank(0)), world_size: Some(2), ..info(std::process::id()) };
    let hello = ToCoordinator::Hello { version: VERSION, token: String::new(), role: Role::Process(me) };
    stream.write_all(&frame::encode(&hello)).unwrap();
    let mut stream = crate::harness::Client::from_stream(stream);
    assert!(matches!(stream.receive(), Some(ToRank::Welcome { .. })));
    stream.init(7, 2, 0);
    assert!(matches!(stream.receive(), Some(ToRank::CommunicatorFormed { .. })));
    let mut child =
        Command::new("sleep").arg("1000").stdin(stream.into_socket()).stdout(Stdio::null()).spawn().unwrap();
    println!("child {}", child.id());
    let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    let _ = child.wait();
}

#[test]
fn a_death_is_seen_although_a_child_holds_the_connection() {
    let coordinator = Coordinator::start("unix");
    let mut other = coordinator.process(101);
    other.init(7, 2, 1);
    let name = "deaths::a_process_whose_child_holds_its_connection";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env("FTEST_TEST_ADDRESS", &coordinator.address);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let child = lines.filter_map(|line| Some(line.split_once("child ")?.1.to_owned())).next().unwrap();
    assert!(matches!(other.receive(), Some(ToRank::CommunicatorFormed { .. })));
    let received = other.news();
    let _ = Command::new("kill").args(["-9", &child]).status();
    process.wait().unwrap();
    let Some(ToRank::MemberLost { rank, code, detail, .. }) = received else { panic!("received {received:?}") };
    assert_eq!((rank, code), (Rank(0), ErrorCode::RankLost), "{detail}");
}

#[test]
fn a_launcher_reports_the_end_of_its_rank_and_nobody_waits_for_it() {
    for transport in ["unix", "tcp"] {
        let coordinator = Coordinator::start(transport);
        let mut waiting = coordinator.connect();
        waiting.hello("", Role::Process(ProcessInfo { rank: Some(Rank(0)), world_size: Some(2), ..info(100) }));
        waiting.receive();
        waiting.init(7, 2, 0);
        let mut control = coordinator.control();
        let how = "ended with exit code 7".to_owned();
        control.send(&ToCoordinator::RankEnded { rank: Rank(1), pid: 101, how });
        let Some(ToRank::RequestFailed { code, detail, .. }) = waiting.receive() else { panic!("no answer") };
        assert_eq!(code, ErrorCode::RankLost);
        assert_eq!(detail, "rank 1 (node0) ended with exit code 7 without joining the communicator");
        // A rank has no word about others.
        waiting.send(&ToCoordinator::RankEnded { rank: Rank(0), pid: 100, how: String::new() });
        waiting.init(8, 2, 0);
        assert!(matches!(waiting.receive(), Some(ToRank::RequestFailed { .. })));
    }
}

#[test]
fn a_connection_that_outlives_its_process_is_closed() {
    // Over tcp the coordinator does not see which process it is of: whoever started that one says so.
    let coordinator = Coordinator::start("tcp");
    let mut clients = coordinator.world();
    let mut control = coordinator.control();
    let start = Instant::now();
    let how = "was killed by SIGKILL".to_owned();
    control.send(&ToCoordinator::RankEnded { rank: Rank(2), pid: 102, how });
    let received = clients[0].news();
    let Some(ToRank::MemberLost { rank, .. }) = received else { panic!("received {received:?}") };
    assert_eq!(rank, Rank(2));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn what_a_dead_process_had_no_time_to_tell_is_in_the_report() {
    let mut coordinator = Coordinator::start("unix");
    let backlog = Backlog { fd: 0, mark: 4711 };
    let files: Vec<File> = (0..4).map(|_| tempfile::tempfile().unwrap()).collect();
    let mut clients = Vec::new();
    for (rank, file) in files.iter().enumerate() {
        file.set_len(Backlog::BYTES as u64).unwrap();
        let mark = if rank == 2 { 1 } else { backlog.mark };
        // Two written, none reported.
        for (at, word) in [(Backlog::MARK, mark), (Backlog::WRITTEN, 2)] {
            file.write_all_at(&word.to_le_bytes(), at as u64).unwrap();
        }
        for number in 0..2 {
            let (slot, used) = Backlog::slot(&record(rank as u32, number + 1));
            file.write_all_at(&slot[..used], Backlog::place(number) as u64).unwrap();
        }
        let mut client = coordinator.connect();
        let backlog = Some(Backlog { fd: file.as_raw_fd(), ..backlog });
        client.hello("", Role::Process(ProcessInfo { backlog, ..info(std::process::id()) }));
        client.receive();
        clients.push(client);
    }
    for (rank, client) in clients.iter_mut().enumerate() {
        client.init(7, 4, rank as u32);
    }
    for client in &mut clients {
        assert!(matches!(client.receive(), Some(ToRank::CommunicatorFormed { .. })));
    }
    // Rank 0 reported one of them before it died, rank 1 of none; rank 2's file is another's, and rank 3 does not answer at the end.
    clients[0].done(0, 1);
    clients.drain(..3).for_each(drop);
    coordinator.signal(libc::SIGTERM);
    assert_eq!(coordinator.ended().code(), Some(0));
    let report = coordinator.report();
    assert_eq!(report.ranks.iter().map(|rank| rank.collective_calls).collect::<Vec<_>>(), [2, 2, 0, 2]);
    assert_eq!(report.collectives["all_reduce"].calls, 2);
}

#[test]
fn ranks_are_ended_when_the_run_is_lost_and_its_successor_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let (lost, marked) = (directory.path().join("lost"), directory.path().join("marked"));
    let script = format!("test -z \"$FTEST_CASE_COOKIE\" || touch {}; touch {}", marked.display(), lost.display());
    let mut coordinator = Coordinator::start_with("unix", |command| {
        command.args(["--lifeline-fd", "0", "--successor", "sh", "--successor", "-c", "--successor", &script]);
        command.env("FTEST_CASE_COOKIE", "a/b").env("PATH", "/usr/bin:/bin").stdin(Stdio::piped());
    });
    let mut rank = coordinator.process(100);
    drop(coordinator.child.stdin.take());
    assert_eq!(rank.news(), Some(ToRank::RunLost));
    assert_eq!(coordinator.ended().code(), Some(0));
    let start = Instant::now();
    while !lost.exists() {
        assert!(start.elapsed() < DEADLINE, "the successor was not started");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!marked.exists(), "a sweep would take the successor for a process of the run");
}
