//! What ranks say they are in, and the sentence that comes of it.

use model::exchange::{ConnectionId, Input};
use protocol::activity::{Activation, Activity};
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::message::{Member, ToCoordinator};
use protocol::site::{self, CallSite};

use crate::harness::{World, member, plan};

const SECOND: u64 = 1_000_000;

pub(crate) fn all_reduce(sequence: u64) -> Activation {
    Activation {
        sequence: Sequence(sequence),
        operation: Operation::AllReduce,
        count: 4,
        datatype: Datatype::Float32,
        reduction_op: Some(ReductionOp::Sum),
        root: None,
        peer: None,
        age_us: 5 * SECOND,
        took_us: None,
        site: SiteId::default(),
    }
}

fn send(peer: u32) -> Activation {
    let (operation, peer) = (Operation::Send, Some(Rank(peer)));
    Activation { sequence: Sequence(0), operation, reduction_op: None, peer, ..all_reduce(0) }
}

fn recv(peer: u32) -> Activation {
    Activation { operation: Operation::Recv, ..send(peer) }
}

pub(crate) fn activity(communicator: u64, rank: u32, current: Vec<Activation>, done: u64) -> Activity {
    let recent = (1..=done).map(|sequence| Activation { took_us: Some(7), ..all_reduce(sequence) }).collect();
    Activity { communicator: CommunicatorId(communicator), rank: Rank(rank), current, queued: 0, recent }
}

fn sentence(world: &World, activities: &[Activity]) -> String {
    let diagnosis = world.cluster.diagnose(activities, SECOND, world.now_us).expect("somebody waits");
    assert_eq!(diagnosis.waited_us.len(), diagnosis.hang.waits.len());
    diagnosis.hang.sentence
}

#[test]
fn the_rank_that_does_not_come_is_named_with_what_it_did_last() {
    let world = World::formed(Some(plan(2, 2)), 4, 8);
    let mut activities: Vec<Activity> = (0..4).map(|rank| activity(1, rank, vec![all_reduce(2)], 1)).collect();
    activities[2].current.clear();
    assert_eq!(
        sentence(&world, &activities),
        "ranks 0, 1 and 3 wait in all_reduce(count 4, float32, sum), collective 2 of communicator 1, for rank 2; \
         rank 2 is in no NCCL call; the last that it completed there is all_reduce(count 4, float32, sum), collective 1"
    );
    let diagnosis = world.cluster.diagnose(&activities, SECOND, 0).unwrap();
    assert_eq!(diagnosis.hang.missing, [Rank(2)]);
    assert_eq!(diagnosis.hang.waits[1].for_ranks, [Rank(2)]);
    activities[2].queued = 2;
    assert!(sentence(&world, &activities).contains("rank 2 has issued 2 operations that its stream has not reached"));
    activities.remove(2);
    assert!(sentence(&world, &activities).ends_with("rank 2 does not answer"));
}

#[test]
fn nobody_waits_when_all_have_come_or_the_wait_is_short() {
    let world = World::formed(None, 2, 8);
    let together = [activity(1, 0, vec![all_reduce(1)], 0), activity(1, 1, vec![all_reduce(1)], 0)];
    assert_eq!(world.cluster.diagnose(&together, SECOND, 0), None);
    let ahead = [activity(1, 0, vec![all_reduce(1)], 0), activity(1, 1, Vec::new(), 1)];
    assert_eq!(world.cluster.diagnose(&ahead, SECOND, 0), None, "rank 1 came and is done");
    let late = [activity(1, 0, vec![all_reduce(1)], 0), activity(1, 1, Vec::new(), 0)];
    assert!(world.cluster.diagnose(&late, SECOND, 0).is_some());
    assert_eq!(world.cluster.diagnose(&late, 6 * SECOND, 0), None);
}

