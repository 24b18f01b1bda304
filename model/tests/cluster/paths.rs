//! What ranks measured of their links, and what a timeout says of it.

use model::exchange::Output;
use protocol::ids::{CommunicatorId, Rank};
use protocol::message::ToCoordinator;
use protocol::record::PathRecord;
use protocol::report::MeasuredLink;

use crate::harness::{World, plan};

fn paths(world: &mut World, process: u64, rank: u32, records: &[(u32, u32, u32, u32, bool)]) -> Vec<Output> {
    let record = |&(peer, least_us, round_trip_us, resent, is_late)| PathRecord {
        peer: Rank(peer),
        least_us,
        round_trip_us,
        bytes_per_s: u64::from(least_us) * 10,
        resent,
        is_late,
    };
    let paths = records.iter().map(record).collect();
    world.say(process, ToCoordinator::Paths { communicator: CommunicatorId(1), rank: Rank(rank), paths })
}

#[test]
fn a_link_has_what_the_ranks_at_both_ends_measured() {
    // Ranks 0 and 1 are on node0, ranks 2 and 3 on node1, ranks 4 and 5 on node2.
    let mut world = World::formed(Some(plan(3, 2)), 6, 100);
    assert_eq!(world.report().measured.links, []);
    let revision = world.cluster.revision();
    assert_eq!(paths(&mut world, 0, 0, &[(1, 1, 1, 1, false), (2, 300, 900, 1, false), (4, 70, 80, 0, false)]), []);
    assert_eq!(paths(&mut world, 3, 3, &[(0, 200, 250, 2, true)]), []);
    // Later: faster again, and more was sent again.
    assert_eq!(paths(&mut world, 0, 0, &[(2, 290, 400, 5, false)]), []);
    assert_eq!(world.cluster.revision(), revision, "nothing moved");
    let link = |nodes: [&str; 2], least_round_trip_us, round_trip_us, bytes_per_s, resent_segments, is_late| {
        let nodes = nodes.map(str::to_owned).to_vec();
        MeasuredLink { nodes, least_round_trip_us, round_trip_us, bytes_per_s, resent_segments, is_late }
    };
    let expected = [link(["node0", "node1"], 200, 900, 2900, 7, true), link(["node0", "node2"], 70, 80, 700, 0, false)];
    assert_eq!(world.report().measured.links, expected);
    // Who is not that rank says nothing.
    assert!(matches!(&paths(&mut world, 5, 3, &[(0, 1, 1, 1, true)])[..], [Output::Close { .. }]));
    assert_eq!(world.report().measured.links, expected);
}
