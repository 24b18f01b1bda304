use std::sync::Arc;
use std::time::Duration;

use crate::arena::Arena;
use crate::shared::segment::barrier::*;

fn segment(size: u32) -> Arc<Segment> {
    Arc::new(Segment::found(Arena::create("control test", Segment::bytes(size)).unwrap(), size))
}

#[test]
fn a_barrier_lets_nobody_through_early_and_names_the_missing() {
    let segment = segment(3);
    segment.arrive(0, 1);
    segment.arrive(2, 1);
    let soon = Instant::now() + Duration::from_millis(20);
    assert_eq!(segment.wait(0, 1, None, soon), Arrival::Missing(vec![1]));
    // What rank 0 gave up does not begin for the others.
    segment.arrive(1, 1);
    assert_eq!(segment.wait(1, 1, None, soon), Arrival::Missing(vec![0]));
    segment.lose(0, ErrorCode::TimeoutWaitingForCollective, "rank 0 waited 20 ms");
    for rank in [1, 2] {
        assert_eq!(segment.wait(rank, 1, None, Instant::now() + Duration::from_secs(20)), Arrival::Lost(vec![0]));
    }
}

#[test]
fn the_last_rank_completes_a_barrier_and_wakes_the_others() {
    let segment = segment(3);
    let late = Instant::now();
    segment.arrive(2, 1);
    // Rank 0 has come and is not counted yet.
    segment.block(0).progress.store(1, Ordering::Release);
    let waiter = {
        let segment = Arc::clone(&segment);
        std::thread::spawn(move || {
            segment.arrive(1, 1);
            segment.wait(1, 1, None, Instant::now() + Duration::from_secs(20))
        })
    };
    let bell = segment.header().bell.0.load(Ordering::Acquire);
    segment.count_arrival(1, || {});
    assert_eq!(waiter.join().unwrap(), Arrival::All);
    assert_ne!(segment.header().bell.0.load(Ordering::Acquire), bell);
    assert_eq!(segment.wait(2, 1, None, late), Arrival::All);
}

#[test]
fn a_rank_that_dies_before_it_is_counted_holds_nobody() {
    for closing in [false, true] {
        let segment = segment(2);
        segment.block(1).progress.store(1, Ordering::Release);
        segment.lose(1, ErrorCode::RankLost, "rank 1 is gone");
        let later = Instant::now() + Duration::from_secs(20);
        let arrival = if closing {
            segment.settle(0, 1, true, later)
        } else {
            segment.arrive(0, 1);
            segment.wait(0, 1, None, later)
        };
        assert_eq!(arrival, Arrival::Lost(vec![1]));
    }
}

#[test]
fn a_rank_that_came_and_left_since_it_was_missed_is_not_lost() {
    let segment = segment(2);
    segment.arrive(0, 1);
    let missing = [1];
    assert!(segment.lost_among(&missing, 1).is_empty());
    segment.arrive(1, 1);
    segment.lose(1, ErrorCode::RankLost, "rank 1 left");
    assert!(segment.lost_among(&missing, 1).is_empty());
    assert_eq!(segment.lost_among(&missing, 2), [1]);
}

#[test]
fn a_lost_rank_wakes_the_ranks_that_need_it_and_only_them() {
    let segment = segment(2);
    segment.arrive(0, 1);
    let waiter = {
        let segment = Arc::clone(&segment);
        std::thread::spawn(move || segment.wait(0, 1, None, Instant::now() + Duration::from_secs(20)))
    };
    segment.lose(1, ErrorCode::RankLost, "rank 1 is gone");
    assert_eq!(waiter.join().unwrap(), Arrival::Lost(vec![1]));
    assert_eq!(segment.status(1), Some((ErrorCode::RankLost, "rank 1 is gone".to_owned())));
    // One that had come before it was lost is not missed.
    let segment = self::segment(2);
    segment.arrive(1, 1);
    segment.lose(1, ErrorCode::RankLost, "rank 1 is gone");
    segment.arrive(0, 1);
    assert_eq!(segment.wait(0, 1, None, Instant::now()), Arrival::All);
}

#[test]
fn a_rank_that_stops_in_a_barrier_wakes_the_ranks_that_wait_there() {
    let segment = segment(3);
    segment.arrive(0, 1);
    segment.arrive(1, 1);
    segment.lose(1, ErrorCode::Aborted, "rank 1 aborted the communicator");
    let later = Instant::now() + Duration::from_secs(20);
    assert_eq!(segment.wait(0, 1, None, later), Arrival::Lost(vec![1]));
    // Whoever comes now does not begin what the others gave up.
    segment.arrive(2, 1);
    assert_eq!(segment.wait(2, 1, None, later), Arrival::Lost(vec![1]));
    assert_eq!(segment.wait(0, 1, None, later), Arrival::Lost(vec![1]));
}

