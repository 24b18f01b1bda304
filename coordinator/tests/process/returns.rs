//! Processes of other hosts whose connection is reset, and that come back.

use std::time::{Duration, Instant};

use protocol::ids::{CommunicatorId, Rank};
use protocol::message::{Role, ToCoordinator, ToRank};
use protocol::record::ErrorCode;

use crate::harness::{Client, Coordinator, DEADLINE, Stream, info, init, record};

const SESSION: [u8; 16] = [7; 16];

/// Rank 0 of two, on another host. It counts as the protocol asks it to.
struct Distant {
    client: Client,
    sent: Vec<ToCoordinator>,
    received: u64,
}

impl Distant {
    fn joins(coordinator: &Coordinator) -> Self {
        let mut client = coordinator.connect();
        client.hello("", Role::Distant { info: info(100), session: SESSION });
        let mut distant = Self { client, sent: Vec::new(), received: 0 };
        assert!(matches!(distant.receive(), ToRank::Welcome { .. }));
        distant
    }

    fn send(&mut self, message: ToCoordinator) {
        self.client.send(&message);
        self.sent.push(message);
    }

    fn done(&mut self, sequence: u64) {
        self.send(ToCoordinator::Completed { records: vec![record(0, sequence)] });
    }

    /// The next message, confirmations aside.
    fn receive(&mut self) -> ToRank {
        loop {
            match self.client.receive().expect("the coordinator closed the connection") {
                ToRank::Received { .. } => {}
                message => {
                    self.received += 1;
                    return message;
                }
            }
        }
    }

    /// As [`Self::receive`], of what does not ask for what was completed.
    fn news(&mut self) -> ToRank {
        loop {
            match self.receive() {
                ToRank::Flush { request } => self.send(ToCoordinator::Flushed { request }),
                news => return news,
            }
        }
    }

    /// The connection ends with a reset: what was not read, on either side, is lost.
    fn is_reset(&mut self, coordinator: &Coordinator) {
        let old = std::mem::replace(&mut self.client, coordinator.connect());
        let Stream::Tcp(stream) = &old.stream else { panic!("not tcp") };
        rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
    }

    /// Over its new connection.
    fn returns(&mut self) {
        self.client.hello("", Role::Returning { session: SESSION, received: self.received });
        let Some(ToRank::Resumed { received }) = self.client.receive() else { panic!("not resumed") };
        for message in &self.sent[received as usize..] {
            self.client.send(message);
        }
    }
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice() {
    for is_seen in [true, false] {
        let mut coordinator = Coordinator::start("tcp");
        let mut distant = Distant::joins(&coordinator);
        let mut other = coordinator.process(101);
        distant.send(init(7, 2, 0));
        other.init(7, 2, 1);
        assert!(matches!(distant.news(), ToRank::CommunicatorFormed { .. }));
        assert!(matches!(other.news(), Some(ToRank::CommunicatorFormed { .. })));
        // Connections whose reset the coordinator does not see.
        let mut open = Vec::new();
        for sequence in 1..=40 {
            distant.done(sequence);
            other.done(1, sequence);
            if sequence % 10 != 0 {
                continue;
            }
            if is_seen {
                distant.is_reset(&coordinator);
            } else {
                open.push(std::mem::replace(&mut distant.client, coordinator.connect()));
            }
            if sequence == 40 {
                let aborted = Some((ErrorCode::Aborted, "rank 1 aborted".to_owned()));
                let communicator = CommunicatorId(1);
                other.send(&ToCoordinator::LeaveCommunicator { communicator, rank: Rank(1), aborted });
                other.send(&ToCoordinator::Goodbye);
            }
            distant.returns();
        }
        assert!(matches!(distant.news(), ToRank::MemberLost { rank: Rank(1), code: ErrorCode::Aborted, .. }));
        distant.send(ToCoordinator::Goodbye);
        drop((distant, other));
        // It ends when both are gone.
        coordinator.signal(libc::SIGTERM);
        assert!(coordinator.ended().success());
        let report = coordinator.report();
        assert_eq!(report.collectives["all_reduce"].calls, 40);
        assert!(report.ranks.iter().filter(|rank| rank.rank.0 < 2).all(|rank| rank.collective_calls == 40));
        assert_eq!(report.resilience.failure_count, 0, "{:?}", report.findings);
    }
}

#[test]
fn who_is_not_known_or_has_left_does_not_return() {
    let coordinator = Coordinator::start("tcp");
    let refused = |client: &mut Client| {
        client.hello("", Role::Returning { session: SESSION, received: 1 });
        let Some(ToRank::Refused { reason }) = client.receive() else { panic!("not refused") };
        assert_eq!(reason, "its session is over");
    };
    refused(&mut coordinator.connect());
    let mut distant = Distant::joins(&coordinator);
    let mut twin = coordinator.connect();
    twin.hello("", Role::Distant { info: info(101), session: SESSION });
    assert!(matches!(twin.receive(), Some(ToRank::Refused { .. })));
    // The end of a connection in order is the end of its process.
    let start = Instant::now();
    loop {
        drop(std::mem::replace(&mut distant.client, coordinator.connect()));
        distant.client.hello("", Role::Returning { session: SESSION, received: 1 });
        match distant.client.receive() {
            Some(ToRank::Refused { reason }) => break assert_eq!(reason, "its session is over"),
            // Nothing orders two connections: the end of the one before may be seen later.
            other => assert!(start.elapsed() < DEADLINE, "{other:?}"),
        }
    }
}
