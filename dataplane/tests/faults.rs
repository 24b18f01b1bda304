//! Faults that a case asks for, with ranks as threads: which rank is hit, which error each rank gets, and that nothing else happens.

use std::time::{Duration, Instant};

use dataplane::Failure;
use dataplane::call::Call;
use dataplane::settings::Settings;
use protocol::datatype::{Datatype, Operation};
use protocol::fault::{Action, Fault, Link, Side, Trigger};
use protocol::ids::{Rank, Sequence};
use protocol::record::ErrorCode;

use crate::support::{self, Player, play, ways};

const DELAY: Duration = Duration::from_millis(600);

/// A fault of rank 1 at an all_reduce of its first communicator.
fn at_collective(sequence: Option<u64>, action: Action) -> Fault {
    let at = Trigger::Collective {
        rank: Rank(1),
        communicator: Some(1),
        operation: Operation::AllReduce,
        sequence: sequence.map(Sequence),
    };
    Fault { number: 1, origin: "s.yaml:1:2".to_owned(), at, action }
}

fn from_start(action: Action) -> Fault {
    let at = Trigger::After { rank: None, elapsed: Duration::ZERO };
    Fault { number: 1, origin: "s.yaml:1:2".to_owned(), at, action }
}

/// Rank 0 on the one side, rank 2 on the other; rank 1 on neither.
fn link() -> Link {
    let side = |node: &str, rank| Side { node: node.to_owned(), ranks: vec![Rank(rank)] };
    Link([side("node0", 0), side("node2", 2)])
}

