//! Communicators that lose ranks and go on, disagree about it, are revoked, and get new ranks.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use dataplane::Failure;
use dataplane::call::Call;
use dataplane::communicator::Communicator;
use dataplane::communicator::GrowTicket;
use dataplane::process::{Participant, Process};
use dataplane::settings::Settings;
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::Rank;
use protocol::record::ErrorCode;

use crate::support::{Player, play, read, ways};

/// The sum of every rank's `value`.
fn sum(player: &Player, on: &Arc<Communicator>, value: i32) -> Result<i32, Failure> {
    let buffer = player.filled(&value.to_ne_bytes());
    let mut call = Call::new(Operation::AllReduce, 1, Datatype::Int32);
    (call.reduction, call.send, call.receive) = (Some(ReductionOp::Sum), buffer, buffer);
    on.run(&[call])?;
    Ok(i32::from_ne_bytes(read(buffer, 4).try_into().unwrap()))
}

fn shrink(player: &Player, excluded: &[u32], abort: bool) -> Result<Arc<Communicator>, Failure> {
    player.process.shrink(player.communicator.shrink_ticket(excluded.to_vec(), abort)?, player.participant())
}

/// Waits until two other ranks are done: a rank that ends before is lost, which is another story.
fn stay(others: &Mutex<Receiver<()>>) {
    for _ in 0..2 {
        let _ = others.lock().unwrap().recv_timeout(Duration::from_secs(20));
    }
}

#[test]
fn three_of_four_go_on_without_the_one_that_was_lost() {
    for settings in ways() {
        play(&settings, 4, |player| {
            let value = [1, 20, 300, 4000][player.rank];
            assert_eq!(sum(player, &player.communicator, value).unwrap(), 4321);
            if player.rank == 2 {
                return;
            }
            player.communicator.lose(2, ErrorCode::RankLost, "rank 2 (pid 4711) ended unexpectedly");
            assert_eq!(sum(player, &player.communicator, value).unwrap_err().code, ErrorCode::RankLost);
            let refused = shrink(player, &[2], false).err().unwrap();
            assert_eq!(refused.code, ErrorCode::RankLost);
            assert!(refused.detail.contains("only with NCCL_SHRINK_ABORT"), "{refused}");

            player.communicator.stop_to_shrink();
            let child = shrink(player, &[2], true).unwrap();
            let place = [0, 1, 9, 2][player.rank];
            assert_eq!((child.rank(), child.size()), (place, 3));
            assert_eq!(child.members()[place as usize].global_rank, Rank(player.rank as u32));
            for _ in 0..3 {
                assert_eq!(sum(player, &child, value).unwrap(), 4021);
            }
            assert_eq!(
                sum(player, &player.communicator, value).unwrap_err().code,
                ErrorCode::RankLost,
                "a failure stays"
            );
        });
    }
}

#[test]
fn a_shrink_with_abort_wakes_waiting_ranks() {
    for settings in ways() {
        let (done, others) = channel();
        let others = Mutex::new(others);
        play(&settings, 3, |player| match player.rank {
            // Waits for rank 2, which never comes.
            0 => {
                let failure = player.barrier().unwrap_err();
                assert_eq!(failure.code, ErrorCode::Aborted);
                assert!(failure.detail.contains("rank 1 aborted the communicator to shrink it"), "{failure}");
                assert_eq!(sum(player, &shrink(player, &[2], true).unwrap(), 1).unwrap(), 3);
                done.send(()).unwrap();
            }
            1 => {
                player.communicator.stop_to_shrink();
                assert_eq!(sum(player, &shrink(player, &[2], true).unwrap(), 2).unwrap(), 3);
                done.send(()).unwrap();
            }
            _ => stay(&others),
        });
    }
}

#[test]
fn without_an_error_the_parent_works_on() {
    for settings in ways() {
        play(&settings, 4, |player| {
            // Twice, and different ranks side by side.
            for _ in 0..2 {
                let others = if player.rank < 2 { [3, 2] } else { [0, 1] };
                let child = shrink(player, &others, false).unwrap();
                let expected = if player.rank < 2 { 1 } else { 5 };
                assert_eq!(sum(player, &child, player.rank as i32).unwrap(), expected);
            }
            assert_eq!(sum(player, &player.communicator, 1).unwrap(), 4);
        });
    }
}

#[test]
fn ranks_that_disagree_get_an_error_and_may_try_again() {
    let [shared, _] = ways();
    play(&shared, 3, |player| {
        if player.rank == 2 {
            return;
        }
        let excluded: &[u32] = if player.rank == 0 { &[2] } else { &[2, 0] };
        let mine = shrink(player, excluded, false);
        // Rank 1 wants to be alone and gets it; rank 0 waits for it.
        if player.rank == 1 {
            assert_eq!(mine.unwrap().size(), 1);
            assert_eq!(sum(player, &shrink(player, &[2], false).unwrap(), 1).unwrap(), 2);
        } else {
            assert_eq!(sum(player, &mine.unwrap(), 1).unwrap(), 2);
        }
    });
    let errors = play(&shared, 4, |player| match player.rank {
        0 | 1 => {
            let excluded: &[u32] = if player.rank == 0 { &[3] } else { &[2, 3] };
            let failure = shrink(player, excluded, false).err().unwrap();
            assert_eq!(failure.code, ErrorCode::ShrinkExcludedRanksMismatch);
            assert_eq!(shrink(player, &[2, 3], false).unwrap().size(), 2);
            failure.detail
        }
        _ => String::new(),
    });
    let expected = "would shrink in different ways: rank 0 without rank 3, rank 1 without ranks 2 and 3";
    assert!(errors[0].ends_with(expected) && errors[0] == errors[1], "{errors:?}");
}

