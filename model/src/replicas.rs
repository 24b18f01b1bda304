//! Whether the ranks of a group hold the same values before their first optimizer step and after each step. Ranks send hashes,
//! and the names of the hashed tensors whenever those change.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::ids::{Rank, SiteId};
use protocol::record::HoldingRecord;
use protocol::report::{ReplicaGroup, ReplicaTensor};
use xxhash_rust::xxh64::xxh64;

use crate::exchange::ConnectionId;
use crate::ledger::NO_SEQUENCE;
use crate::site::Call;

/// The number of steps of a group that are kept while some of its ranks have not come to them. Ranks that average gradients in
/// every step are never that far apart.
const KEPT: usize = 64;

/// The most tensors of one step.
const MOST: usize = 1 << 20;

/// The first difference within a group.
#[derive(Debug)]
pub(crate) struct Divergence {
    /// The optimizer step, from 1; 0 before the first.
    pub(crate) step: u64,
    /// What differs: `parameter 0.weight`.
    pub(crate) name: String,
    /// Further tensors that differ.
    pub(crate) others: usize,
    /// Ranks that do not have what most have; if there are two halves, the one without the first rank.
    pub(crate) ranks: Vec<Rank>,
    /// The rest of the group.
    pub(crate) rest: Vec<Rank>,
    /// Where each rank made the step.
    pub(crate) calls: BTreeMap<Rank, Call>,
    /// When the last of them reported the step, us.
    pub(crate) at_us: u64,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    groups: BTreeMap<Vec<Rank>, Group>,
    found: Vec<Divergence>,
    newest: Option<ConnectionId>,
    /// Closed connections, with the newest one at that time: processes that torchrun restarts connect later.
    closed: BTreeMap<ConnectionId, ConnectionId>,
}

#[derive(Debug, Default)]
struct Group {
    members: BTreeMap<Rank, Member>,
    steps: BTreeMap<u64, BTreeMap<Rank, Holding>>,
    /// Steps that were compared, not counting the state before the first.
    compared: u64,
    /// The hashes over all steps and ranks, by name.
    digests: BTreeMap<String, u64>,
    /// Once there is one, later steps only repeat it.
    has_diverged: bool,
}

/// A rank of a group.
#[derive(Debug, Default)]
struct Member {
    connection: Option<ConnectionId>,
    names: Arc<[String]>,
    /// The part so far of a step of which more follows.
    coming: (Vec<String>, Vec<u64>),
}

/// The values of a rank in one step.
#[derive(Debug)]
struct Holding {
    connection: ConnectionId,
    site: SiteId,
    names: Arc<[String]>,
    hashes: Vec<u64>,
}

impl Replicas {
    /// A connection was opened; connections have rising numbers.
    pub(crate) fn opened(&mut self, connection: ConnectionId) {
        self.newest = self.newest.max(Some(connection));
    }

    /// A connection was closed.
    pub(crate) fn closed(&mut self, connection: ConnectionId) {
        if let Some(newest) = self.newest {
            self.closed.entry(connection).or_insert(newest);
        }
    }

    /// The process of `connection` reports what a rank holds, at time `now_us`.
    ///
    /// # Errors
    /// Says what is wrong with the message.
    pub(crate) fn note(&mut self, connection: ConnectionId, record: HoldingRecord, now_us: u64) -> Result<(), String> {
        let HoldingRecord { rank, group, step, site, names, hashes, is_continued } = record;
        if !group.contains(&rank) {
            return Err(format!("reported replicas of ranks that rank {rank} is not one of"));
        }
        let size = group.len();
        let known = self.groups.entry(group).or_default();
        if known.has_diverged {
            return Ok(());
        }
        let member = known.members.entry(rank).or_default();
        if let Some(before) = member.connection.replace(connection)
            && before != connection
        {
            *member = Member { connection: Some(connection), ..Member::default() };
        }
        member.coming.0.extend(names);
        member.coming.1.extend(hashes);
        if member.coming.1.len() > MOST {
            return Err(format!("reported more than {MOST} replicas"));
        }
        if is_continued {
            return Ok(());
        }
        let (names, hashes) = std::mem::take(&mut member.coming);
        if !names.is_empty() {
            member.names = names.into();
        }
        if member.names.len() != hashes.len() {
            return Err("reported replicas without their names".to_owned());
        }
        let holding = Holding { connection, site, names: Arc::clone(&member.names), hashes };
        let holdings = known.steps.entry(step).or_default();
        // Processes that were gone before this one began were another start of the program.
        let closed = &self.closed;
        holdings.retain(|_, other| closed.get(&other.connection).is_none_or(|newest| *newest >= connection));
        holdings.insert(rank, holding);
        if holdings.len() < size {
            // A rank that ended never comes to it.
            if known.steps.len() > KEPT {
                known.steps.pop_first();
            }
            return Ok(());
        }
        let holdings = known.steps.remove(&step).unwrap_or_default();
        self.found.extend(known.compare(step, &holdings, now_us));
        Ok(())
    }