#[test]
fn a_rank_that_stops_once_everybody_came_takes_part() {
    let segment = segment(2);
    let later = Instant::now() + Duration::from_secs(20);
    segment.arrive(0, 1);
    segment.arrive(1, 1);
    for code in [ErrorCode::Revoked, ErrorCode::Aborted] {
        segment.lose(0, code, "rank 0 stopped");
        for rank in 0..2 {
            assert_eq!(segment.wait(rank, 1, None, later), Arrival::All);
        }
    }
    // Rank 0 is known to have aborted and still moves bytes: rank 1 waits for it, as long as it waits for anyone.
    assert_eq!(segment.settle(1, 2, true, Instant::now()), Arrival::Missing(vec![0]));
}

#[test]
fn ranks_that_give_up_at_the_deadline_all_blame_the_one_that_did_not_come() {
    let segment = segment(3);
    segment.arrive(0, 1);
    segment.arrive(1, 1);
    assert_eq!(segment.wait(0, 1, None, Instant::now()), Arrival::Missing(vec![2]));
    segment.lose(0, ErrorCode::TimeoutWaitingForCollective, "rank 0 waited 0 ms");
    assert_eq!(segment.wait(1, 1, None, Instant::now()), Arrival::Missing(vec![2]));
}

#[test]
fn a_rank_that_revoked_is_waited_for_until_the_deadline() {
    let segment = segment(2);
    segment.arrive(0, 1);
    segment.lose(0, ErrorCode::Revoked, "rank 0 revoked the communicator");
    let later = Instant::now() + Duration::from_secs(20);
    assert_eq!(segment.wait(0, 1, None, later), Arrival::Lost(vec![0]));
    segment.arrive(1, 1);
    assert_eq!(segment.wait(1, 1, None, Instant::now()), Arrival::Missing(vec![0]));
}

#[test]
fn whoever_moves_bytes_is_waited_for_whatever_became_of_the_others() {
    let segment = segment(3);
    let later = Instant::now() + Duration::from_secs(20);
    for rank in 0..3 {
        segment.arrive(rank, 1);
    }
    // Rank 2 dies, rank 1 aborts; both were moving bytes, and rank 1 still does.
    segment.lose(1, ErrorCode::Aborted, "rank 1 aborted the communicator");
    let waiter = {
        let segment = Arc::clone(&segment);
        std::thread::spawn(move || segment.settle(0, 2, true, later))
    };
    segment.lose(2, ErrorCode::RankLost, "rank 2 is gone");
    assert_eq!(segment.settle(1, 2, true, later), Arrival::Lost(vec![2]));
    assert_eq!(waiter.join().unwrap(), Arrival::Lost(vec![2]));
    assert_eq!(segment.block(1).progress.load(Ordering::Acquire), 2);
}

#[test]
fn a_rank_that_aborted_and_then_died_is_not_waited_for() {
    let segment = segment(2);
    segment.lose(1, ErrorCode::Aborted, "rank 1 aborted the communicator");
    segment.lose(1, ErrorCode::RankLost, "rank 1 is gone");
    let later = Instant::now() + Duration::from_secs(20);
    assert_eq!(segment.settle(0, 1, true, later), Arrival::Lost(vec![1]));
    assert_eq!(segment.status(1).unwrap().0, ErrorCode::Aborted, "the first reason stays");
}

#[test]
fn a_failed_move_fails_the_operation_for_everybody_once_all_are_done() {
    let segment = segment(3);
    let later = Instant::now() + Duration::from_secs(20);
    let waiters = [(0, false), (1, true)].map(|(rank, moved)| {
        let segment = Arc::clone(&segment);
        std::thread::spawn(move || {
            let arrival = segment.settle(rank, 1, moved, later);
            // Nobody leaves before rank 2 has come.
            assert_eq!(segment.block(2).progress.load(Ordering::Acquire), 1);
            if !moved {
                segment.lose(rank, ErrorCode::System, "cannot map");
            }
            arrival
        })
    });
    assert_eq!(segment.settle(2, 1, true, later), Arrival::Lost(vec![0]));
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), Arrival::Lost(vec![0]));
    }
}
