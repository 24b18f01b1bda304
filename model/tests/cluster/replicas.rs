//! Replicas that differ after an optimizer step are a finding, with the line of every rank.

use model::cluster::report::RunFacts;
use protocol::datatype::Operation;
use protocol::finding::FindingKind;
use protocol::ids::{Rank, Sequence, SiteId};
use protocol::message::ToCoordinator;
use protocol::record::{ErrorCode, HoldingRecord};
use protocol::site::CallSite;

use crate::harness::{World, failure};

fn holds(world: &mut World, rank: u32, step: u64, hashes: &[u64]) {
    let names = ["parameter 0.weight", "parameter 0.bias"].map(str::to_owned).to_vec();
    let message = ToCoordinator::Holds(HoldingRecord {
        rank: Rank(rank),
        group: vec![Rank(0), Rank(1), Rank(2)],
        step,
        site: SiteId(1),
        names: if step == 1 { names } else { Vec::new() },
        hashes: hashes.to_vec(),
        is_continued: false,
    });
    let site = CallSite::new(format!("/repository/rank{rank}.py"), 31, "train".to_owned());
    world.say(u64::from(rank), ToCoordinator::Site { id: SiteId(1), site });
    assert!(world.say(u64::from(rank), message).is_empty());
}

#[test]
fn the_step_the_tensor_and_the_ranks_are_named() {
    let mut world = World::formed(None, 3, 10);
    for rank in [2, 0, 1] {
        holds(&mut world, rank, 1, &[5, 6]);
    }
    let before = world.cluster.revision();
    for rank in [2, 1, 0] {
        holds(&mut world, rank, 2, &[if rank == 1 { 4 } else { 5 }, u64::from(rank)]);
    }
    assert!(world.cluster.revision() > before, "the report has changed");
    let facts = RunFacts { transport: "unix".into(), source_root: Some("/repository".into()), ..RunFacts::default() };
    let report = world.cluster.report(&facts);
    let compared = &report.measured.replicas;
    assert_eq!((compared.len(), compared[0].steps, compared[0].tensors.len()), (1, 2, 2));
    let findings = report.findings;
    assert_eq!(findings.len(), 1);
    let found = &findings[0];
    assert_eq!(
        (found.index, found.kind, found.comm_id, found.seqno),
        (1, FindingKind::ReplicasDiffer, None, Sequence(0))
    );
    assert_eq!(
        found.sentence,
        "after optimizer step 2, rank 1 does not have what ranks 0 and 2 have: parameter 0.weight and 1 more tensor"
    );
    assert_eq!((&found.ranks, &found.observed_ranks), (&vec![Rank(1)], &Vec::new()));
    let lines: Vec<_> = found.sites.iter().map(|site| (site.rank.0, site.file.as_str(), site.line)).collect();
    assert_eq!(lines, [(0, "rank0.py", 31), (1, "rank1.py", 31), (2, "rank2.py", 31)]);
    assert_eq!(found.sites[0].operation, "optimizer.step");
}

/// What comes first in the report need not have been first.
#[test]
fn findings_have_their_times() {
    let mut world = World::formed(None, 3, 10);
    world.now_us = 40;
    for rank in 0..3 {
        holds(&mut world, rank, 1, &[u64::from(rank == 1), 6]);
    }
    world.now_us = 70;
    let culprit = failure(Operation::AllReduce, 1, 0, ErrorCode::CountMismatch, &[1], 8);
    world.say(0, ToCoordinator::Failed { failure: culprit });
    world.now_us = 90;
    let other = failure(Operation::AllReduce, 1, 1, ErrorCode::CountMismatch, &[1], 8);
    world.say(1, ToCoordinator::Failed { failure: other });
    let facts = RunFacts { monotonic_zero_us: Some(1000), ..RunFacts::default() };
    let report = world.cluster.report(&facts);
    let kinds: Vec<FindingKind> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [FindingKind::CountMismatch, FindingKind::ReplicasDiffer]);
    let times: Vec<_> = report.measured.findings.iter().map(|time| (time.index, time.made_at_us)).collect();
    assert_eq!(times, [(1, 1070), (2, 1040)]);
    assert_eq!(world.report().measured.findings, [], "without a clock there are no times");
}
