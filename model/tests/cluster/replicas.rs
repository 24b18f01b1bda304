//! Replicas that differ after an optimizer step are a finding, with the line of every rank.

use model::cluster::report::RunFacts;
use protocol::finding::FindingKind;
use protocol::ids::{Rank, Sequence, SiteId};
use protocol::message::ToCoordinator;
use protocol::record::HoldingRecord;
use protocol::site::CallSite;

use crate::harness::World;

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
