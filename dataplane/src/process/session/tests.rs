//! The session against coordinators that are threads here.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;

use protocol::fault::FaultRecord;
use protocol::message::Clock;
use protocol::report::FaultKind;

use super::*;

/// What a rank says last crosses a slow network, and is lost where the rank ends before it has arrived.
#[test]
fn a_goodbye_over_a_network_has_arrived_when_it_was_said() {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(door.local_addr().unwrap().to_string());
    let heard = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = door.accept().unwrap();
            let mut buffer = Vec::new();
            let mut next = |stream: &mut TcpStream| received(stream, &mut buffer);
            assert!(matches!(next(&mut stream), Some(ToCoordinator::Hello { .. })));
            stream
                .write_all(&frame::encode(&ToRank::Welcome { version: VERSION, cluster: None, clock: Box::default() }))
                .unwrap();
            std::thread::sleep(Duration::from_millis(200));
            // This request comes to a rank that has said goodbye already.
            stream.write_all(&frame::encode(&ToRank::Flush { request: 7 })).unwrap();
            let said: Vec<ToCoordinator> = std::iter::from_fn(|| next(&mut stream)).collect();
            heard.store(said.contains(&ToCoordinator::Goodbye), Ordering::Release);
        });
        Session::connect(&address, &Settings::default()).map(|session| session.goodbye()).unwrap();
        assert!(heard.load(Ordering::Acquire));
    });
}

/// What the other end of `stream` says, to its end.
fn received(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<ToCoordinator> {
    loop {
        if let Some(message) = frame::decode(buffer, frame::MAX_TO_COORDINATOR).unwrap() {
            return Some(message);
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).unwrap() {
            0 => return None,
            got => buffer.extend_from_slice(&piece[..got]),
        }
    }
}

/// Connections are reset while the rank talks, with what the coordinator has not read, and before it has confirmed anything.
#[test]
fn a_reset_loses_nothing_and_repeats_nothing() {
    const MESSAGES: u64 = 2000;
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(door.local_addr().unwrap().to_string());
    std::thread::scope(|scope| {
        let coordinator = scope.spawn(|| {
            let (mut numbers, mut sent, mut resets) = (Vec::new(), 0, 0);
            let mut session = None;
            loop {
                let (mut stream, _) = door.accept().unwrap();
                let mut buffer = Vec::new();
                let Some(ToCoordinator::Hello { role, .. }) = received(&mut stream, &mut buffer) else { panic!() };
                let mut say = |message: ToRank| stream.write_all(&frame::encode(&message)).unwrap();
                match role {
                    Role::Distant { session: key, .. } => {
                        session = Some(key);
                        say(ToRank::Welcome { version: VERSION, cluster: None, clock: Box::default() });
                        sent = 1;
                    }
                    Role::Returning { session: key, received } => {
                        assert_eq!((Some(key), received), (session, sent));
                        say(ToRank::Resumed { received: numbers.len() as u64 });
                        resets += 1;
                    }
                    other => panic!("{other:?}"),
                }
                let until = numbers.len() + 600;
                loop {
                    match received(&mut stream, &mut buffer) {
                        Some(ToCoordinator::Flushed { request }) => numbers.push(request),
                        Some(ToCoordinator::FaultFires { request, .. }) => {
                            let noted = ToRank::FaultNoted { request, first: true };
                            stream.write_all(&frame::encode(&noted)).unwrap();
                            sent += 1;
                            numbers.push(0);
                        }
                        Some(ToCoordinator::Goodbye) => numbers.push(u64::MAX),
                        Some(other) => panic!("{other:?}"),
                        None => return (numbers, resets),
                    }
                    if numbers.len() == until {
                        break;
                    }
                    if numbers.len() % 100 == 0 {
                        let confirmed = ToRank::Received { count: numbers.len() as u64 };
                        stream.write_all(&frame::encode(&confirmed)).unwrap();
                    }
                }
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                // SAFETY: plain system call on an open socket; the option is a live struct of the size said.
                let set = unsafe {
                    libc::setsockopt(
                        std::os::fd::AsRawFd::as_raw_fd(&stream),
                        libc::SOL_SOCKET,
                        libc::SO_LINGER,
                        (&raw const linger).cast(),
                        size_of::<libc::linger>() as libc::socklen_t,
                    )
                };
                assert_eq!(set, 0);
            }
        });
        let session = Session::over(&address, &Settings::default(), |_| true).unwrap();
        let record = FaultRecord { number: 1, kind: FaultKind::NcclError, rank: None, collective: None };
        let fires = |request| ToCoordinator::FaultFires { request, record };
        let answer = session.request("a fault", Duration::from_secs(10), fires).unwrap();
        assert_eq!(answer, ToRank::FaultNoted { request: 1, first: true });
        for request in 1..=MESSAGES {
            session.send(&ToCoordinator::Flushed { request });
        }
        session.goodbye();
        let (numbers, resets) = coordinator.join().unwrap();
        assert_eq!(numbers, (0..=MESSAGES).chain([u64::MAX]).collect::<Vec<u64>>());
        assert_eq!(resets, 3);
    });
}

/// A rank on a host whose clock is an hour behind the coordinator's.
#[test]
fn what_ended_is_told_by_the_clock_of_the_coordinator() {
    const HOUR_US: u64 = 3_600_000_000;
    let path = std::env::temp_dir().join(format!("ftest-clock-{:016x}", crate::unique::random_u64().unwrap()));
    let door = UnixListener::bind(&path).unwrap();
    let address = Address::Unix(path.to_str().unwrap().to_owned());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = door.accept().unwrap();
            let now_us = monotonic_ns() / 1000 + HOUR_US;
            let clock = Box::new(Clock { boot: "another host".to_owned(), now_us });
            stream.write_all(&frame::encode(&ToRank::Welcome { version: VERSION, cluster: None, clock })).unwrap();
            // The coordinator stays until the rank says goodbye.
            stream.read_to_end(&mut Vec::new()).unwrap();
        });
        let before = monotonic_ns();
        let session = Session::connect(&address, &Settings::default()).unwrap();
        let error_ns = (monotonic_ns() - before) as i64;
        let hour_ns = HOUR_US as i64 * 1000;
        assert!((session.offset_ns - hour_ns).abs() <= error_ns, "{} ns", session.offset_ns);
        session.goodbye();
        let out = session.line.out();
        let Stream::Unix(stream) = &out.stream else { panic!("not a socket file") };
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    });
    std::fs::remove_file(path).unwrap();
}

