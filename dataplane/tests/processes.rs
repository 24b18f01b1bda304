//! Ranks as processes, against a stand-in for the coordinator: memory mapped across processes, batches of records, a killed
//! rank, a coordinator that disappears. The ranks are this test program started again.
#![expect(unsafe_code, reason = "ends its own process")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use dataplane::call::{Buffer, Call};
use dataplane::process::Process;
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::fault::{self, Action, Fault, Trigger};
use protocol::frame;
use protocol::ids::{CommunicatorId, Rank};
use protocol::message::{Member, ToCoordinator, ToRank, VERSION};
use protocol::record::{BufferTransport, ErrorCode};

use crate::support::{Player, read, write};

/// What the stand-in heard.
#[derive(Default)]
struct Heard {
    waiting: BTreeMap<u32, (u64, Member, UnixStream)>,
    connections: Vec<UnixStream>,
    formed: Vec<(u32, UnixStream)>,
    records: Vec<(u32, BufferTransport, u64)>,
    failures: Vec<ErrorCode>,
    faults: Vec<u32>,
    goodbyes: usize,
}

struct StandIn {
    address: PathBuf,
    heard: Arc<(Mutex<Heard>, Condvar)>,
}

impl StandIn {
    fn start(name: &str) -> Self {
        let address = std::env::temp_dir().join(format!("ftest-standin-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&address);
        let listener = UnixListener::bind(&address).unwrap();
        let heard = Arc::new((Mutex::new(Heard::default()), Condvar::new()));
        let hearing = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let heard = Arc::clone(&hearing);
                heard.0.lock().unwrap().connections.push(stream.try_clone().unwrap());
                std::thread::spawn(move || serve(stream, &heard));
            }
        });
        Self { address, heard }
    }

    /// What was heard, once `enough` of it was: messages of ranks that have ended may still be on their way.
    fn hear(&self, enough: impl Fn(&Heard) -> bool) -> std::sync::MutexGuard<'_, Heard> {
        let heard = self.heard.0.lock().unwrap();
        self.heard.1.wait_timeout_while(heard, Duration::from_secs(20), |heard| !enough(heard)).unwrap().0
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.address);
    }
}

fn say(mut stream: &UnixStream, message: &ToRank) {
    let _ = stream.write_all(&frame::encode(message));
}

fn serve(mut stream: UnixStream, shared: &(Mutex<Heard>, Condvar)) {
    let (mut buffer, mut piece, mut me, mut orderly) = (Vec::new(), [0; 4096], None, false);
    while let Ok(got @ 1..) = stream.read(&mut piece) {
        buffer.extend_from_slice(&piece[..got]);
        while let Some(message) = frame::decode(&mut buffer, frame::MAX_TO_COORDINATOR).unwrap() {
            let mut heard = shared.0.lock().unwrap();
            match message {
                ToCoordinator::Hello { version, token, .. } => {
                    assert_eq!((version, token.as_str()), (VERSION, "secret"));
                    say(&stream, &ToRank::Welcome { version: VERSION, cluster: None, clock: Box::default() });
                }
                ToCoordinator::InitCommunicator { request, size, rank, member, .. } => {
                    me = Some(rank.0);
                    heard.waiting.insert(rank.0, (request, member, stream.try_clone().unwrap()));
                    if heard.waiting.len() == size as usize {
                        let members: Vec<Member> =
                            heard.waiting.values().map(|(_, member, _)| member.clone()).collect();
                        for (rank, (request, _, stream)) in std::mem::take(&mut heard.waiting) {
                            let (communicator, members) = (CommunicatorId(1), members.clone());
                            say(
                                &stream,
                                &ToRank::CommunicatorFormed { request, communicator, rank: Rank(rank), members },
                            );
                            heard.formed.push((rank, stream));
                        }
                    }
                }
                ToCoordinator::Completed { records } => {
                    let rows = records.iter().map(|record| (record.rank.0, record.transport, record.count));
                    heard.records.extend(rows);
                }
                ToCoordinator::Failed { failure } => heard.failures.push(failure.code),
                // As if the ranks had been started again: what fires fired before.
                ToCoordinator::FaultFires { request, record } => {
                    heard.faults.push(record.number);
                    say(&stream, &ToRank::FaultNoted { request, first: false });
                }
                ToCoordinator::Goodbye => {
                    heard.goodbyes += 1;
                    orderly = true;
                }
                _ => {}
            }
            shared.1.notify_all();
        }
    }
    if let Some(rank) = me.filter(|_| !orderly) {
        for (_, other) in &shared.0.lock().unwrap().formed {
            let detail = format!("rank {rank} ended unexpectedly");
            let (communicator, code) = (CommunicatorId(1), ErrorCode::RankLost);
            say(other, &ToRank::MemberLost { communicator, rank: Rank(rank), code, detail });
        }
    }
}