    /// What was found, in an order that does not depend on timing.
    pub(crate) fn found(&self) -> Vec<&Divergence> {
        let mut found: Vec<&Divergence> = self.found.iter().collect();
        found.sort_by_key(|divergence| (divergence.step, divergence.calls.keys().copied().collect::<Vec<_>>()));
        found
    }

    /// What was compared, by group.
    pub(crate) fn compared(&self) -> Vec<ReplicaGroup> {
        let tensor =
            |(name, digest): (&String, &u64)| ReplicaTensor { name: name.clone(), hash: format!("{digest:016x}") };
        let group = |(ranks, group): (&Vec<Rank>, &Group)| ReplicaGroup {
            ranks: ranks.clone(),
            steps: group.compared,
            tensors: group.digests.iter().map(tensor).collect(),
        };
        self.groups.iter().map(group).collect()
    }
}

impl Group {
    /// Compares what all ranks hold.
    fn compare(&mut self, step: u64, holdings: &BTreeMap<Rank, Holding>, at_us: u64) -> Option<Divergence> {
        // What a rank does not have (it may own only a part of the optimizer's state) is not compared.
        let mut hashes: BTreeMap<&str, Vec<(Rank, u64)>> = BTreeMap::new();
        let mut order = Vec::new();
        for (rank, holding) in holdings {
            for (name, hash) in holding.names.iter().zip(&holding.hashes) {
                let ranks = hashes.entry(name).or_default();
                if ranks.is_empty() {
                    order.push(name.as_str());
                }
                ranks.push((*rank, *hash));
            }
        }
        order.retain(|name| hashes[name].len() == holdings.len());
        self.compared += u64::from(step > 0);
        for name in &order {
            let bytes: Vec<u8> = hashes[name].iter().flat_map(|(_, hash)| hash.to_le_bytes()).collect();
            let digest = self.digests.entry((*name).to_owned()).or_default();
            *digest = xxh64(&bytes, *digest);
        }
        let differing: Vec<&str> =
            order.into_iter().filter(|name| hashes[name].iter().any(|(_, hash)| *hash != hashes[name][0].1)).collect();
        let name = *differing.first()?;
        let of_all = &hashes[name];
        let count = |hash: u64| of_all.iter().filter(|(_, other)| *other == hash).count();
        let most = of_all.iter().map(|(_, hash)| count(*hash)).max()?;
        let common = of_all.iter().find(|(_, hash)| count(*hash) == most)?.1;
        let ranks = |is_common: bool| {
            of_all.iter().filter(|(_, hash)| (*hash == common) == is_common).map(|(rank, _)| *rank).collect()
        };
        let call = |(rank, holding): (&Rank, &Holding)| {
            (*rank, Call::new(holding.connection, holding.site, None, NO_SEQUENCE))
        };
        self.has_diverged = true;
        self.steps.clear();
        Some(Divergence {
            step,
            name: name.to_owned(),
            others: differing.len() - 1,
            ranks: ranks(false),
            rest: ranks(true),
            calls: holdings.iter().map(call).collect(),
            at_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &[&str] = &["parameter 0.weight", "parameter 0.bias"];

    fn group(ranks: &[u32]) -> Vec<Rank> {
        ranks.iter().copied().map(Rank).collect()
    }

    fn record(ranks: &[u32], rank: u32, step: u64, names: &[&str], hashes: &[u64]) -> HoldingRecord {
        HoldingRecord {
            rank: Rank(rank),
            group: group(ranks),
            step,
            site: SiteId(rank),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            hashes: hashes.to_vec(),
            is_continued: false,
        }
    }

    /// The reports of a group's ranks, each on the connection with its number.
    fn replicas(ranks: &[u32], reports: &[(u32, u64, &[&str], &[u64])]) -> Replicas {
        let mut replicas = Replicas::default();
        for (rank, step, names, hashes) in reports {
            let record = record(ranks, *rank, *step, names, hashes);
            assert_eq!(replicas.note(ConnectionId(u64::from(*rank)), record, 0), Ok(()));
        }
        replicas
    }

    #[test]
    fn the_first_tensor_that_differs_is_found_once() {
        let reports: &[(u32, u64, &[&str], &[u64])] = &[
            (3, 1, BOTH, &[7, 8]),
            (0, 1, BOTH, &[7, 8]),
            (1, 1, BOTH, &[7, 8]),
            (1, 2, &[], &[7, 9]),
            (0, 2, &[], &[7, 8]),
            (3, 2, &[], &[7, 8]),
            (0, 3, &[], &[1, 1]),
            (1, 3, &[], &[1, 2]),
            (3, 3, &[], &[1, 3]),
        ];
        assert!(replicas(&[0, 1, 3], &reports[..5]).found().is_empty(), "not all are there");
        let replicas = replicas(&[0, 1, 3], reports);
        let found = replicas.found();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].step, found[0].name.as_str(), found[0].others), (2, "parameter 0.bias", 0));
        assert_eq!((&found[0].ranks, &found[0].rest), (&group(&[1]), &group(&[0, 3])));
    }

