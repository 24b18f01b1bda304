//! Orders that can deadlock are found in runs that got through, and orders that cannot are not.

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::datatype::Operation;
use protocol::finding::FindingKind;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::record::{Issue, OperationRecord};
use protocol::report::Finding;

use crate::harness::{World, failure, record};

/// What one rank reports, in the order in which it issued it. A word of its program is what it issues at once: `a` is a collective of
/// communicator a, `a>1` a send to global rank 1, `a<1` a recv from it, `a+b` a group.
fn reports(rank: u32, program: &str, communicators: &[&[u32]]) -> Vec<OperationRecord> {
    let mut positions: BTreeMap<(usize, Operation, u32), u64> = BTreeMap::new();
    let mut records = Vec::new();
    for (place, group) in (1..).zip(program.split_whitespace()) {
        let calls: Vec<&str> = group.split('+').collect();
        for call in &calls {
            let index = (call.as_bytes()[0] - b'a') as usize;
            let local = |global: u32| communicators[index].iter().position(|member| *member == global).unwrap() as u32;
            let (operation, peer) = match call[1..].split_at_checked(1) {
                Some((">", peer)) => (Operation::Send, Some(local(peer.parse().unwrap()))),
                Some(("<", peer)) => (Operation::Recv, Some(local(peer.parse().unwrap()))),
                _ => (Operation::AllReduce, None),
            };
            let position = positions.entry((index, operation, peer.unwrap_or(u32::MAX))).or_default();
            *position += 1;
            records.push(OperationRecord {
                communicator: CommunicatorId(index as u64 + 1),
                peer: peer.map(Rank),
                issue: Issue { place, together: calls.len() as u32, thread: 1 },
                ..record(operation, *position, local(rank), 4)
            });
        }
    }
    records
}

fn world(communicators: &[&[u32]], size: u32) -> World {
    let mut world = World::new(None, 10);
    (0..size).for_each(|process| drop(world.join(process.into())));
    for (id, members) in (0..).zip(communicators) {
        world.communicator(id, members);
    }
    world
}

/// The findings after all ranks reported everything: each in the order of its program, in turn or one rank after the other, or the
/// other way round.
fn found(communicators: &[&[u32]], programs: &[&str]) -> Vec<Finding> {
    let queues: Vec<Vec<OperationRecord>> =
        (0..).zip(programs).map(|(rank, program)| reports(rank, program, communicators)).collect();
    let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
    let one_by_one: Vec<(usize, usize)> =
        (0..queues.len()).flat_map(|rank| (0..queues[rank].len()).map(move |at| (rank, at))).collect();
    let in_turn: Vec<(usize, usize)> = (0..longest)
        .flat_map(|at| (0..queues.len()).map(move |rank| (rank, at)))
        .filter(|(rank, at)| *at < queues[*rank].len())
        .collect();
    let backwards: Vec<(usize, usize)> = in_turn.iter().rev().copied().collect();
    let [first, second, third] = [one_by_one, in_turn, backwards].map(|order| {
        let mut world = world(communicators, programs.len() as u32);
        for (rank, at) in order {
            world.done(rank as u64, queues[rank][at].clone());
        }
        world.report().findings
    });
    assert_eq!((&first, &first), (&second, &third), "it depends on the order of the reports: {programs:?}");
    first
}

const PAIR: &[&[u32]] = &[&[0, 1], &[0, 1]];

