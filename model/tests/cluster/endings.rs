//! Ranks whose process ended before they joined: who hears of it, when, and what a hang's sentence says of them.

use model::exchange::{ConnectionId, Input, Output};
use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, SiteId};
use protocol::message::{Member, ToCoordinator, ToRank};
use protocol::record::{ErrorCode, OperationRecord};
use protocol::site::CallSite;

use crate::hang::{activity, all_reduce};
use crate::harness::{World, failure, member, plan, record};

/// Processes 0 to `size` - 1 without those of `absent`, joined as the ranks of a launch of `size`.
fn launch(size: u32, absent: &[u32]) -> World {
    let mut world = World::new(Some(plan(2, 2)), 8);
    for rank in (0..size).filter(|rank| !absent.contains(rank)) {
        world.join_as(u64::from(rank), rank, size);
    }
    world
}

fn ended(world: &mut World, rank: u32, how: &str) -> Vec<Output> {
    world.step(Input::RankEnded { rank: Rank(rank), pid: 100 + rank, how: how.to_owned() })
}

/// Processes that were notified of a failed request, with code and detail.
fn notified(outputs: &[Output]) -> Vec<(u64, ErrorCode, &str)> {
    let failed = |output| match output {
        &Output::Send { connection, message: ToRank::RequestFailed { code, ref detail, .. } } => {
            Some((connection.0, code, detail.as_str()))
        }
        _ => None,
    };
    outputs.iter().filter_map(failed).collect()
}

#[test]
fn ranks_that_wait_for_an_ended_rank_fail_at_once_and_later_ones_too() {
    let mut world = launch(4, &[1]);
    world.init(0, 7, 4, 0, 0);
    world.init(2, 7, 4, 2, 2);
    let detail = "rank 1 (node0) was killed by SIGKILL without joining the communicator";
    assert_eq!(ended(&mut world, 1, "was killed by SIGKILL"), [], "rank 3 may bring two ranks");
    let of = |rank| (rank, ErrorCode::RankLost, detail);
    assert_eq!(notified(&world.init(3, 7, 4, 3, 3)), [of(0), of(2), of(3)]);
    let failures = &world.report().resilience.failure_events;
    assert_eq!(failures.len(), 1);
    assert_eq!((&failures[0].culprits[..], failures[0].observed_ranks.len()), (&[Rank(1)][..], 3));
}

#[test]
fn a_rank_that_joins_after_another_ended_does_not_wait_for_it() {
    let mut world = launch(2, &[1]);
    assert_eq!(ended(&mut world, 1, "ended with exit code 0"), []);
    let detail = "rank 1 (node0) ended with exit code 0 without joining the communicator";
    assert_eq!(notified(&world.init(0, 7, 2, 0, 0)), [(0, ErrorCode::RankLost, detail)]);
    // Another try is another rendezvous, and as hopeless.
    assert_eq!(notified(&world.init(0, 8, 2, 0, 0)), [(0, ErrorCode::RankLost, detail)]);
}

#[test]
fn what_a_process_that_ended_said_last_is_heard_first() {
    let mut world = launch(2, &[]);
    world.init(0, 7, 2, 0, 0);
    assert_eq!(ended(&mut world, 1, "ended with exit code 7"), [], "its connection is open");
    assert_eq!(world.cluster.connection_of_ended(Rank(1)), Some(ConnectionId(1)));
    // It had come: the communicator formed, and then it was gone.
    let outputs = world.init(1, 7, 2, 1, 1);
    assert!(
        outputs.iter().all(|output| matches!(output, Output::Send { message: ToRank::CommunicatorFormed { .. }, .. }))
    );
    let outputs = world.step(Input::Disconnected { connection: ConnectionId(1), reason: None });
    assert!(matches!(&outputs[..], [Output::Send { message: ToRank::MemberLost { .. }, .. }]), "{outputs:?}");

    let mut world = launch(2, &[]);
    world.init(0, 7, 2, 0, 0);
    ended(&mut world, 1, "ended with exit code 7");
    let outputs = world.step(Input::Disconnected { connection: ConnectionId(1), reason: None });
    let detail = "rank 1 (node0) ended with exit code 7 without joining the communicator";
    assert_eq!(notified(&outputs), [(0, ErrorCode::RankLost, detail)], "it never came");
}

