//! Puts, signals and waits: what arrives, in what order, which ranks are involved, and how waits end.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use dataplane::call::{Call, Remote};
use protocol::datatype::{Datatype, Operation};
use protocol::record::ErrorCode;

use crate::support::{Player, play, read, ways};

/// Larger than any socket buffer.
const LARGE: usize = 3 << 20;

fn put(player: &Player, peer: usize, window: u64, offset: u64, bytes: &[u8]) -> Call {
    let mut call = Call::new(Operation::PutSignal, bytes.len() as u64, Datatype::Uint8);
    call.peer = Some(peer as u32);
    call.remote = Some(Remote { window, offset });
    call.send = player.filled(bytes);
    call
}

fn signal(peer: usize) -> Call {
    Call { peer: Some(peer as u32), ..Call::new(Operation::Signal, 0, Datatype::Uint8) }
}

fn wait(peer: usize, count: u64) -> Call {
    Call { peer: Some(peer as u32), ..Call::new(Operation::WaitSignal, count, Datatype::Uint8) }
}

#[test]
fn puts_arrive_before_their_signal_and_in_order() {
    for settings in ways() {
        play(&settings, 3, |player| {
            let (next, previous) = ((player.rank + 1) % 3, (player.rank + 2) % 3);
            let window = player.device(LARGE);
            let number = player.communicator.register_window(window, LARGE as u64).unwrap();
            assert_eq!(number, 1);
            let message: Vec<u8> = (0..LARGE).map(|index| (index * 7 + player.rank) as u8).collect();
            // The second overwrites the end of the first.
            player.run(&[put(player, next, number, 0, &message), put(player, next, number, 10, &[9; 5])]).unwrap();
            player.run(&[wait(previous, 2)]).unwrap();
            let mut expected: Vec<u8> = (0..LARGE).map(|index| (index * 7 + previous) as u8).collect();
            expected[10..15].fill(9);
            assert!(read(window, LARGE) == expected);
            player.barrier().unwrap();
        });
    }
}

#[test]
fn everybody_signals_everybody_itself_included() {
    for settings in ways() {
        play(&settings, 3, |player| {
            let window = player.device(64);
            let number = player.communicator.register_window(window, 64).unwrap();
            for round in 1..=3u8 {
                let puts = (0..3).map(|peer| put(player, peer, number, player.rank as u64, &[round]));
                let waits = (0..3).map(|peer| wait(peer, 2));
                let calls: Vec<Call> = puts.chain((0..3).map(signal)).chain(waits).collect();
                player.run(&calls).unwrap();
                assert_eq!(read(window, 3), [round; 3]);
                player.barrier().unwrap();
            }
        });
    }
}

#[test]
fn a_put_waits_for_the_window_and_concerns_only_its_two_ranks() {
    for settings in ways() {
        play(&settings, 3, |player| {
            let own = player.device(16);
            match player.rank {
                0 => {
                    player.communicator.register_window(own, 16).unwrap();
                    player.run(&[put(player, 1, 1, 4, b"late"), wait(1, 1)]).unwrap();
                }
                1 => {
                    std::thread::sleep(Duration::from_millis(30));
                    player.communicator.register_window(own, 16).unwrap();
                    player.run(&[wait(0, 1), signal(0)]).unwrap();
                    assert_eq!(&read(own, 8)[4..], b"late");
                }
                _ => {}
            }
            assert_eq!(player.all_reduce(&[1]).unwrap(), [3]);
        });
    }
}

#[test]
fn a_put_beyond_the_window_fails_and_writes_nothing() {
    for settings in ways() {
        play(&settings, 2, |player| {
            let window = player.device(16);
            let number = player.communicator.register_window(window, 16).unwrap();
            player.barrier().unwrap();
            if player.rank == 0 {
                let failure = player.run(&[put(player, 1, number, 12, &[7; 8])]).unwrap_err();
                assert_eq!(failure.code, ErrorCode::InvalidArgument, "{failure}");
                assert!(failure.detail.contains("8 bytes at 12 exceed the window of 16 bytes"), "{failure}");
            } else {
                let failure = player.run(&[wait(0, 1)]).unwrap_err();
                assert!(failure.detail.contains("a wait for a signal from rank 0 needs rank 0"), "{failure}");
                assert_eq!(read(window, 16), [0; 16]);
            }
        });
    }
}

#[test]
fn a_rank_that_leaves_ends_waits_for_more_than_it_signalled() {
    for settings in ways() {
        play(&settings, 2, |player| {
            if player.rank == 0 {
                player.run(&[signal(1)]).unwrap();
                player.communicator.leave();
                return;
            }
            let start = Instant::now();
            player.run(&[wait(0, 1)]).unwrap();
            let failure = player.run(&[wait(0, 1)]).unwrap_err();
            assert!(start.elapsed() < Duration::from_secs(5), "{failure}");
            assert_eq!(failure.code, ErrorCode::RankLost, "{failure}");
        });
    }
}

#[test]
fn an_abort_wakes_waiting_ranks() {
    for settings in ways() {
        let started = Barrier::new(2);
        play(&settings, 2, |player| {
            if player.rank == 0 {
                started.wait();
                player.communicator.abort();
                return;
            }
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| player.run(&[wait(0, 1)]));
                started.wait();
                let failure = waiting.join().unwrap().unwrap_err();
                assert_eq!(failure.code, ErrorCode::Aborted, "{failure}");
            });
        });
    }
}

#[test]
fn the_deadline_names_the_rank_that_did_not_signal() {
    for settings in ways() {
        let settings = dataplane::settings::Settings { timeout: Duration::from_millis(200), ..settings };
        let done = Barrier::new(2);
        play(&settings, 2, |player| {
            if player.rank == 1 {
                let failure = player.run(&[wait(0, 2)]).unwrap_err();
                assert_eq!(failure.code, ErrorCode::TimeoutWaitingForP2p, "{failure}");
                assert!(failure.detail.ends_with("for rank 0: a wait for 2 signals from rank 0"), "{failure}");
            }
            done.wait();
        });
    }
}

/// A rank may leave as soon as it has every signal that it waits for: who sent them must not take that for a failure.
#[test]
fn a_rank_that_waited_for_signals_may_leave_at_once() {
    let [_, sockets] = ways();
    for round in 0..200 {
        play(&sockets, 3, |player| {
            let signals = (0..3).map(signal);
            let calls: Vec<Call> = signals.chain((0..3).map(|peer| wait(peer, 1))).collect();
            let ended = player.run(&calls);
            player.communicator.leave();
            assert_eq!(ended, Ok(()), "round {round}");
        });
    }
}