#[test]
fn a_circle_of_sends_is_shown_as_one() {
    let world = World::formed(None, 3, 8);
    let activities: Vec<Activity> = (0..3).map(|rank| activity(1, rank, vec![send((rank + 1) % 3)], 0)).collect();
    let diagnosis = world.cluster.diagnose(&activities, SECOND, 0).unwrap();
    assert_eq!(diagnosis.hang.cycle, [Rank(0), Rank(1), Rank(2)]);
    assert_eq!(diagnosis.hang.missing, []);
    assert_eq!(
        diagnosis.hang.sentence,
        "rank 0 waits in send(count 4, float32, peer 1), in communicator 1, for rank 1; \
         rank 1 waits in send(count 4, float32, peer 2), in communicator 1, for rank 2; \
         rank 2 waits in send(count 4, float32, peer 0), in communicator 1, for rank 0; \
         each waits for the next: rank 0 -> rank 1 -> rank 2 -> rank 0"
    );
    let met = [activity(1, 0, vec![send(1)], 0), activity(1, 1, vec![recv(0)], 0), activity(1, 2, Vec::new(), 0)];
    assert_eq!(world.cluster.diagnose(&met, SECOND, 0), None);
}

#[test]
fn a_deadlock_over_two_communicators_is_a_circle() {
    let mut world = World::formed(None, 2, 8);
    world.communicator(1, &[0, 1]);
    let activities = [
        activity(1, 0, vec![all_reduce(1)], 0),
        activity(2, 0, Vec::new(), 0),
        activity(1, 1, Vec::new(), 0),
        activity(2, 1, vec![all_reduce(1)], 0),
    ];
    let diagnosis = world.cluster.diagnose(&activities, SECOND, 0).unwrap();
    assert_eq!(diagnosis.hang.cycle, [Rank(0), Rank(1)]);
    assert!(
        diagnosis.hang.sentence.contains("collective 1 of communicator 2, for rank 0"),
        "{}",
        diagnosis.hang.sentence
    );
}

#[test]
fn a_communicator_that_does_not_form_names_the_ranks_that_have_not_called() {
    let mut world = World::new(Some(plan(1, 3)), 8);
    for rank in 0..3 {
        world.join(rank);
    }
    world.init(0, 9, 3, 0, 0);
    world.init(2, 9, 3, 2, 2);
    world.now_us = 2 * SECOND;
    assert_eq!(
        sentence(&world, &[]),
        "ranks 0 and 2 wait in ncclCommInitRank, a communicator of 3 ranks, for rank 1; rank 1 has not called NCCL yet"
    );
}

/// Line `id` of the program of process `process`.
fn define(world: &mut World, process: u64, id: u32) {
    let site = CallSite::new(format!("/repository/rank{process}.py"), id, "step".to_owned());
    world.say(process, ToCoordinator::Site { id: SiteId(id), site });
}

#[test]
fn ranks_that_wait_and_ranks_that_are_missing_have_their_lines() {
    let mut world = World::formed(None, 3, 8);
    for (process, line) in [(0, 31), (1, 32), (2, 29)] {
        define(&mut world, process, line);
    }
    let at = |line: u32, activation: Activation| Activation { site: SiteId(line), ..activation };
    let waits = |rank: u32, line: u32| activity(1, rank, vec![at(line, all_reduce(2))], 1);
    let mut missing = activity(1, 2, Vec::new(), 1);
    missing.recent[0].site = SiteId(29);
    // What ftest itself does there has no place.
    missing.recent.push(Activation { took_us: Some(7), ..all_reduce(2) });
    missing.recent[1].operation = Operation::Barrier;
    missing.recent[1].sequence = Sequence(1);
    let diagnosis = world.cluster.diagnose(&[waits(0, 31), waits(1, 32), missing], SECOND, 0).unwrap();
    assert_eq!(
        site::describe(&diagnosis.hang_below(Some("/repository")).sites),
        [
            "rank 0 called all_reduce at rank0.py:31 (step)",
            "rank 1 called all_reduce at rank1.py:32 (step)",
            "rank 2 got as far as all_reduce 1, called at rank2.py:29 (step)",
        ]
    );
    assert_eq!(diagnosis.hang.sites[2].file, "/repository/rank2.py");
}