#[test]
fn a_communicator_of_some_waits_as_long_as_enough_could_come() {
    let mut world = launch(4, &[1]);
    world.init(0, 7, 2, 0, 0);
    assert_eq!(ended(&mut world, 1, "ended with exit code 7"), [], "rank 2 or 3 may be meant");
    world.step(Input::Disconnected { connection: ConnectionId(2), reason: None });
    assert_eq!(ended(&mut world, 2, "ended with exit code 0"), []);
    world.step(Input::Disconnected { connection: ConnectionId(3), reason: None });
    assert_eq!(notified(&ended(&mut world, 3, "ended with exit code 0")).len(), 1, "nobody is left");
}

#[test]
fn a_process_may_still_sit_down_for_another_of_its_devices() {
    // Two processes with two devices each.
    let mut world = launch(2, &[1]);
    world.init(0, 7, 4, 0, 0);
    assert_eq!(ended(&mut world, 1, "ended with exit code 7"), []);
    assert_eq!(world.init(0, 7, 4, 1, 1), []);
}

/// Process `process` brings `rank` of 2 on GPU `rank`, and another rank besides.
fn one_of_several(world: &mut World, process: u64, id: u8, rank: u32) -> Vec<Output> {
    let member = Member { is_only: false, ..member(rank, 100 + process as u32) };
    world.say(
        process,
        ToCoordinator::InitCommunicator { request: 1, unique_id: vec![id; 128], size: 2, rank: Rank(rank), member },
    )
}

#[test]
fn a_rank_of_a_communicator_is_not_the_process_of_that_rank() {
    // Each of two processes makes a communicator of its own two GPUs; the other one ends meanwhile.
    for (own, other) in [(0u32, 1), (1, 0)] {
        let mut world = launch(2, &[other]);
        ended(&mut world, other, "ended with exit code 0");
        let process = u64::from(own);
        assert_eq!(one_of_several(&mut world, process, 7, 0), [], "it brings its other rank itself");
        world.now_us = 5_000_000;
        let sentence = world.cluster.diagnose(&[], 1, world.now_us).unwrap().hang.sentence;
        let lost = format!("for its rank 1; rank {other} ended with exit code 0 without joining");
        // Not "for rank 1".
        assert!(sentence.ends_with(&lost), "{sentence}");
        assert_eq!(one_of_several(&mut world, process, 7, 1).len(), 2, "both have their communicator");
    }
    // Process 0 leaves rank 1 out: nobody knows whom that means.
    let mut world = launch(2, &[]);
    one_of_several(&mut world, 0, 7, 0);
    world.now_us = 10_000_000;
    assert_eq!(notified(&world.step(Input::Tick)).len(), 1);
    let report = world.report();
    assert_eq!(report.resilience.failure_events[0].culprits, []);
    assert_eq!(report.findings[0].sentence, "a rank has not arrived in time at the creation of a communicator");
    // What process 0 could not do as GPU 1 is not said of process 1.
    let why = "rank 4 of 3 ranks".to_owned();
    world.say(0, ToCoordinator::JoinFailed { rank: Rank(1), why });
    one_of_several(&mut world, 1, 8, 0);
    world.now_us += 5_000_000;
    let sentence = world.cluster.diagnose(&[], 1, world.now_us).unwrap().hang.sentence;
    assert!(sentence.ends_with("; rank 0 could not join: rank 4 of 3 ranks"), "{sentence}");
}

#[test]
fn a_process_that_is_several_ranks_is_lost_as_one() {
    // Two processes with two GPUs each: ranks 2 and 3 are process 1.
    let mut world = launch(2, &[]);
    for rank in 0..4 {
        let process = u64::from(rank / 2);
        let member = Member { is_only: false, ..member(rank, 100 + process as u32) };
        let (request, unique_id) = (1, vec![7; 128]);
        let rank = Rank(rank);
        world.say(process, ToCoordinator::InitCommunicator { request, unique_id, size: 4, rank, member });
    }
    let noticed = failure(Operation::AllReduce, 1, 0, ErrorCode::RankLost, &[2, 3], 4);
    world.say(0, ToCoordinator::Failed { failure: noticed });
    world.step(Input::Disconnected { connection: ConnectionId(1), reason: None });
    let finding = &world.report().findings[0];
    assert_eq!((&finding.ranks[..], &finding.processes[..]), (&[Rank(2), Rank(3)][..], &[Rank(1)][..]));
    // In a launch of one rank each there is nothing to add.
    let mut world = launch(2, &[]);
    world.communicator(7, &[0, 1]);
    let noticed = failure(Operation::AllReduce, 1, 0, ErrorCode::RankLost, &[1], 4);
    world.say(0, ToCoordinator::Failed { failure: noticed });
    assert_eq!(world.report().findings[0].processes, []);
}