#[test]
fn cycles_by_table() {
    use FindingKind::{OrderCycle, SendCycle};
    let circle: &[&[u32]] = &[&[0, 1], &[1, 2], &[0, 2]];
    let all: &[&[u32]] = &[&[0, 1, 2]];
    for (communicators, programs, kind, ranks, sentence) in [
        (
            PAIR,
            &["a b", "b a"][..],
            OrderCycle,
            &[0, 1][..],
            "rank 0 calls all_reduce 1 of communicator 1 before all_reduce 1 of communicator 2, and rank 1 calls all_reduce 1 of \
             communicator 2 before all_reduce 1 of communicator 1",
        ),
        // With others between them.
        (
            PAIR,
            &["a a a b", "a a b a"],
            OrderCycle,
            &[0, 1],
            "rank 0 calls all_reduce 3 of communicator 1 before all_reduce 1 of communicator 2, and rank 1 calls all_reduce 1 of \
             communicator 2 before all_reduce 3 of communicator 1",
        ),
        // No two ranks disagree, the three do.
        (
            circle,
            &["a c", "b a", "c b"],
            OrderCycle,
            &[0, 1, 2],
            "rank 0 calls all_reduce 1 of communicator 1 before all_reduce 1 of communicator 2, rank 2 calls all_reduce 1 of \
             communicator 2 before all_reduce 1 of communicator 3, and rank 1 calls all_reduce 1 of communicator 3 before \
             all_reduce 1 of communicator 1",
        ),
        // A send of one communicator, a collective of another.
        (
            PAIR,
            &["a>1 b", "b a<0"],
            OrderCycle,
            &[0, 1],
            "rank 0 calls send 1 to rank 1 of communicator 1 before all_reduce 1 of communicator 2, and rank 1 calls all_reduce 1 \
             of communicator 2 before recv 1 from rank 0 of communicator 1",
        ),
        (
            PAIR,
            &["a>1 a<1", "a>0 a<0"],
            SendCycle,
            &[0, 1],
            "in communicator 1, rank 0 calls send 1 to rank 1 before recv 1 from rank 1, and rank 1 calls send 1 to rank 0 before \
             recv 1 from rank 0",
        ),
        // 1F1B without batches: the second forward waits for a rank that sends a gradient.
        (
            PAIR,
            &["a>1 a>1 a<1 a<1", "a<0 a>0 a<0 a>0"],
            SendCycle,
            &[0, 1],
            "in communicator 1, rank 0 calls send 2 to rank 1 before recv 1 from rank 1, and rank 1 calls send 1 to rank 0 before \
             recv 2 from rank 0",
        ),
        (
            PAIR,
            &["a>1 a", "a a<0"],
            SendCycle,
            &[0, 1],
            "in communicator 1, rank 1 calls all_reduce 1 before recv 1 from rank 0, and rank 0 calls send 1 to rank 1 before \
             all_reduce 1",
        ),
        (
            all,
            &["a>1 a<2", "a>2 a<0", "a>0 a<1"],
            SendCycle,
            &[0, 1, 2],
            "in communicator 1, rank 0 calls send 1 to rank 1 before recv 1 from rank 2, rank 2 calls send 1 to rank 0 before recv 1 \
             from rank 1, and rank 1 calls send 1 to rank 2 before recv 1 from rank 0",
        ),
        (
            all,
            &["a>0 a<0", "", ""],
            SendCycle,
            &[0],
            "in communicator 1, rank 0 calls send 1 to rank 0 before recv 1 from rank 0",
        ),
    ] {
        let found = found(communicators, programs);
        let [finding] = &found[..] else { panic!("{programs:?}: {found:?}") };
        let at: Vec<u32> = finding.ranks.iter().map(|rank| rank.0).collect();
        assert_eq!((finding.kind, &at[..], finding.sentence.as_str()), (kind, ranks, sentence));
    }
}

#[test]
fn orders_that_cannot_deadlock_are_no_findings() {
    let circle: &[&[u32]] = &[&[0, 1], &[1, 2], &[0, 2]];
    // Tensor, pipeline and data parallel: pairs of neighbors, pairs across, and pairs of pairs.
    let mesh: &[&[u32]] =
        &[&[0, 1], &[2, 3], &[4, 5], &[6, 7], &[0, 2], &[1, 3], &[4, 6], &[5, 7], &[0, 4], &[1, 5], &[2, 6], &[3, 7]];
    let programs: [&[&str]; 9] = [
        &["a b a b", "a b a b"],
        // In a group there is no order, on either side.
        &["a+b", "b+a"],
        &["a+b", "b a"],
        &["a>1+a<1", "a>0+a<0"],
        &["a>1 a<1", "a<0 a>0"],
        // 1F1B as Megatron has it: a forward and a backward travel together.
        &["a>1 a>1+a<1 a<1", "a<0 a>0+a<0 a>0"],
        // Fill and drain.
        &["a>1 a>1 a<1 a<1", "a<0 a<0 a>0 a>0"],
        &["a+b", "a+b"],
        &["a a b b", "a a b b"],
    ];
    for programs in programs {
        assert_eq!(found(PAIR, programs), [], "{programs:?}");
    }
    assert_eq!(found(circle, &["a c", "a b", "c b"]), []);
    // Two stages: tensor parallel on both sides, an activation, its gradient, then the data parallel reduction, of which the
    // last stage begins while the first is still in its backward pass.
    assert_eq!(
        found(
            mesh,
            &[
                "a a e>2 e<2 a i",
                "a a f>3 f<3 a j",
                "e<0 b b k e>0 b",
                "f<1 b b l f>1 b",
                "c c g>6 g<6 c i",
                "c c h>7 h<7 c j",
                "g<4 d d k g>4 d",
                "h<5 d d l h>5 d",
            ]
        ),
        []
    );
}

#[test]
fn cycles_that_share_a_rank_are_findings_of_their_own() {
    let line: &[&[u32]] = &[&[0, 1, 2]];
    let found = found(line, &["a>1 a<1", "a>0 a>2 a<0 a<2", "a>1 a<1"]);
    let ranks: Vec<Vec<u32>> = found.iter().map(|finding| finding.ranks.iter().map(|rank| rank.0).collect()).collect();
    assert_eq!(ranks, [[0, 1], [1, 2]]);
}

#[test]
fn a_cycle_in_a_loop_is_one_finding() {
    let (one, other) = ("a b ".repeat(100), "b a ".repeat(100));
    let found = found(PAIR, &[&one, &other]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].comm_id, found[0].seqno), (Some(CommunicatorId(1)), Sequence(1)));
}

