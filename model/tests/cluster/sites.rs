//! Findings have the lines of their ranks: where a rank called what failed, or what it did last.

use model::cluster::report::RunFacts;
use model::exchange::{ConnectionId, Input};
use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, SiteId};
use protocol::message::{Member, ToCoordinator};
use protocol::record::{ErrorCode, FailureRecord, OperationRecord};
use protocol::report::Finding;
use protocol::site::CallSite;

use crate::harness::{World, failure, member, record};

/// Place `id` of the program of process `process`: line `id` of its own file.
fn define(world: &mut World, process: u64, id: u32) {
    let site = CallSite::new(format!("/repository/suites/../rank{process}.py"), id, "step".to_owned());
    world.say(process, ToCoordinator::Site { id: SiteId(id), site });
}

fn findings(world: &World, root: Option<&str>) -> Vec<Finding> {
    let facts = RunFacts { transport: "unix".into(), source_root: root.map(str::to_owned), ..RunFacts::default() };
    world.cluster.report(&facts).findings
}

/// Rank, position, whether it completed, file and line of each place.
fn places(finding: &Finding) -> Vec<(u32, u64, bool, &str, u32)> {
    let place = |site: &protocol::report::FindingSite| (site.rank.0, site.seqno.0, site.completed, site.line);
    let files = finding.sites.iter().map(|site| site.file.as_str());
    finding
        .sites
        .iter()
        .map(place)
        .zip(files)
        .map(|((rank, at, done, line), file)| (rank, at, done, file, line))
        .collect()
}

#[test]
fn every_rank_of_a_mismatch_has_its_own_line() {
    let mut world = World::formed(None, 2, 10);
    for (process, line) in [(0, 31), (1, 29)] {
        define(&mut world, process, line);
        let failure = failure(Operation::AllReduce, 4, process as u32, ErrorCode::CountMismatch, &[1], 16);
        world.say(process, ToCoordinator::Failed { failure: FailureRecord { site: SiteId(line), ..failure } });
    }
    let found = findings(&world, Some("/repository"));
    assert_eq!(places(&found[0]), [(0, 4, false, "rank0.py", 31), (1, 4, false, "rank1.py", 29)]);
    assert_eq!(found[0].sites[0].operation, "all_reduce");
    assert_eq!(found[0].sites[1].function, "step");
    let elsewhere = findings(&world, Some("/repo"));
    assert_eq!(
        elsewhere[0].sites[0].file, "/repository/suites/../rank0.py",
        "a directory whose name only begins alike"
    );
}

#[test]
fn a_rank_that_is_gone_has_the_line_of_what_it_did_last() {
    let mut world = World::formed(None, 3, 10);
    (0..3).for_each(|process| define(&mut world, process, 10));
    (0..3).for_each(|process| define(&mut world, process, 11));
    for sequence in 1..=2 {
        for rank in 0..3 {
            let site = SiteId(9 + sequence as u32);
            world.done(rank.into(), OperationRecord { site, ..record(Operation::AllReduce, sequence, rank, 4) });
        }
    }
    // What ftest itself does in the communicator is not a line of the program.
    (0..3).for_each(|rank| world.done(rank.into(), record(Operation::Barrier, 3, rank, 0)));
    // It had no time to report this one: it is found in what it left behind.
    let last = OperationRecord { site: SiteId(10), ..record(Operation::AllReduce, 4, 1, 4) };
    world.step(Input::LeftBehind { connection: ConnectionId(1), records: vec![last] });
    world.step(Input::Disconnected { connection: ConnectionId(1), reason: None });
    let lost = failure(Operation::AllReduce, 5, 0, ErrorCode::RankLost, &[1], 16);
    world.say(0, ToCoordinator::Failed { failure: FailureRecord { site: SiteId(11), ..lost } });
    let found = findings(&world, Some("/repository"));
    assert_eq!(places(&found[0]), [(0, 5, false, "rank0.py", 11), (1, 4, true, "rank1.py", 10)]);
}

#[test]
fn ranks_that_wait_for_a_communicator_have_the_line_that_asks_for_it() {
    let mut world = World::new(None, 10);
    for process in 0..2 {
        world.join(process);
        define(&mut world, process, 7);
        world.say(
            process,
            ToCoordinator::InitCommunicator {
                request: 1,
                unique_id: vec![5; 128],
                size: 3,
                rank: Rank(process as u32),
                member: Member { site: SiteId(7), ..member(process as u32, 100 + process as u32) },
            },
        );
    }
    world.now_us = 11_000_000;
    world.step(Input::Tick);
    let found = findings(&world, Some("/repository"));
    assert_eq!(places(&found[0]), [(0, 0, false, "rank0.py", 7), (1, 0, false, "rank1.py", 7)]);
    assert_eq!(found[0].sites[0].operation, "init");
}

#[test]
fn numbers_that_mean_nothing_are_no_places() {
    let mut world = World::formed(None, 2, 10);
    define(&mut world, 0, 0);
    define(&mut world, 0, protocol::site::MOST + 1);
    for (process, id) in [(0, protocol::site::MOST + 1), (1, 8)] {
        let failure = failure(Operation::AllReduce, 1, process as u32, ErrorCode::CountMismatch, &[1], 16);
        world.say(process, ToCoordinator::Failed { failure: FailureRecord { site: SiteId(id), ..failure } });
    }
    let found = findings(&world, None);
    assert_eq!((found.len(), found[0].comm_id), (1, Some(CommunicatorId(1))));
    assert_eq!(places(&found[0]), []);
}
