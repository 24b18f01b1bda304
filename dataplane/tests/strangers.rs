//! Ranks at work while strangers crowd the door of their data socket.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Barrier;

use dataplane::call::Call;
use protocol::datatype::{Datatype, Operation};

use crate::support::{play, read, ways};

/// More than are heard at one time, and fewer than a process may have descriptors.
const CROWD: usize = 200;

/// What one of them says.
fn words(number: usize) -> Vec<u8> {
    match number % 4 {
        0 => Vec::new(),
        1 => vec![b'x'; 1 << 16],
        2 => b"adtf".to_vec(),
        _ => [&b"adtf"[..], &1024u16.to_le_bytes(), &[b'x'; 500]].concat(),
    }
}

#[test]
fn ranks_find_each_other_through_a_crowd_of_strangers() {
    let [_, sockets] = ways();
    let crowded = Barrier::new(3);
    play(&sockets, 3, |player| {
        let mut crowd = Vec::new();
        if player.rank == 0 {
            let address = player.communicator.members()[0].data_address.clone();
            let name = address.strip_prefix("unix:@").unwrap();
            for number in 0..CROWD {
                let mut stranger = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
                // It may have been refused meanwhile.
                let _ = stranger.write_all(&words(number));
                crowd.push(stranger);
            }
        }
        crowded.wait();
        // The first of each way makes its connections.
        assert_eq!(player.all_reduce(&[1, 2]).unwrap(), [3, 6]);
        let next = (player.rank + 1) % 3;
        let previous = (player.rank + 2) % 3;
        let receive = player.receive(previous, 4);
        player.run(&[player.send(next, &[player.rank as u8; 4]), receive]).unwrap();
        assert_eq!(read(receive.receive, 4), [previous as u8; 4]);
        let to = |peer: usize, operation, count| Call {
            peer: Some(peer as u32),
            ..Call::new(operation, count, Datatype::Uint8)
        };
        player.run(&[to(next, Operation::Signal, 0), to(previous, Operation::WaitSignal, 1)]).unwrap();
        player.barrier().unwrap();
        drop(crowd);
    });
}