/// An operation that takes as long as the run does must not let the coordinator keep all others.
#[test]
fn a_cycle_behind_more_than_is_kept_is_found() {
    const MANY: usize = 30_000;
    let programs =
        ["a ", "b "].map(|last| format!("c {}{last}{}", "a ".repeat(MANY), if last == "a " { "b" } else { "a" }));
    let communicators: &[&[u32]] = &[&[0, 1], &[0, 1], &[0, 1]];
    let [first, second] = [0, 1].map(|rank| reports(rank, &programs[rank as usize], communicators));
    let mut world = world(communicators, 2);
    for (one, other) in first.into_iter().zip(second).skip(1) {
        world.done(0, one);
        world.done(1, other);
    }
    let kinds: Vec<FindingKind> = world.report().findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::OrderCycle]);
}

/// What failed is reported by nobody, and what was issued later is still compared.
#[test]
fn failed_operations_do_not_end_the_comparison() {
    let communicators: &[&[u32]] = &[&[0, 1], &[0, 1], &[0, 1]];
    let mut world = world(communicators, 2);
    for rank in 0..2 {
        let failed = failure(Operation::AllReduce, 1, rank, protocol::record::ErrorCode::Aborted, &[], 16);
        world.say(rank.into(), protocol::message::ToCoordinator::Failed { failure: failed });
    }
    for (rank, program) in [(0, "a b c"), (1, "a c b")] {
        for record in reports(rank, program, communicators).into_iter().skip(1) {
            world.done(rank.into(), record);
        }
    }
    assert_eq!(
        world.report().findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
        [FindingKind::OrderCycle]
    );
}

/// Operations of four ranks in one order that all of them keep, each with the communicator (0 is of all, the others of two) or the two ends
/// of a transfer.
fn workload() -> impl Strategy<Value = Vec<(usize, Option<(u32, u32)>)>> {
    let transfer = (0..4_u32, 1..4_u32).prop_map(|(from, by)| (0, Some((from, (from + by) % 4))));
    prop::collection::vec(prop_oneof![(0..7_usize).prop_map(|communicator| (communicator, None)), transfer], 1..60)
}

const GROUPS: &[&[u32]] = &[&[0, 1, 2, 3], &[0, 1], &[2, 3], &[0, 2], &[1, 3], &[0, 3], &[1, 2]];

fn programs_of(workload: &[(usize, Option<(u32, u32)>)]) -> Vec<Vec<String>> {
    let letter = |communicator: usize| char::from(b'a' + communicator as u8);
    let of_rank = |rank: u32| {
        let word = |(communicator, transfer): &(usize, Option<(u32, u32)>)| match transfer {
            Some((from, to)) if *from == rank => Some(format!("{}>{to}", letter(*communicator))),
            Some((from, to)) if *to == rank => Some(format!("{}<{from}", letter(*communicator))),
            Some(_) => None,
            None => GROUPS[*communicator].contains(&rank).then(|| letter(*communicator).to_string()),
        };
        workload.iter().filter_map(word).collect()
    };
    (0..4).map(of_rank).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn one_order_that_all_ranks_keep_is_no_finding(workload in workload(), seed in any::<u64>()) {
        let programs: Vec<String> = programs_of(&workload).into_iter().map(|words| words.join(" ")).collect();
        let mut world = world(GROUPS, 4);
        let mut queues: Vec<Vec<OperationRecord>> =
            (0..4).map(|rank| reports(rank, &programs[rank as usize], GROUPS)).collect();
        let mut state = seed | 1;
        while queues.iter().any(|queue| !queue.is_empty()) {
            // Any rank, and any of its operations: completion has an order of its own.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let rank = (state >> 33) as usize % 4;
            if queues[rank].is_empty() {
                continue;
            }
            let at = (state >> 40) as usize % queues[rank].len().min(5);
            let record = queues[rank].remove(at);
            world.done(rank as u64, record);
        }
        prop_assert_eq!(world.report().findings, []);
    }

    /// Whoever exchanges two operations in a row that have another rank in common as well is found.
    #[test]
    fn an_exchange_on_one_rank_is_found(workload in workload(), at in any::<prop::sample::Index>()) {
        let mut programs = programs_of(&workload);
        let others = |word: &str| -> Vec<u32> {
            match word[1..].split_at_checked(1) {
                Some((_, peer)) => vec![peer.parse().unwrap()],
                None => GROUPS[(word.as_bytes()[0] - b'a') as usize].iter().copied().filter(|rank| *rank != 0).collect(),
            }
        };
        let words = &mut programs[0];
        let candidates: Vec<usize> = (1..words.len())
            .filter(|at| words[*at] != words[at - 1] && others(&words[*at]).iter().any(|rank| others(&words[at - 1]).contains(rank)))
            .collect();
        prop_assume!(!candidates.is_empty());
        let at = candidates[at.index(candidates.len())];
        words.swap(at - 1, at);
        let programs: Vec<String> = programs.into_iter().map(|words| words.join(" ")).collect();
        let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
        prop_assert_eq!(found(GROUPS, &programs).len(), 1);
    }
}
