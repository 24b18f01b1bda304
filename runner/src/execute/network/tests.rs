//! Tests a network on the real kernel, as seen by a program in a namespace. Without the privileges there is nothing to test; the
//! suite `hosts` is run where they must be available.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use protocol::ids::Rank;
use protocol::plan::{FabricPlan, NodePlan};

use super::*;
use crate::case::network::Network as Wanted;

fn cluster(nodes: u32) -> ClusterPlan {
    let fabric = FabricPlan { kind: "nvlink".into(), bandwidth_gbps: 1.0, latency_us: 0.0, oversubscription: 1.0 };
    let node = |index: u32| NodePlan {
        id: format!("node{index}"),
        host: String::new(),
        ranks: vec![Rank(index)],
        gpus: vec!["a100".into()],
    };
    ClusterPlan {
        name: "c".into(),
        default_backend: "nccl".into(),
        nodes: (0..nodes).map(node).collect(),
        intra_node: fabric.clone(),
        inter_node: fabric,
        custom_profiles: Default::default(),
        machine: None,
    }
}

/// `None` if this machine does not allow it.
fn make(wanted: &Wanted) -> Option<Network> {
    match Network::make(wanted, &cluster(2)) {
        Ok(network) => Some(network),
        Err(NetworkError::Unavailable { what, source }) => {
            eprintln!("not tested: {what}: {source}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A socket of an end that waits this long.
fn socket(network: &Network, end: usize, patience: Duration) -> UdpSocket {
    let open = || {
        let socket = UdpSocket::bind((address(end), 7))?;
        socket.set_read_timeout(Some(patience))?;
        Ok(socket)
    };
    network.namespaces[end].inside(open).unwrap()
}

/// Receives the next packet. Signals of other tests in this process interrupt a wait with a limit.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn to(end: usize) -> SocketAddr {
    (address(end), 7).into()
}

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// After this long, nothing more is expected.
const SILENCE: Duration = Duration::from_millis(300);

#[test]
fn a_packet_arrives_after_the_delay_and_nowhere_else() {
    let link = Link { delay: Duration::from_millis(80), ..Link::default() };
    let Some(network) = make(&Wanted { link, ..Wanted::default() }) else { return };
    let (first, second) = (socket(&network, 0, PATIENCE), socket(&network, 1, PATIENCE));
    let mut buffer = [0; 9000];
    let start = Instant::now();
    first.send_to(&[7; 8000], to(1)).unwrap();
    assert_eq!(receive(&second, &mut buffer).unwrap(), (8000, to(0)));
    assert!(start.elapsed() >= link.delay, "{:?}", start.elapsed());
    assert_eq!(buffer[..8000], [7; 8000]);
    // The link to the coordinator is perfect, and it sees nothing of the others' packets.
    let third = socket(&network, 2, PATIENCE);
    second.send_to(b"x", to(2)).unwrap();
    assert_eq!(receive(&third, &mut buffer).unwrap(), (1, to(1)));
    assert_eq!(network.account(), ["the link between node0 and node1 (80 ms) carried 1 packet with 8028 bytes"]);
}

#[test]
fn losses_are_counted_and_a_cut_ends() {
    let link = Link { loss: 0.2, ..Link::default() };
    let Some(network) = make(&Wanted { link, seed: 3, ..Wanted::default() }) else { return };
    let (first, second) = (socket(&network, 0, PATIENCE), socket(&network, 1, SILENCE));
    let mut buffer = [0; 16];
    // One by one, so that no kernel queue overflows. A packet that does not arrive is lost, and the next one shows
    // that.
    let third = socket(&network, 2, PATIENCE);
    let mut arrived = 0;
    for number in 0..200_u8 {
        first.send_to(&[number], to(1)).unwrap();
        first.send_to(&[number], to(2)).unwrap();
        assert_eq!(receive(&third, &mut buffer).unwrap().0, 1);
    }
    while let Ok((1, _)) = receive(&second, &mut buffer) {
        arrived += 1;
    }
    let lost = 200 - arrived;
    // Six standard deviations, 5.7 each, of a binomial distribution around 40.
    assert!((6..=74).contains(&lost), "{lost}");
    let expected = format!("carried {arrived} packets with {} bytes; of others {lost} lost", arrived * 29);
    assert!(network.account()[0].ends_with(&expected), "{:?}", network.account());

    assert_eq!(network.cut(Severed::Node(1), None, false), "all links of node1 cut");
    second.send_to(b"x", to(2)).unwrap();
    third.set_read_timeout(Some(SILENCE)).unwrap();
    assert_eq!(receive(&third, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let lasts = Duration::from_millis(50);
    assert_eq!(
        network.cut(Severed::Link([1, 2]), Some(lasts), false),
        "the link between node1 and coordinator cut for 0.05 s"
    );
    std::thread::sleep(lasts);
    second.send_to(b"x", to(2)).unwrap();
    assert_eq!(receive(&third, &mut buffer).unwrap(), (1, to(1)));
}

#[test]
fn a_rate_takes_its_time() {
    let link = Link { gbps: Some(0.001), ..Link::default() };
    let Some(network) = make(&Wanted { link, ..Wanted::default() }) else { return };
    let (first, second) = (socket(&network, 0, PATIENCE), socket(&network, 1, PATIENCE));
    let mut buffer = [0; 9000];
    let start = Instant::now();
    for _ in 0..3 {
        first.send_to(&[1; 6222], to(1)).unwrap();
    }
    for _ in 0..3 {
        receive(&second, &mut buffer).unwrap();
    }
    // Three packets of 6250 bytes with their headers are 150 000 bits.
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
}

#[test]
fn this_process_stays_where_it_is() {
    let here = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = here();
    let Some(network) = make(&Wanted::default()) else { return };
    assert_eq!(here(), before);
    let inside = network.namespaces[0].inside(|| std::fs::read_link("/proc/thread-self/ns/net")).unwrap();
    assert_ne!(inside, before);
    assert_eq!(here(), before);
}