#[test]
fn a_rank_that_is_lost_before_its_communicator_forms_has_its_name_of_the_launch() {
    let mut world = launch(4, &[]);
    world.init(2, 7, 3, 0, 2);
    world.init(3, 7, 3, 1, 3);
    world.step(Input::Disconnected { connection: ConnectionId(3), reason: None });
    let finding = &world.report().findings[0];
    assert_eq!((&finding.ranks[..], &finding.observed_ranks[..]), (&[Rank(3)][..], &[Rank(2)][..]));
    assert_eq!(finding.sentence, "rank 2 waits in the creation of a communicator, for rank 3, which has ended");
}

#[test]
fn a_rank_that_did_its_part_and_ended_has_not_failed_to_call() {
    // torchrun's workers are not the runner's: only their connection says that they ended.
    let mut world = launch(3, &[]);
    world.communicator(7, &[0, 1, 2]);
    let site = CallSite::new("train.py".to_owned(), 8, "step".to_owned());
    for rank in 0..3 {
        world.say(rank, ToCoordinator::Site { id: SiteId(1), site: site.clone() });
        let record = record(Operation::AllReduce, 1, rank as u32, 4);
        world.done(rank, OperationRecord { site: SiteId(1), ..record });
    }
    let leave = |rank| ToCoordinator::LeaveCommunicator { communicator: CommunicatorId(1), rank, aborted: None };
    world.say(2, leave(Rank(2)));
    world.say(2, ToCoordinator::Goodbye);
    world.init(0, 8, 3, 0, 0);
    world.init(1, 8, 3, 1, 1);
    world.now_us = 5_000_000;
    let sentence = |world: &World| world.cluster.diagnose(&[], 1, world.now_us).unwrap().hang.sentence;
    let expected = "ranks 0 and 1 wait in ncclCommInitRank, a communicator of 3 ranks, for rank 2; rank 2 has ended; the last \
                    that it completed is all_reduce, collective 1 of communicator 1";
    assert_eq!(sentence(&world), expected);
    world.step(Input::Disconnected { connection: ConnectionId(2), reason: None });
    assert_eq!(sentence(&world), expected);
    // In its old communicator it has left.
    let mut world = World::formed(None, 2, 8);
    world.say(1, leave(Rank(1)));
    world.say(1, ToCoordinator::Goodbye);
    world.step(Input::Disconnected { connection: ConnectionId(1), reason: None });
    let waits = activity(1, 0, vec![all_reduce(1)], 0);
    let found = world.cluster.diagnose(&[waits], 1, 5_000_000).unwrap().hang.sentence;
    assert!(found.ends_with("for rank 1; rank 1 has ended"), "{found}");
}

#[test]
fn a_rank_that_is_restarted_is_not_missing() {
    let mut world = launch(2, &[1]);
    ended(&mut world, 1, "ended with exit code 0");
    world.join_as(5, 1, 2);
    assert_eq!(world.init(0, 7, 2, 0, 0), [], "another process plays it");
    assert_eq!(world.init(5, 7, 2, 1, 1).len(), 2);
}

#[test]
fn the_sentence_of_a_hang_says_why_a_rank_did_not_join() {
    // A grow of a communicator of one: the new rank is not known by name, what happened to ranks of the launch is.
    let mut world = launch(4, &[3]);
    world.communicator(1, &[0, 1]);
    world.init(2, 7, 2, 0, 2);
    world.now_us = 5_000_000;
    let sentence = |world: &World| world.cluster.diagnose(&[], 1, world.now_us).unwrap().hang.sentence;
    let waits = "rank 2 waits in ncclCommInitRank, a communicator of 2 ranks, for its rank 1";
    assert_eq!(sentence(&world), waits);
    ended(&mut world, 3, "ended with exit code 0");
    assert_eq!(sentence(&world), format!("{waits}; rank 3 ended with exit code 0 without joining"));

    // Fewer ranks than the cluster has devices; and a communicator of some of them.
    for (size, name) in [(3, "rank 2"), (2, "its rank 1")] {
        let mut world = launch(3, &[]);
        world.init(0, 7, size, 0, 0);
        world.say(2, ToCoordinator::JoinFailed { rank: Rank(2), why: "rank 4 of 3 ranks".to_owned() });
        world.now_us = 5_000_000;
        let (found, end) = (sentence(&world), "rank 2 could not join: rank 4 of 3 ranks");
        assert!(found.contains(name) && found.ends_with(end), "{found}");
    }

    let mut world = launch(4, &[]);
    (0..3).for_each(|rank| drop(world.init(u64::from(rank), 7, 4, rank, rank)));
    world.say(3, ToCoordinator::JoinFailed { rank: Rank(3), why: "rank 4 of 4 ranks".to_owned() });
    world.now_us = 5_000_000;
    assert!(sentence(&world).ends_with("for rank 3; rank 3 could not join: rank 4 of 4 ranks"), "{}", sentence(&world));
    // What the coordinator refused itself it knows as well; and a try that succeeds is the last word.
    let member = member(3, 103);
    let refused = ToCoordinator::InitCommunicator { request: 2, unique_id: vec![9], size: 4, rank: Rank(3), member };
    world.say(3, refused);
    assert!(sentence(&world).ends_with("rank 3 could not join: a unique id has 128 bytes, not 1"));
    world.init(3, 8, 1, 0, 3);
    assert!(sentence(&world).ends_with("rank 3 is in no NCCL call"), "{}", sentence(&world));
}