#[test]
fn a_rank_that_has_done_nothing_has_the_line_that_asked_for_the_communicator() {
    let mut world = World::new(None, 8);
    for process in 0..2 {
        world.join(process);
        define(&mut world, process, 7);
        let (request, rank) = (1, Rank(process as u32));
        let member = Member { site: SiteId(7), ..member(process as u32, 100 + process as u32) };
        world.say(process, ToCoordinator::InitCommunicator { request, unique_id: vec![5; 128], size: 2, rank, member });
    }
    let activities = [activity(1, 0, vec![all_reduce(1)], 0), activity(1, 1, Vec::new(), 0)];
    let diagnosis = world.cluster.diagnose(&activities, SECOND, 0).unwrap();
    assert_eq!(
        site::describe(&diagnosis.hang.sites),
        ["rank 1 got as far as the communicator, asked for at /repository/rank1.py:7 (step)"]
    );
}

#[test]
fn a_hang_is_in_the_report() {
    let mut world = World::formed(None, 2, 8);
    let activities = [activity(1, 0, vec![all_reduce(1)], 0), activity(1, 1, Vec::new(), 0)];
    assert_eq!(world.report().hang, None);
    let diagnosis = world.cluster.diagnose(&activities, SECOND, 0).unwrap();
    world.cluster.hangs(Some(diagnosis.clone()));
    assert_eq!(world.report().hang, Some(diagnosis.hang));
    assert_eq!(world.report().measured.hang_waits_ms, Some(vec![5000]));
    let revision = world.cluster.revision();
    world.cluster.hangs(None);
    assert_eq!(world.report().hang, None);
    assert!(world.cluster.revision() > revision, "the next standstill is reported again");
    let revision = world.cluster.revision();
    world.cluster.hangs(None);
    assert_eq!(world.cluster.revision(), revision);
}

#[test]
fn ranks_that_wait_to_shrink_or_grow_say_for_whom() {
    let mut world = World::formed(Some(plan(2, 2)), 3, 8);
    let (parent, sequence, request) = (CommunicatorId(1), Sequence(1), 1);
    let (excluded, member) = (vec![Rank(2)], member(0, 100));
    let shrink = ToCoordinator::ShrinkCommunicator {
        request,
        parent,
        sequence,
        rank: Rank(0),
        excluded,
        abort: false,
        member: member.clone(),
    };
    world.say(0, shrink);
    world.now_us = 3 * SECOND;
    let idle: Vec<Activity> = (0..3).map(|rank| activity(1, rank, vec![], 0)).collect();
    assert_eq!(
        sentence(&world, &idle),
        "rank 0 waits in ncclCommShrink, communicator 1 without 2, for rank 1; \
         rank 1 is in no NCCL call and has completed nothing there"
    );
    let mut world = World::formed(Some(plan(2, 2)), 1, 8);
    world.say(0, ToCoordinator::GrowCommunicator { request, parent, sequence, size: 3, rank: Rank(0), member });
    world.now_us = 3 * SECOND;
    let found = sentence(&world, &[activity(1, 0, vec![], 0)]);
    assert_eq!(found, "rank 0 waits in ncclCommGrow, communicator 1 to 3 ranks, for new ranks 1 and 2");
}

/// Whoever ends the case after a hang ends its processes in any order.
#[test]
fn ranks_that_end_after_a_hang_are_no_failure() {
    let events = |hanging: bool| {
        let mut world = World::formed(None, 2, 8);
        if hanging {
            let activities = [activity(1, 0, vec![all_reduce(1)], 0), activity(1, 1, Vec::new(), 0)];
            let diagnosis = world.cluster.diagnose(&activities, SECOND, 0);
            world.cluster.hangs(Some(diagnosis.expect("rank 0 waits")));
        }
        for connection in [1, 0].map(ConnectionId) {
            world.step(Input::Disconnected { connection, reason: None });
        }
        world.report().resilience.failure_events
    };
    assert_eq!(events(true), []);
    let failures = events(false);
    assert_eq!((failures.len(), &failures[0].culprits[..]), (1, &[Rank(1)][..]));
}
