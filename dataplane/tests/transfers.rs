//! Send and recv: exchange, ring, any order, self, full rings; only the ranks involved take part.

use crate::support::{play, read, ways};

fn message(from: usize, to: usize, number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (from * 71 + to * 31 + number * 7 + index) as u8).collect()
}

/// Buffered and unbuffered.
const SIZES: [usize; 3] = [1, 5000, 300_001];

#[test]
fn symmetric_exchange_and_ring_in_a_group() {
    for settings in ways() {
        for size in [2, 4] {
            play(&settings, size, |player| {
                let (next, previous) = ((player.rank + 1) % size, (player.rank + size - 1) % size);
                for bytes in SIZES {
                    let receive = player.receive(previous, bytes);
                    let send = player.send(next, &message(player.rank, next, 0, bytes));
                    let calls = if player.rank % 2 == 0 { [send, receive] } else { [receive, send] };
                    player.run(&calls).unwrap();
                    assert_eq!(read(receive.receive, bytes), message(previous, player.rank, 0, bytes));
                }
            });
        }
    }
}

#[test]
fn everybody_to_everybody_with_many_messages_each() {
    const MANY: usize = 20;
    for settings in ways() {
        play(&settings, 3, |player| {
            for bytes in [10, 40_000] {
                let mut sends = Vec::new();
                let mut receives = Vec::new();
                for number in 0..MANY {
                    for peer in 0..3 {
                        sends.push(player.send(peer, &message(player.rank, peer, number, bytes)));
                        receives.push((peer, number, player.receive(peer, bytes)));
                    }
                }
                let calls: Vec<_> = sends.iter().copied().chain(receives.iter().map(|receive| receive.2)).collect();
                player.run(&calls).unwrap();
                for (peer, number, call) in receives {
                    assert_eq!(read(call.receive, bytes), message(peer, player.rank, number, bytes));
                }
            }
        });
    }
}

#[test]
fn a_message_concerns_only_its_two_ranks() {
    for settings in ways() {
        play(&settings, 4, |player| {
            // Ranks 2 and 3 do nothing at all until the reduction.
            for bytes in SIZES {
                if player.rank == 0 {
                    player.run(&[player.send(1, &message(0, 1, 0, bytes))]).unwrap();
                }
                if player.rank == 1 {
                    let call = player.receive(0, bytes);
                    player.run(&[call]).unwrap();
                    assert_eq!(read(call.receive, bytes), message(0, 1, 0, bytes));
                }
            }
            assert_eq!(player.all_reduce(&[1]).unwrap(), [4]);
        });
    }
}

#[test]
fn small_sends_are_buffered() {
    for settings in ways() {
        play(&settings, 2, |player| {
            let peer = 1 - player.rank;
            // Outside a group: both send first. NCCL gets through this with small messages, and so do we.
            player.run(&[player.send(peer, &message(player.rank, peer, 0, 100))]).unwrap();
            let call = player.receive(peer, 100);
            player.run(&[call]).unwrap();
            assert_eq!(read(call.receive, 100), message(peer, player.rank, 0, 100));
        });
    }
}

#[test]
fn a_message_of_nothing_meets_its_receiver() {
    for settings in ways() {
        play(&settings, 2, |player| {
            let peer = 1 - player.rank;
            if player.rank == 0 {
                player.run(&[player.send(peer, &[])]).unwrap();
                player.run(&[player.send(peer, &[9; 10])]).unwrap();
            } else {
                player.run(&[player.receive(peer, 0)]).unwrap();
                let call = player.receive(peer, 10);
                player.run(&[call]).unwrap();
                assert_eq!(read(call.receive, 10), [9; 10]);
            }
            // Both at once, and to itself.
            player.run(&[player.send(peer, &[]), player.receive(peer, 0)]).unwrap();
            player.run(&[player.send(player.rank, &[]), player.receive(player.rank, 0)]).unwrap();
        });
    }
}

#[test]
fn a_group_may_mix_collectives_and_messages() {
    for settings in ways() {
        play(&settings, 2, |player| {
            let peer = 1 - player.rank;
            let receive = player.receive(peer, 10);
            let mut reduce = dataplane::call::Call::new(
                protocol::datatype::Operation::AllReduce,
                1,
                protocol::datatype::Datatype::Uint8,
            );
            reduce.reduction = Some(protocol::datatype::ReductionOp::Sum);
            let buffer = player.filled(&[5]);
            (reduce.send, reduce.receive) = (buffer, buffer);
            player.run(&[receive, reduce, player.send(peer, &[player.rank as u8; 10])]).unwrap();
            assert_eq!(read(buffer, 1), [10]);
            assert_eq!(read(receive.receive, 10), [peer as u8; 10]);
        });
    }
}
