//! What ranks measured of the links between their nodes.

use std::collections::BTreeMap;

use protocol::ids::{CommunicatorId, Rank};
use protocol::plan::ClusterPlan;
use protocol::record::PathRecord;
use protocol::report::MeasuredLink;

use crate::communicator::Communicator;

/// Measurements by communicator, the rank there that made them, and the one at the other end.
#[derive(Debug, Default)]
pub(crate) struct Paths(BTreeMap<(CommunicatorId, Rank, Rank), Measured>);

/// One of them, with the nodes by their place in the cluster.
#[derive(Debug)]
struct Measured {
    nodes: [usize; 2],
    record: PathRecord,
}

impl Paths {
    /// Takes what `rank` of `communicator` measured. The slowest time there and back stays, and that a link was late.
    pub(crate) fn note(
        &mut self,
        plan: &ClusterPlan,
        communicator: &Communicator,
        rank: Rank,
        records: Vec<PathRecord>,
    ) {
        let node = |rank: Rank| {
            let global = communicator.global_rank(rank)?;
            plan.nodes.iter().position(|node| node.ranks.contains(&global))
        };
        for record in records {
            let Some((own, other)) = node(rank).zip(node(record.peer)).filter(|(own, other)| own != other) else {
                continue;
            };
            let nodes = [own.min(other), own.max(other)];
            let key = (communicator.id, rank, record.peer);
            match self.0.get_mut(&key) {
                None => drop(self.0.insert(key, Measured { nodes, record })),
                Some(known) => {
                    let (round_trip_us, is_late) = (known.record.round_trip_us, known.record.is_late);
                    known.record = PathRecord {
                        round_trip_us: record.round_trip_us.max(round_trip_us),
                        is_late: record.is_late || is_late,
                        ..record
                    };
                }
            }
        }
    }

    /// Every link that was measured, by the order of its nodes in the cluster.
    pub(crate) fn links(&self, plan: Option<&ClusterPlan>) -> Vec<MeasuredLink> {
        let mut links: BTreeMap<[usize; 2], MeasuredLink> = BTreeMap::new();
        let name =
            |node: usize| plan.and_then(|plan| plan.nodes.get(node)).map_or_else(String::new, |node| node.id.clone());
        for Measured { nodes, record } in self.0.values() {
            let link = links.entry(*nodes).or_insert_with(|| MeasuredLink {
                nodes: nodes.iter().map(|node| name(*node)).collect(),
                least_round_trip_us: u64::from(record.least_us),
                round_trip_us: 0,
                bytes_per_s: 0,
                resent_segments: 0,
                is_late: false,
            });
            link.least_round_trip_us = link.least_round_trip_us.min(u64::from(record.least_us));
            link.round_trip_us = link.round_trip_us.max(u64::from(record.round_trip_us));
            link.bytes_per_s = link.bytes_per_s.max(record.bytes_per_s);
            link.resent_segments += u64::from(record.resent);
            link.is_late |= record.is_late;
        }
        links.into_values().collect()
    }
}