fn with(settings: Settings, fault: Fault) -> Settings {
    Settings { faults: vec![fault], ..settings }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

/// One transfer of 100 bytes.
fn transfer(player: &Player, from: usize, to: usize) -> Result<(), Failure> {
    match player.rank {
        rank if rank == from => player.run(&[player.send(to, &[7; 100])]),
        rank if rank == to => player.run(&[player.receive(from, 100)]),
        _ => Ok(()),
    }
}

fn group<T>(player: &Player, work: impl Fn() -> T) -> (T, Duration) {
    player.barrier().unwrap();
    timed(work)
}

#[test]
fn a_delayed_rank_makes_the_others_wait_once() {
    for settings in ways() {
        play(&with(settings, at_collective(Some(3), Action::Delay(DELAY))), 2, |player| {
            let (sums, quick) = group(player, || player.all_reduce(&[1]).unwrap());
            assert!(quick < DELAY, "{quick:?}");
            let (again, slow) = timed(|| player.all_reduce(&[1]).unwrap());
            assert_eq!((sums, again), (vec![2], vec![2]));
            assert!(slow >= DELAY - Duration::from_millis(50), "{slow:?}");
            let ((), quick) = timed(|| drop(player.all_reduce(&[1]).unwrap()));
            assert!(quick < DELAY, "{quick:?}");
        });
    }
}

#[test]
fn without_a_position_the_first_of_the_kind_is_meant() {
    for settings in ways() {
        let failures = play(&with(settings, at_collective(None, Action::NcclError)), 2, |player| {
            player.barrier().unwrap();
            player.all_reduce(&[1]).unwrap_err()
        });
        for failure in failures {
            assert_eq!(failure.code, ErrorCode::InjectedRankFailure, "{failure}");
            assert_eq!(failure.culprits, [Rank(1)]);
            assert!(failure.detail.contains("s.yaml:1:2: injected failure in all_reduce"), "{failure}");
        }
    }
}

#[test]
fn the_variables_of_fakegpu_mean_every_communicator() {
    for settings in ways() {
        let mut fault = at_collective(Some(2), Action::NcclError);
        fault.number = 0;
        let Trigger::Collective { communicator, .. } = &mut fault.at else { unreachable!() };
        *communicator = None;
        play(&with(settings, fault), 2, |player| {
            let fails_second = |player: &Player| {
                assert_eq!(player.all_reduce(&[1]).unwrap(), [2]);
                let failure = player.all_reduce(&[1]).unwrap_err();
                assert_eq!((failure.code, &failure.culprits[..]), (ErrorCode::InjectedRankFailure, &[Rank(1)][..]));
            };
            fails_second(player);
            fails_second(&Player::new(player.process.clone(), b"another", 2, player.rank).unwrap());
        });
    }
}

#[test]
fn a_fault_of_another_communicator_or_operation_does_not_fire() {
    let [shared, _] = ways();
    let mut second = at_collective(Some(1), Action::NcclError);
    let Trigger::Collective { communicator, .. } = &mut second.at else { unreachable!() };
    *communicator = Some(2);
    play(&with(shared, second), 2, |player| {
        assert_eq!(player.all_reduce(&[1]).unwrap(), [2]);
        let next = Player::new(player.process.clone(), b"another", 2, player.rank).unwrap();
        assert_eq!(next.all_reduce(&[1]).unwrap_err().code, ErrorCode::InjectedRankFailure);
    });
    let [shared, _] = ways();
    play(&with(shared, at_collective(Some(1), Action::NcclError)), 2, |player| {
        player.barrier().unwrap();
        assert_eq!(player.all_reduce(&[1]).unwrap(), [2]);
    });
}

#[test]
fn a_corrupted_contribution_reaches_every_result_and_not_the_sender() {
    // Small payloads travel beside the descriptor, large ones do not.
    for count in [4usize, 20_000] {
        for settings in ways() {
            play(&with(settings, at_collective(Some(2), Action::Corrupt)), 3, |player| {
                let values: Vec<i32> = vec![1; count];
                assert_eq!(player.all_reduce(&values).unwrap(), vec![3; count]);
                let mut expected = vec![3; count];
                expected[count / 2] += 1 << 30;
                let result = player.all_reduce(&values).unwrap();
                assert!(result == expected, "rank {} of {count} elements", player.rank);
                assert_eq!(player.all_reduce(&values).unwrap(), vec![3; count], "once");
            });
        }
    }
    // Out of place the program's own buffer stays as it is.
    let [shared, _] = ways();
    play(&with(shared, at_collective(Some(1), Action::Corrupt)), 2, |player| {
        let mut call = Call::new(Operation::AllReduce, 2, Datatype::Uint8);
        call.reduction = Some(protocol::datatype::ReductionOp::Sum);
        (call.send, call.receive) = (player.filled(&[1, 1]), player.device(2));
        player.run(&[call]).unwrap();
        assert_eq!(support::read(call.receive, 2), [2, 2 + 0x40]);
        assert_eq!(support::read(call.send, 2), [1, 1]);
    });
}

#[test]
fn a_dropped_rank_is_missed_by_name() {
    for settings in ways() {
        let settings = Settings { timeout: DELAY, ..settings };
        let failures = play(&with(settings, at_collective(Some(2), Action::Drop)), 3, |player| {
            assert_eq!(player.all_reduce(&[1]).unwrap(), [3]);
            let (failure, waited) = timed(|| player.all_reduce(&[1]).unwrap_err());
            assert!(waited < Duration::from_secs(10), "{waited:?}");
            failure
        });
        for failure in &failures {
            assert_eq!(failure.code, ErrorCode::TimeoutWaitingForCollective, "{failure}");
            // The other waiter may have given up a moment earlier and be named instead, with rank 1 as its reason.
            assert!(failure.detail.contains("rank 1"), "{failure}");
        }
    }
}

#[test]
fn an_abort_frees_a_rank_that_a_fault_holds() {
    let [shared, _] = ways();
    for action in [Action::Drop, Action::Delay(Duration::from_secs(60))] {
        play(&with(shared.clone(), at_collective(Some(1), action)), 2, |player| {
            if player.rank == 0 {
                assert_eq!(player.all_reduce(&[1]).unwrap_err().code, ErrorCode::Aborted);
                return;
            }
            std::thread::scope(|scope| {
                let held = scope.spawn(|| timed(|| player.all_reduce(&[1]).unwrap_err()));
                std::thread::sleep(Duration::from_millis(50));
                player.communicator.abort();
                let (failure, waited) = held.join().unwrap();
                assert_eq!(failure.code, ErrorCode::Aborted);
                assert!(waited < Duration::from_secs(10), "{waited:?}");
            });
        });
    }
}

#[test]
fn a_slow_link_slows_what_crosses_it() {
    for settings in ways() {
        let slow = |delay, gbps| from_start(Action::SlowLink { link: link(), delay, gbps });
        play(&with(settings.clone(), slow(DELAY, None)), 3, |player| {
            // The ring of three goes from rank 2 to rank 0.
            let (sums, waited) = group(player, || player.all_reduce(&[1]).unwrap());
            assert_eq!(sums, [3]);
            assert!(waited >= DELAY, "{waited:?}");
            let (result, waited) = group(player, || transfer(player, 2, 0));
            result.unwrap();
            assert!(player.rank == 1 || waited >= DELAY, "{waited:?}");
            let (result, waited) = group(player, || transfer(player, 0, 1));
            result.unwrap();
            assert!(waited < DELAY, "{waited:?}");
        });
        // 100 bytes at 4 kbit/s take 200 ms.
        play(&with(settings, slow(Duration::ZERO, Some(4e-6))), 3, |player| {
            let (result, waited) = group(player, || transfer(player, 0, 2));
            result.unwrap();
            assert!(player.rank == 1 || waited >= Duration::from_millis(200), "{waited:?}");
        });
    }
}

#[test]
fn a_cut_link_fails_what_needs_it_and_is_named() {
    for settings in ways() {
        let settings = with(settings, from_start(Action::CutLink { link: link() }));
        play(&settings, 3, |player| {
            transfer(player, 0, 1).unwrap();
            let failure = player.all_reduce(&[1]).unwrap_err();
            assert_eq!(failure.code, ErrorCode::InjectedRankFailure, "{failure}");
            assert!(
                failure.detail.contains("the link between node0 and node2, which is cut (s.yaml:1:2)"),
                "{failure}"
            );
        });
        let failures = play(&settings, 3, |player| transfer(player, 2, 0));
        assert!(failures[1].is_ok());
        for failure in [&failures[0], &failures[2]] {
            assert_eq!(failure.as_ref().unwrap_err().code, ErrorCode::InjectedRankFailure);
        }
    }
}

#[test]
fn a_link_is_whole_until_it_is_cut() {
    let [shared, _] = ways();
    let cut =
        |elapsed| Fault { at: Trigger::After { rank: None, elapsed }, ..from_start(Action::CutLink { link: link() }) };
    play(&with(shared.clone(), cut(Duration::from_secs(60))), 3, |player| drop(player.all_reduce(&[1]).unwrap()));
    play(&with(shared, cut(DELAY)), 3, |player| {
        std::thread::sleep(DELAY);
        assert_eq!(player.all_reduce(&[1]).unwrap_err().code, ErrorCode::InjectedRankFailure);
    });
}

/// A fault of rank 1 at its second send or recv.
fn at_transfer(operation: Operation, action: Action) -> Fault {
    let at = Trigger::Collective { rank: Rank(1), communicator: Some(1), operation, sequence: Some(Sequence(2)) };
    Fault { number: 1, origin: "s.yaml:1:2".to_owned(), at, action }
}

#[test]
fn a_transfer_is_corrupted_on_its_way_out_or_in() {
    for settings in ways() {
        for bytes in [8, 100_000] {
            for (operation, hit) in [(Operation::Send, 0), (Operation::Recv, 1)] {
                play(&with(settings.clone(), at_transfer(operation, Action::Corrupt)), 2, |player| {
                    let peer = 1 - player.rank;
                    for round in 1..=3 {
                        let (send, receive) = (player.send(peer, &vec![7; bytes]), player.receive(peer, bytes));
                        player.run(&[send, receive]).unwrap();
                        let mut expected = vec![7; bytes];
                        if round == 2 && player.rank == hit {
                            expected[bytes / 2] = 7 ^ 0x40;
                        }
                        assert!(support::read(receive.receive, bytes) == expected, "{operation}, round {round}");
                        assert!(support::read(send.send, bytes) == vec![7; bytes], "the program's own buffer stays");
                    }
                });
            }
        }
    }
}

#[test]
fn a_rank_kept_from_a_recv_is_missed_by_its_sender() {
    for settings in ways() {
        let settings = Settings { timeout: Duration::from_millis(300), ..settings };
        play(&with(settings, at_transfer(Operation::Recv, Action::Drop)), 2, |player| {
            let large = vec![1; 100_000];
            let step = || match player.rank {
                0 => player.run(&[player.send(1, &large)]),
                _ => player.run(&[player.receive(0, large.len())]),
            };
            step().unwrap();
            let failure = step().unwrap_err();
            assert_eq!(failure.code, ErrorCode::TimeoutWaitingForP2p, "{failure}");
            assert!(failure.detail.contains("rank 1"), "{failure}");
        });
    }
}