#[test]
fn what_a_dead_process_completed_is_booked_once() {
    let mut world = World::formed(Some(plan(2, 2)), 4, 8);
    world.collective(Operation::AllReduce, 1, 3, 4);
    let connection = ConnectionId(3);
    let of = |sequence| record(Operation::AllReduce, sequence, 3, 4);
    world.done(3, of(1));
    // The first was reported before it died; the others are of ranks and communicators that it is not in.
    let elsewhere = OperationRecord { communicator: CommunicatorId(9), ..of(2) };
    let records = vec![of(1), of(2), record(Operation::AllReduce, 3, 0, 4), elsewhere];
    assert_eq!(world.step(Input::LeftBehind { connection, records }), []);
    let report = world.report();
    assert_eq!(report.ranks.iter().map(|rank| rank.collective_calls).collect::<Vec<_>>(), [1, 1, 1, 2]);
    assert_eq!(report.collectives["all_reduce"].calls, 2);
}

/// Nothing comes from the second node any more: the others are told where that is, and the report blames all ranks there, whichever
/// was noticed first.
#[test]
fn a_host_that_cannot_be_reached_is_lost_with_all_its_ranks() {
    let mut world = launch(4, &[]);
    (0..4).for_each(|rank| drop(world.init(rank, 7, 4, rank as u32, rank as u32)));
    let noticed = failure(Operation::AllReduce, 5, 0, ErrorCode::Unreachable, &[2], 4);
    world.say(0, ToCoordinator::Failed { failure: noticed });
    let outputs = world.step(Input::Unreachable { connection: ConnectionId(3) });
    let lost = |output| match output {
        &Output::Send { connection, message: ToRank::MemberLost { rank, code, ref detail, .. } } => {
            Some((connection.0, rank, code, detail.as_str()))
        }
        _ => None,
    };
    let told: Vec<_> = outputs.iter().filter_map(lost).collect();
    let detail = "rank 3 (pid 103, node1) cannot be reached: nothing came from its host for 10 s";
    assert_eq!(told, [0, 1, 2].map(|process| (process, Rank(3), ErrorCode::Unreachable, detail)));
    let report = world.report();
    let [event] = &report.resilience.failure_events[..] else { panic!("{:?}", report.resilience) };
    assert_eq!((event.error_code, &event.culprits[..]), (ErrorCode::Unreachable, &[Rank(2), Rank(3)][..]));
    let sentence = "rank 0 waits in all_reduce, collective 5 of communicator 1, for ranks 2 and 3 on node1, which cannot be reached";
    assert_eq!(report.findings[0].sentence, sentence);
}

/// Rank 2 noticed that nothing comes from the other node, before that one noticed anything, and everybody was told: two hosts that live
/// do not reach each other.
#[test]
fn a_cut_between_two_hosts_blames_both_whoever_noticed_first() {
    for (witness, named) in [(2, 0), (1, 3)] {
        let mut world = launch(4, &[]);
        (0..4).for_each(|rank| drop(world.init(rank, 7, 4, rank as u32, rank as u32)));
        let noticed = failure(Operation::AllReduce, 5, witness, ErrorCode::Unreachable, &[named], 4);
        world.say(witness.into(), ToCoordinator::Failed { failure: noticed });
        for told in (0..4).filter(|rank| *rank != witness) {
            let failure = failure(Operation::AllReduce, 5, told, ErrorCode::Unreachable, &[], 4);
            world.say(told.into(), ToCoordinator::Failed { failure });
        }
        let sentence = "node0 and node1 cannot reach each other: ranks 0, 1, 2 and 3 wait in all_reduce, collective 5 of communicator 1";
        assert_eq!(world.report().findings[0].sentence, sentence);
    }
}