/// Too many connections without a hello evict the oldest at the coordinator, which may be a rank's.
#[test]
fn a_rank_that_was_pushed_out_before_it_was_heard_comes_again() {
    let path = std::env::temp_dir().join(format!("ftest-session-{:016x}", crate::unique::random_u64().unwrap()));
    let door = UnixListener::bind(&path).unwrap();
    let address = Address::Unix(path.to_str().unwrap().to_owned());
    let hello = ToCoordinator::Flushed { request: 7 };
    let mut caller = Caller { address, token: String::new(), secret: None };
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                drop(door.accept().unwrap());
            }
            let (mut stream, _) = door.accept().unwrap();
            let mut bytes = vec![0; frame::encode(&hello).len()];
            stream.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, frame::encode(&hello));
            stream.write_all(&frame::encode(&ToRank::ShuttingDown)).unwrap();
        });
        caller.call(WELCOME_TIMEOUT, |_| hello.clone()).map(|answered| answered.answer)
    });
    std::fs::remove_file(path).unwrap();
    assert_eq!(answer.unwrap(), ToRank::ShuttingDown);
}

/// What the coordinator gets does not grow with the number of ranks.
#[test]
fn the_batches_of_all_ranks_together_are_no_more_in_a_large_job() {
    assert_eq!(linger(None), LINGER);
    assert_eq!(linger(Some(FEW_RANKS)), LINGER);
    let batches_a_second = |ranks: u32| f64::from(ranks) / linger(Some(ranks)).as_secs_f64();
    for ranks in [2, 8, 31, 33, 100, 512, 1000, 1024, 4096] {
        assert!(batches_a_second(ranks) <= batches_a_second(FEW_RANKS), "{ranks}");
    }
}
