//! What goes wrong and who hears of it: mismatches, deadlines, aborts, lost ranks, refused pieces.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use dataplane::call::Call;
use dataplane::settings::Settings;
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::Rank;
use protocol::record::ErrorCode;

use crate::support::{Player, play, read, ways, write};

fn call(player: &Player, operation: Operation, count: u64, datatype: Datatype) -> Call {
    let mut call = Call::new(operation, count, datatype);
    call.send = player.device(1 << 16);
    call.receive = player.device(1 << 16);
    call.reduction = matches!(operation, Operation::AllReduce | Operation::Reduce).then_some(ReductionOp::Sum);
    call.root = matches!(operation, Operation::Broadcast | Operation::Reduce).then_some(0);
    call
}

#[test]
fn every_rank_hears_of_a_mismatch_at_once() {
    type Change = fn(&Player, &mut Call);
    let changes: [(ErrorCode, Change); 5] = [
        (ErrorCode::CollectiveTypeMismatch, |player, other| {
            *other = call(player, Operation::AllGather, 4, Datatype::Float32)
        }),
        (ErrorCode::DtypeMismatch, |_, other| other.datatype = Datatype::Int32),
        (ErrorCode::CountMismatch, |_, other| other.count = 5000),
        (ErrorCode::ReduceOpMismatch, |_, other| other.reduction = Some(ReductionOp::Max)),
        (ErrorCode::RootMismatch, |_, other| other.root = Some(1)),
    ];
    for settings in ways() {
        for (code, change) in changes {
            let failures = play(&settings, 3, |player| {
                player.barrier().unwrap();
                let mut mine = call(player, Operation::Reduce, 4, Datatype::Float32);
                if player.rank == 2 {
                    change(player, &mut mine);
                }
                let start = Instant::now();
                let failure = player.run(&[mine]).unwrap_err();
                assert!(start.elapsed() < Duration::from_secs(5));
                assert_eq!(player.run(&[mine]).unwrap_err(), failure, "a failure stays");
                failure
            });
            for failure in failures {
                assert_eq!(failure.code, code);
                assert_eq!(failure.culprits, [Rank(2)]);
                assert!(failure.detail.contains("collective 2: rank 0 called reduce("), "{failure}");
                assert!(failure.detail.contains("; rank 2 called "), "{failure}");
            }
        }
    }
}

#[test]
fn both_sides_hear_of_a_message_mismatch() {
    for settings in ways() {
        let failures = play(&settings, 2, |player| {
            let mine = if player.rank == 0 { player.send(1, &[1; 100_000]) } else { player.receive(0, 99_999) };
            player.run(&[mine]).unwrap_err()
        });
        for failure in failures {
            assert_eq!(failure.code, ErrorCode::CountMismatch);
            assert!(failure.detail.contains("100000") && failure.detail.contains("99999"), "{failure}");
        }
    }
}

#[test]
fn a_deadline_names_the_missing_ranks() {
    for settings in ways() {
        let settings = Settings { timeout: Duration::from_millis(300), ..settings };
        play(&settings, 3, |player| {
            if player.rank == 1 {
                std::thread::sleep(Duration::from_millis(600));
                let failure = player.barrier().unwrap_err();
                assert_eq!(failure.code, ErrorCode::TimeoutWaitingForCollective, "{failure}");
                assert!(failure.detail.contains("waited 300 ms"), "{failure}");
            } else {
                let failure = player.barrier().unwrap_err();
                assert_eq!(failure.code, ErrorCode::TimeoutWaitingForCollective);
                // The other waiter may have given up a moment earlier and be named instead, with rank 1 as its reason.
                assert!(failure.detail.contains("rank 1"), "{failure}");
            }
        });
        let failures =
            play(&settings, 2, |player| (player.rank == 0).then(|| player.run(&[player.receive(1, 8)]).unwrap_err()));
        let failure = failures[0].as_ref().unwrap();
        assert_eq!(failure.code, ErrorCode::TimeoutWaitingForP2p);
        assert_eq!(failure.culprits, [Rank(1)]);
    }
}

#[test]
fn an_abort_wakes_waiting_ranks_here_and_elsewhere() {
    for settings in ways() {
        let failures = play(&settings, 3, |player| {
            if player.rank == 2 {
                // Waits in an operation of its own when the abort comes from another thread.
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| player.run(&[player.receive(0, 10)]).unwrap_err());
                    std::thread::sleep(Duration::from_millis(100));
                    player.communicator.abort();
                    waiting.join().unwrap()
                })
            } else {
                player.barrier().unwrap_err()
            }
        });
        for failure in failures {
            assert_eq!(failure.code, ErrorCode::Aborted, "{failure}");
            assert!(failure.detail.contains("rank 2 aborted"), "{failure}");
        }
    }
}