fn start(stand_in: &StandIn, part: &str, size: usize, sockets: bool) -> Vec<Child> {
    let rank = |rank: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::a_rank_process", "--nocapture", "--include-ignored"])
            .env("FTEST_TEST_PART", part)
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", size.to_string())
            .env("FAKEGPU_COORDINATOR_ADDR", &stand_in.address)
            .env("FAKEGPU_COORDINATOR_TOKEN", "secret")
            .env("FAKEGPU_COORDINATOR_TIMEOUT_MS", "20000")
            .env("FAKEGPU_STAGING_FORCE_SOCKET", if sockets { "1" } else { "0" })
            .env("FTEST_FAULTS", fault::to_json(&faults(part)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    (0..size).map(rank).collect()
}

fn faults(part: &str) -> Vec<Fault> {
    if part != "spared" {
        return Vec::new();
    }
    let (rank, operation) = (Rank(1), Operation::AllReduce);
    let collective = Trigger::Collective { rank, communicator: Some(1), operation, sequence: None };
    let clock = Trigger::After { rank: Some(rank), elapsed: Duration::ZERO };
    let kill = |number, at| Fault { number, origin: String::new(), at, action: Action::Kill };
    vec![kill(1, collective), kill(2, clock)]
}

fn finish(children: Vec<Child>) -> Vec<(Output, String)> {
    let text = |output: &Output| {
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            let text = text(&output);
            (output, text)
        })
        .collect()
}

/// Not a test of its own: what a rank started by the tests below does.
#[test]
#[ignore = "a rank of the other tests"]
fn a_rank_process() {
    let Ok(part) = std::env::var("FTEST_TEST_PART") else { return };
    let number = |name| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let (rank, size) = (number("RANK"), number("WORLD_SIZE"));
    let process = Process::current().unwrap();
    let player = Player::new(Arc::clone(&process), b"processes", size, rank).unwrap();
    let last = size - 1;
    match part.as_str() {
        "work" => work(&player),
        "die" => {
            player.barrier().unwrap();
            if rank == last {
                // SAFETY: ends this process, which is the point.
                unsafe { libc::raise(libc::SIGKILL) };
            }
            let failure = player.all_reduce(&[1; 5000]).unwrap_err();
            assert_eq!(failure.code, ErrorCode::RankLost, "{failure}");
            assert!(failure.detail.contains(&format!("rank {last} ended unexpectedly")), "{failure}");
        }
        "spared" => {
            assert_eq!(player.all_reduce(&[1]).unwrap(), [2]);
            assert_eq!(player.all_reduce(&[1]).unwrap(), [2]);
        }
        "orphan" => {
            player.barrier().unwrap();
            println!("waiting");
            let _ = player.run(&[player.receive(rank, 8)]);
            panic!("nothing comes, and the coordinator is gone");
        }
        other => panic!("no part {other}"),
    }
    process.goodbye();
}

/// Arena buffers and ordinary memory on either side, small and large.
fn work(player: &Player) {
    for count in [3usize, 5000, 200_000] {
        for host in [false, true] {
            let mut memory = vec![0u8; count * 4];
            let bytes: Vec<u8> =
                (0..count).flat_map(|index| (index as i32 * (player.rank as i32 + 1)).to_ne_bytes()).collect();
            // Only some ranks use ordinary memory.
            let buffer =
                if host && player.rank != 1 { Buffer::host(memory.as_mut_ptr()) } else { player.device(count * 4) };
            write(buffer, &bytes);
            let mut call = Call::new(Operation::AllReduce, count as u64, Datatype::Int32);
            call.reduction = Some(ReductionOp::Sum);
            (call.send, call.receive) = (buffer, buffer);
            player.run(&[call]).unwrap();
            let factor = (player.size * (player.size + 1) / 2) as i32;
            for (index, four) in read(buffer, count * 4).chunks(4).enumerate() {
                assert_eq!(i32::from_ne_bytes(four.try_into().unwrap()), index as i32 * factor);
            }
            let next = (player.rank + 1) % player.size;
            let previous = (player.rank + player.size - 1) % player.size;
            let mut send = player.send(next, &vec![player.rank as u8; count]);
            if host {
                memory.fill(player.rank as u8);
                send.send = Buffer::host(memory.as_mut_ptr());
            }
            let receive = player.receive(previous, count);
            player.run(&[send, receive]).unwrap();
            assert!(read(receive.receive, count).iter().all(|byte| *byte == previous as u8));
        }
    }
}

#[test]
fn processes_share_memory_and_report_what_they_did() {
    for (sockets, transport) in [(false, BufferTransport::SharedMemory), (true, BufferTransport::SocketPayload)] {
        let stand_in = StandIn::start(if sockets { "sockets" } else { "shared" });
        for (output, text) in finish(start(&stand_in, "work", 3, sockets)) {
            assert!(output.status.success(), "{text}");
        }
        let heard = stand_in.hear(|heard| heard.goodbyes == 3);
        assert_eq!(heard.goodbyes, 3);
        // Six rounds of a reduction, a send and a recv on each of three ranks.
        assert_eq!(heard.records.len(), 6 * 3 * 3);
        assert!(heard.records.iter().all(|record| record.1 == transport));
        assert_eq!(heard.failures, []);
    }
}

#[test]
fn a_killed_rank_is_named_by_the_ranks_that_need_it() {
    for sockets in [false, true] {
        let stand_in = StandIn::start(if sockets { "die-sockets" } else { "die" });
        let ended = finish(start(&stand_in, "die", 3, sockets));
        for (output, text) in &ended[..2] {
            assert!(output.status.success(), "{text}");
        }
        assert!(!ended[2].0.status.success());
        assert_eq!(stand_in.hear(|heard| heard.failures.len() == 2).failures, [ErrorCode::RankLost; 2]);
    }
}

#[test]
fn a_fault_that_fired_before_spares_the_rank() {
    let stand_in = StandIn::start("spared");
    for (output, text) in finish(start(&stand_in, "spared", 2, false)) {
        assert!(output.status.success(), "{text}");
    }
    let mut asked = stand_in.hear(|heard| heard.faults.len() == 2).faults.clone();
    asked.sort_unstable();
    assert_eq!(asked, [1, 2], "each once");
}

/// Two ranks that wait for something that does not come.
fn waiting(stand_in: &StandIn) -> Vec<Child> {
    let mut children = start(stand_in, "orphan", 2, false);
    for child in &mut children {
        let mut output = child.stdout.take().unwrap();
        let (mut seen, mut piece) = (Vec::new(), [0; 256]);
        while !seen.windows(7).any(|word| word == b"waiting") {
            let got = output.read(&mut piece).unwrap();
            assert!(got > 0, "the rank ended early");
            seen.extend_from_slice(&piece[..got]);
        }
    }
    children
}

#[test]
fn a_rank_that_nobody_would_end_exits_with_a_word() {
    for (name, why) in [("orphan", "the coordinator is gone"), ("lost", "ftest is gone")] {
        let stand_in = StandIn::start(name);
        let children = waiting(&stand_in);
        for stream in &stand_in.hear(|heard| heard.connections.len() == 2).connections {
            match name {
                "orphan" => stream.shutdown(std::net::Shutdown::Both).unwrap(),
                // The coordinator stays a moment longer than its word.
                _ => say(stream, &ToRank::RunLost),
            }
        }
        for (rank, (output, text)) in finish(children).into_iter().enumerate() {
            assert_eq!(output.status.code(), Some(dataplane::process::ORPHAN_EXIT), "{text}");
            assert!(text.contains(&format!("[ftest] rank {rank}: {why}; exiting")), "{text}");
        }
    }
}