#[test]
fn wrong_lists_are_refused() {
    let [shared, _] = ways();
    play(&shared, 2, |player| {
        let me = player.rank as u32;
        let detail = |excluded: &[u32]| shrink(player, excluded, false).err().unwrap().detail;
        assert_eq!(detail(&[]), "no rank to leave out");
        assert_eq!(detail(&[2]), "rank 2 to leave out is not a rank of a communicator of 2");
        assert_eq!(detail(&[1 - me, 1 - me]), format!("rank {} to leave out is listed twice", 1 - me));
        assert!(detail(&[me]).starts_with(&format!("rank {me} leaves itself out")));
    });
    let settings = Settings { timeout: Duration::from_millis(100), ..shared };
    let failures = play(&settings, 3, |player| (player.rank == 0).then(|| shrink(player, &[2], false).err().unwrap()));
    let failure = failures[0].as_ref().unwrap();
    assert_eq!((failure.code, &failure.culprits), (ErrorCode::TimeoutWaitingForShrink, &vec![Rank(1)]));
}

#[test]
fn a_revoke_is_a_rank_s_own_and_the_communicator_can_still_be_shrunk() {
    for settings in ways() {
        let (done, others) = channel();
        let others = Mutex::new(others);
        play(&settings, 3, |player| {
            assert_eq!(sum(player, &player.communicator, 1).unwrap(), 3);
            if player.rank == 0 {
                // Its own operation, waiting in another thread, ends too.
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| player.run(&[player.receive(2, 10)]).unwrap_err());
                    std::thread::sleep(Duration::from_millis(50));
                    player.communicator.revoke();
                    assert_eq!(waiting.join().unwrap().code, ErrorCode::Revoked);
                });
                assert!(player.communicator.revoked());
                assert_eq!(player.barrier().unwrap_err().code, ErrorCode::Revoked, "nothing runs any more");
            } else if player.rank == 1 {
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| player.run(&[player.receive(0, 10)]).unwrap_err());
                    std::thread::sleep(Duration::from_millis(150));
                    assert!(!waiting.is_finished(), "it waits for rank 0, which revoked only its own part");
                    player.communicator.revoke();
                    let failure = waiting.join().unwrap();
                    assert_eq!(failure.detail, "rank 1 revoked the communicator");
                });
            } else {
                return stay(&others);
            }
            let child = shrink(player, &[2], false).unwrap();
            assert_eq!(sum(player, &child, 5).unwrap(), 10);
            done.send(()).unwrap();
        });
    }
}

#[test]
fn two_ranks_become_four() {
    for settings in ways() {
        let process = Process::join(settings).unwrap();
        let id = OnceLock::new();
        let used = Mutex::new(None);
        std::thread::scope(|scope| {
            for rank in 0..4 {
                let (process, id, used) = (Arc::clone(&process), &id, &used);
                scope.spawn(move || {
                    let grown = if rank < 2 {
                        let player = Player::new(Arc::clone(&process), b"the first two", 2, rank).unwrap();
                        let parent = &player.communicator;
                        let ticket = parent.grow_ticket();
                        if rank == 1 {
                            let bytes = parent.grow_id().unwrap();
                            assert!(parent.grow_id().is_none(), "one id at a time");
                            assert_eq!(GrowTicket::from_id(&bytes), Some(ticket));
                            id.set(bytes).unwrap();
                        }
                        let grown = process.grow(Some(parent), ticket, 4, rank as u32, player.participant()).unwrap();
                        if rank == 1 {
                            assert!(parent.grow_id().is_some(), "the next one");
                        }
                        assert_eq!(sum(&player, parent, 1).unwrap(), 2, "the smaller one works on");
                        (player, grown)
                    } else {
                        let player = Player::new(Arc::clone(&process), &[rank as u8], 1, 0).unwrap();
                        let ticket = GrowTicket::from_id(id.wait()).unwrap();
                        let own = Participant { gpu: rank as u64, ..player.participant() };
                        let grown = process.grow(None, ticket, 4, rank as u32, own).unwrap();
                        *used.lock().unwrap() = Some((ticket, player.participant()));
                        (player, grown)
                    };
                    let (player, grown) = grown;
                    assert_eq!((grown.rank(), grown.size()), (rank as u32, 4));
                    assert_eq!(sum(&player, &grown, [1, 20, 300, 4000][rank]).unwrap(), 4321);
                });
            }
        });
        let (ticket, participant) = used.into_inner().unwrap().unwrap();
        let again = process.grow(None, ticket, 4, 3, participant).err().unwrap();
        assert_eq!(again.code, ErrorCode::InvalidArgument);
        assert!(again.detail.contains("was used before"), "{again}");
    }
}