#[test]
fn an_abort_at_any_moment_leaves_no_wrong_number_and_no_foreign_byte() {
    const COUNT: usize = 1 << 20;
    let [shared, _] = ways();
    for round in 0..16 {
        let end = Barrier::new(4);
        play(&shared, 4, |player| {
            let mut mine = Call::new(Operation::AllReduce, COUNT as u64, Datatype::Int32);
            mine.reduction = Some(ReductionOp::Sum);
            mine.send = player.filled(&1i32.to_ne_bytes().repeat(COUNT));
            mine.receive = mine.send;
            let met = player.barrier();
            let result = std::thread::scope(|scope| {
                if player.rank == 0 {
                    scope.spawn(|| {
                        // Before the others come, while bytes move, and after that.
                        (0..round * 4000).for_each(|_| std::hint::spin_loop());
                        player.communicator.abort();
                    });
                }
                player.run(&[mine])
            });
            let sums = read(mine.receive, COUNT * 4);
            // The buffer is the program's again.
            let used = vec![7; COUNT * 4];
            write(mine.receive, &used);
            // Nothing panics before: the others would wait.
            end.wait();
            assert!(read(mine.receive, COUNT * 4) == used, "somebody wrote after the end");
            met.unwrap();
            match result {
                Ok(()) => assert!(sums == 4i32.to_ne_bytes().repeat(COUNT)),
                Err(failure) => assert_eq!(failure.code, ErrorCode::Aborted, "{failure}"),
            }
        });
    }
}

#[test]
fn a_lost_rank_fails_only_what_needs_it() {
    for settings in ways() {
        play(&settings, 3, |player| {
            player.barrier().unwrap();
            player.communicator.lose(2, ErrorCode::RankLost, "rank 2 (pid 4711) ended unexpectedly");
            match player.rank {
                0 => player.run(&[player.send(1, &[7; 100_000])]).unwrap(),
                1 => player.run(&[player.receive(0, 100_000)]).unwrap(),
                _ => return,
            }
            let failure = player.barrier().unwrap_err();
            assert_eq!(failure.code, ErrorCode::RankLost);
            assert!(failure.detail.contains("pid 4711"), "{failure}");
        });
    }
}

#[test]
fn a_rank_that_left_is_not_waited_for() {
    for settings in ways() {
        play(&settings, 2, |player| {
            player.barrier().unwrap();
            if player.rank == 1 {
                player.communicator.leave();
            } else {
                let failure = player.barrier().unwrap_err();
                assert_eq!(failure.code, ErrorCode::RankLost);
                assert!(failure.detail.contains("left the communicator"), "{failure}");
            }
        });
    }
}

#[test]
fn a_piece_above_the_limit_is_refused_by_name() {
    let [_, sockets] = ways();
    let settings = Settings { chunk_bytes: 4096, max_bytes: Some(1024), ..sockets };
    let failures = play(&settings, 2, |player| {
        assert_eq!(player.all_reduce(&[1; 10]).unwrap(), [2; 10]);
        player.all_reduce(&[1; 1000]).unwrap_err()
    });
    for failure in failures {
        assert_eq!(failure.code, ErrorCode::InvalidArgument);
        assert!(failure.detail.contains("FAKEGPU_STAGING_MAX_BYTES=1024"), "{failure}");
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_moves() {
    let [shared, _] = ways();
    play(&shared, 1, |player| {
        let mut wrong = call(player, Operation::Broadcast, 4, Datatype::Float32);
        wrong.root = Some(1);
        let failure = player.communicator.check(&wrong).unwrap_err();
        assert_eq!(failure.detail, "broadcast: root 1 is not a rank of a communicator of 1");
        let mut wrong = call(player, Operation::AllReduce, 4, Datatype::Float32);
        wrong.send.address = std::ptr::null_mut();
        assert!(player.communicator.check(&wrong).unwrap_err().detail.contains("send buffer is null"));
        let wrong = call(player, Operation::AllReduce, u64::MAX / 2, Datatype::Float32);
        assert_eq!(player.communicator.check(&wrong).unwrap_err().code, ErrorCode::InvalidArgument);
    });
}

#[test]
fn a_rendezvous_names_the_missing_and_refuses_doubles() {
    let [shared, _] = ways();
    let settings = Settings { timeout: Duration::from_millis(200), ..shared };
    let process = dataplane::process::Process::join(settings).unwrap();
    let failure = Player::new(std::sync::Arc::clone(&process), b"late", 3, 1).err().unwrap();
    assert_eq!(failure.code, ErrorCode::TimeoutWaitingForRanks);
    assert!(failure.detail.contains("ranks 0 and 2"), "{failure}");
    let codes: Vec<ErrorCode> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let process = std::sync::Arc::clone(&process);
                scope.spawn(move || Player::new(process, b"twice", 3, 1).err().unwrap().code)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(codes, [ErrorCode::DuplicateRank; 2]);
}

#[test]
fn splits_follow_color_and_key() {
    for settings in ways() {
        play(&settings, 4, |player| {
            // Ranks 0 and 2 in reverse order; rank 1 alone; rank 3 nowhere.
            let color = match player.rank {
                0 | 2 => Some(7),
                1 => Some(1),
                _ => None,
            };
            let parent = &player.communicator;
            let key = -(player.rank as i32);
            let child = player.process.split(parent, parent.split_ticket(), color, key, player.participant()).unwrap();
            let found = child.as_ref().map(|child| (child.rank(), child.size()));
            assert_eq!(found, [Some((1, 2)), Some((0, 1)), Some((0, 2)), None][player.rank]);
            if let Some(child) = child {
                assert_eq!(child.members()[child.rank() as usize].global_rank, Rank(player.rank as u32));
                child.run(&[Call::new(Operation::Barrier, 0, Datatype::Uint8)]).unwrap();
            }
        });
    }
}
