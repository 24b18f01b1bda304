use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use protocol::ids::{Rank, SiteId};
use protocol::message::Member;

use super::*;
use crate::losses::Losses;
use crate::operation::history::OpHistory;
use crate::sockets::listener::Scope;
use crate::sockets::trust::Trust;
use crate::sockets::wire::{DATA, HEADER};

fn member(rank: u32, data_address: &str) -> Member {
    Member {
        global_rank: Rank(rank),
        device: 0,
        pid: 0,
        host: String::new(),
        arena: None,
        control: None,
        data_address: data_address.to_owned(),
        site: SiteId::default(),
        gpu: u64::from(rank),
        is_only: true,
    }
}

/// A rank that gives up sends the reason and then closes; a second connection could arrive before the first.
#[test]
fn the_others_learn_once_why_this_rank_will_not_come() {
    let name = format!("ftest-mesh-{:016x}", crate::unique::random_u64().unwrap());
    let peer = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    peer.set_nonblocking(true).unwrap();
    let (members, history) = ([0, 1].map(|rank| member(rank, &format!("unix:@{name}"))), OpHistory::default());
    let losses = Losses::new(Arc::new(Wake::new().unwrap()));
    let timeout = Duration::from_secs(10);
    let deadline = Instant::now() + timeout;
    let context = OpContext {
        rank: 0,
        size: 2,
        members: &members,
        nodes: &[],
        sequence: 0,
        deadline,
        timeout,
        losses: &losses,
        history: &history,
    };
    let listener = Listener::open(Scope::Host, Trust::default()).unwrap();
    let mut mesh = Mesh::new(1, 1000, listener);
    mesh.close(&context, ErrorCode::InjectedRankFailure, "the link is cut");
    mesh.close(&context, ErrorCode::Aborted, "rank 0 aborted");
    let (mut accepted, _) = peer.accept().expect("a connection is there as soon as it is made");
    accepted.set_read_timeout(Some(timeout)).unwrap();
    let mut received = Vec::new();
    accepted.read_to_end(&mut received).unwrap();
    assert!(received.ends_with(&notice(ErrorCode::InjectedRankFailure, "the link is cut")));
    assert_eq!(peer.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "and no other");
}

/// Rank 1's mesh, and rank 0's end of a connection to it. It is known from the start that rank 0 is gone.
fn bereft(until_told: impl FnOnce(UnixStream) + Send) -> Result<Vec<u8>, Stop> {
    let history = OpHistory::default();
    let losses = Losses::new(Arc::new(Wake::new().unwrap()));
    let timeout = Duration::from_secs(60);
    let listener = Listener::open(Scope::Host, Trust::default()).unwrap();
    let members = [0, 1].map(|rank| member(rank, &listener.address));
    let deadline = Instant::now() + timeout;
    let context = OpContext {
        rank: 1,
        size: 2,
        members: &members,
        nodes: &[],
        sequence: 0,
        deadline,
        timeout,
        losses: &losses,
        history: &history,
    };
    let route = Route { communicator: 1, to: 1, from: 0, channel: 0 };
    let mut peer = UnixStream::from(
        connect(&listener.address, &listener.trust, route, timeout).unwrap().socket().try_clone().unwrap(),
    );
    peer.set_nonblocking(false).unwrap();
    peer.read_exact(&mut [0; HEADER]).unwrap();
    let mut mesh = Mesh::new(1, 1000, listener);
    let message = mesh.receive_own(0, 0, 4);
    losses.note(0, ErrorCode::RankLost, "rank 0 exited");
    std::thread::scope(|scope| {
        scope.spawn(move || until_told(peer));
        mesh.finish(&context).map(|()| mesh.taken(message))
    })
}

/// What a rank sent before it left may be seen after the coordinator's word that it left: they take different paths.
#[test]
fn what_a_rank_sent_before_it_went_counts_although_its_loss_is_known_first() {
    let sent = bereft(|mut peer| {
        std::thread::sleep(Duration::from_millis(100));
        peer.write_all(&[&DATA.to_le_bytes()[..], &4u32.to_le_bytes(), b"news"].concat()).unwrap();
    });
    assert_eq!(sent.unwrap(), b"news");
}

#[test]
fn a_connection_that_a_rank_left_to_its_children_is_not_waited_for() {
    let start = Instant::now();
    let (held, holds) = std::sync::mpsc::channel();
    let stopped = bereft(move |peer| held.send(peer).unwrap());
    assert!(matches!(&stopped, Err(Stop::Lost(0, Some((ErrorCode::RankLost, _))))), "{stopped:?}");
    assert!(start.elapsed() < Duration::from_secs(30), "it waits for its deadline");
    drop(holds);
}

/// Two ranks on what look like two hosts by their addresses, each in a thread with its own mesh.
fn apart(trust: &Trust, play: impl Fn(u32, &mut Mesh, &OpContext<'_>) + Sync) {
    let open = |last| Listener::open(Scope::Network(std::net::IpAddr::from([127, 0, 0, last])), trust.clone()).unwrap();
    let listeners = [2, 3].map(open);
    let members: Vec<Member> = (0..2).map(|rank| member(rank, &listeners[rank as usize].address)).collect();
    let nodes = ["node0".to_owned(), "node1".to_owned()];
    let timeout = Duration::from_secs(60);
    std::thread::scope(|scope| {
        for (rank, listener) in (0..).zip(listeners) {
            let (members, nodes, play) = (&members, &nodes, &play);
            scope.spawn(move || {
                let history = OpHistory::default();
                let wake = Arc::new(Wake::new().unwrap());
                listener.watch(1, rank, &wake);
                let losses = Losses::new(wake);
                let deadline = Instant::now() + timeout;
                let (size, sequence, losses, history) = (2, 0, &losses, &history);
                let context = OpContext { rank, size, members, nodes, sequence, deadline, timeout, losses, history };
                let mut mesh = Mesh::new(1, 1 << 20, listener);
                play(rank, &mut mesh, &context);
                // The other end has what it needs before this one is dropped.
                mesh.send_own(1 - rank, 0, vec![1]);
                let last = mesh.receive_own(1 - rank, 0, 1);
                mesh.finish(&context).unwrap();
                assert_eq!(mesh.taken(last), [1]);
            });
        }
    });
}

/// A lot of data goes both ways at once: more than the sockets can buffer, in several messages.
#[test]
fn much_goes_both_ways_under_tls() {
    const BYTES: usize = 3 << 20;
    let pattern = |rank: u32, number: usize| -> Vec<u8> {
        let seed = rank as usize * 7 + number;
        (0..BYTES >> (4 * number)).map(|at| (at * 31 / 7 + seed) as u8).collect()
    };
    apart(&Trust::with_keys("secret".to_owned()).unwrap(), |rank, mesh, context| {
        for round in 0..3 {
            let other = 1 - rank;
            let exchange = |number| {
                mesh.send_own(other, 0, pattern(rank, number));
                mesh.receive_own(other, 0, pattern(other, number).len())
            };
            let ids: Vec<MessageId> = (0..4).map(exchange).collect();
            mesh.finish(context).unwrap();
            for (number, id) in ids.into_iter().enumerate() {
                assert!(mesh.taken(id) == pattern(other, number), "round {round}, message {number}");
            }
            mesh.clear();
        }
        let paths = mesh.paths(context);
        assert_eq!(paths.iter().map(|path| path.peer).collect::<Vec<Rank>>(), [Rank(1 - rank)]);
    });
}
