//! The thread between the ends of a network: takes each packet and delivers it to its receiver at the time its wire
//! sets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::port::MTU;
use super::reset;
use super::wire::Wire;

/// Packets taken from one end before the others get their turn.
const TURN: usize = 64;

/// All wires, by sender and receiver; none from an end to itself.
pub(super) type Wires = Arc<Mutex<Vec<Vec<Wire>>>>;

/// A packet on its way. The earliest packet orders greatest; of two due at the same moment, the one sent first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    arrives: Reverse<(Instant, u64)>,
    to: usize,
    bytes: Vec<u8>,
}

/// Carries packets until the other end of `stop` closes.
pub(super) fn carry(mut ports: Vec<File>, wires: &Wires, stop: &OwnedFd) {
    let mut flying = BinaryHeap::new();
    let mut number = 0;
    let mut packet = vec![0; MTU as usize];
    loop {
        let now = Instant::now();
        while flying.peek().is_some_and(|next: &Flying| next.arrives.0.0 <= now) {
            if let Some(Flying { to, bytes, .. }) = flying.pop() {
                deliver(&mut ports[to], &bytes);
            }
        }
        if !wait(&ports, stop, flying.peek().map(|next| next.arrives.0.0)) {
            return;
        }
        for from in 0..ports.len() {
            for _ in 0..TURN {
                // No more packets, or the interface is being taken down.
                let Ok(length) = ports[from].read(&mut packet) else { break };
                let bytes = &packet[..length];
                let Some(to) = receiver(bytes, ports.len()).filter(|to| *to != from) else { continue };
                let now = Instant::now();
                let passed = {
                    let wire = &mut wires.lock()[from][to];
                    wire.pass(length, now).ok_or(wire.resets(now))
                };
                let arrives = match passed {
                    Ok(arrives) => arrives,
                    Err(resets) => {
                        if let Some([back, on]) = reset::answers_to(bytes).filter(|_| resets) {
                            deliver(&mut ports[from], &back);
                            deliver(&mut ports[to], &on);
                        }
                        continue;
                    }
                };
                if arrives <= now {
                    deliver(&mut ports[to], bytes);
                } else {
                    number += 1;
                    flying.push(Flying { arrives: Reverse((arrives, number)), to, bytes: bytes.to_vec() });
                }
            }
        }
    }
}

/// Waits for a packet or until `due`. False when it is time to stop.
fn wait(ports: &[File], stop: &OwnedFd, due: Option<Instant>) -> bool {
    let left = due.map(|due| due.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let mut polled: Vec<PollFd<'_>> = ports.iter().map(|port| PollFd::new(port, PollFlags::IN)).collect();
    polled.push(PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN));
    // An interrupted wait counts as a short one.
    let _ = poll(&mut polled, left.as_ref());
    polled.last().is_some_and(|stop| stop.revents().is_empty())
}

/// A receiver without room loses the packet, as on any network.
fn deliver(port: &mut File, bytes: &[u8]) {
    let _ = port.write(bytes);
}

/// The receiving end of an IPv4 packet: the last byte of its destination, from 1. `None` for another protocol or an
/// unknown destination.
fn receiver(packet: &[u8], ends: usize) -> Option<usize> {
    let destination = packet.get(16..20).filter(|_| packet[0] >> 4 == 4)?;
    let end = usize::from(destination[3]).checked_sub(1)?;
    (destination[..3] == super::NETWORK && end < ends).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_by_their_destination() {
        let packet = |version: u8, to: [u8; 4]| {
            let mut packet = vec![0; 20];
            packet[0] = version << 4 | 5;
            packet[16..].copy_from_slice(&to);
            packet
        };
        assert_eq!(receiver(&packet(4, [10, 0, 0, 1]), 3), Some(0));
        assert_eq!(receiver(&packet(4, [10, 0, 0, 3]), 3), Some(2));
        for (version, to) in
            [(4, [10, 0, 0, 0]), (4, [10, 0, 0, 4]), (4, [10, 0, 1, 1]), (4, [10, 0, 0, 255]), (6, [10, 0, 0, 1])]
        {
            assert_eq!(receiver(&packet(version, to), 3), None, "{version} {to:?}");
        }
        assert_eq!(receiver(&[0x45, 0], 3), None);
    }

    #[test]
    fn the_earliest_packet_comes_first_and_equals_in_order() {
        let now = Instant::now();
        let flying = |ms, number| Flying {
            arrives: Reverse((now + std::time::Duration::from_millis(ms), number)),
            to: 0,
            bytes: vec![number as u8],
        };
        let mut heap = BinaryHeap::from([flying(5, 1), flying(1, 3), flying(1, 2), flying(9, 0)]);
        let order: Vec<u8> = std::iter::from_fn(|| heap.pop()).map(|next| next.bytes[0]).collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }
}
