use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use protocol::ids::Rank;
use protocol::message::Member;

use super::*;
use crate::diary::Diary;
use crate::listener::Scope;

/// Who gives up tells the others why and then leaves; a second connection could be there before the first.
#[test]
fn the_others_are_told_once_why_this_rank_will_not_come() {
    let name = format!("ftest-mesh-{:016x}", crate::unique::random_u64().unwrap());
    let peer = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    peer.set_nonblocking(true).unwrap();
    let member = |rank: u32| Member {
        global_rank: Rank(rank),
        device: 0,
        pid: 0,
        host: String::new(),
        arena: None,
        control: None,
        data_address: format!("unix:@{name}"),
    };
    let (members, diary) = ([member(0), member(1)], Diary::default());
    let timeout = Duration::from_secs(10);
    let deadline = Instant::now() + timeout;
    let scene = Scene { rank: 0, size: 2, members: &members, sequence: 0, deadline, timeout, diary: &diary };
    let listener = Listener::open(Scope::Host, String::new()).unwrap();
    let mut mesh = Mesh::new(1, String::new(), 1000, listener, Arc::new(Wake::new().unwrap()));
    mesh.close(&scene, ErrorCode::InjectedRankFailure, "the link is cut");
    mesh.close(&scene, ErrorCode::Aborted, "rank 0 aborted");
    let (mut told, _) = peer.accept().expect("a connection is there as soon as it is made");
    told.set_read_timeout(Some(timeout)).unwrap();
    let mut heard = Vec::new();
    told.read_to_end(&mut heard).unwrap();
    assert!(heard.ends_with(&notice(ErrorCode::InjectedRankFailure, "the link is cut")));
    assert_eq!(peer.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "and no other");
}