    #[test]
    fn of_two_halves_the_first_rank_is_right_and_what_a_rank_lacks_is_not_compared() {
        let replicas = replicas(
            &[0, 1],
            &[(1, 0, &["state", "parameter", "other"], &[5, 2, 4]), (0, 0, &["parameter", "other"], &[1, 3])],
        );
        let found = replicas.found();
        assert_eq!((found[0].name.as_str(), found[0].others, &found[0].ranks), ("parameter", 1, &group(&[1])));
    }

    /// One rank may be ahead, and its names may differ by then: two optimizers take turns.
    #[test]
    fn names_are_those_of_their_step() {
        let reports: &[(u32, u64, &[&str], &[u64])] = &[
            (0, 1, &["a", "b"], &[1, 2]),
            (0, 2, &["b", "a"], &[1, 2]),
            (1, 1, &["a", "b"], &[1, 2]),
            (1, 2, &["b", "a"], &[1, 3]),
        ];
        assert!(replicas(&[0, 1], &reports[..3]).found().is_empty());
        assert_eq!(replicas(&[0, 1], reports).found()[0].name, "a");
    }

    #[test]
    fn processes_that_are_started_again_are_not_compared_with_those_before() {
        let mut replicas = Replicas::default();
        let note = |replicas: &mut Replicas, connection, rank, step, hash| {
            let record = record(&[0, 1], rank, step, &["a"], &[hash]);
            assert_eq!(replicas.note(ConnectionId(connection), record, 0), Ok(()));
            replicas.found().len()
        };
        for connection in [0, 1] {
            replicas.opened(ConnectionId(connection));
        }
        assert_eq!(note(&mut replicas, 0, 0, 1, 5), 0, "rank 1 dies before its step");
        for connection in [1, 0] {
            replicas.closed(ConnectionId(connection));
        }
        for connection in [2, 3] {
            replicas.opened(ConnectionId(connection));
        }
        assert_eq!(note(&mut replicas, 3, 1, 1, 6), 0);
        assert_eq!(note(&mut replicas, 2, 0, 1, 6), 0, "rank 1 of the same start holds this, too");
        assert_eq!(note(&mut replicas, 2, 0, 2, 6), 0);
        replicas.closed(ConnectionId(2));
        assert_eq!(note(&mut replicas, 3, 1, 2, 7), 1, "a rank that ends early is still compared");
        assert_eq!(replicas.found()[0].step, 2);
    }

    #[test]
    fn parts_are_put_together_and_hashes_are_those_of_all_steps() {
        let compared = |last: u64| {
            let mut replicas = Replicas::default();
            for rank in [0, 1] {
                let first = HoldingRecord { is_continued: true, ..record(&[0, 1], rank, 1, &["a"], &[1]) };
                let rest = [record(&[0, 1], rank, 1, &["b"], &[2]), record(&[0, 1], rank, 2, &[], &[1, last])];
                for record in [first].into_iter().chain(rest) {
                    assert_eq!(replicas.note(ConnectionId(u64::from(rank)), record, 0), Ok(()));
                }
            }
            replicas.compared().remove(0)
        };
        let (one, other) = (compared(2), compared(3));
        assert_eq!((one.ranks.clone(), one.steps), (group(&[0, 1]), 2));
        assert_eq!(one.tensors.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(one.tensors[0], other.tensors[0]);
        assert_ne!(one.tensors[1].hash, other.tensors[1].hash);
        assert_eq!(one, compared(2));
    }

    #[test]
    fn nonsense_is_refused_and_steps_that_never_complete_are_dropped() {
        let mut replicas = Replicas::default();
        let mut note = |record| replicas.note(ConnectionId(0), record, 0);
        assert!(note(record(&[0, 1], 2, 1, BOTH, &[1, 2])).is_err());
        assert!(note(record(&[0, 1], 0, 1, &[], &[1, 2])).is_err());
        assert!(note(record(&[0, 1], 0, 1, BOTH, &[1])).is_err());
        for step in 1..=2 * KEPT as u64 {
            assert_eq!(note(record(&[0, 1], 0, step, BOTH, &[1, 2])), Ok(()));
        }
        assert!(replicas.groups.values().all(|group| group.steps.len() <= KEPT));
    }
}
