//! Ranks that share a dataset, and do not agree on how: some samples are taken twice, and others by no rank.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::Rank;
use protocol::sampling::Pass;

/// Ranks that do not agree.
#[derive(Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// A pass of the rank that differs.
    pub pass: Pass,
    /// What is wrong, in one sentence.
    pub sentence: String,
}

/// A file and a line of it.
type Line<'a> = (&'a str, u32);

/// Where the passes of all ranks over one dataset do not fit together, for each line once. Passes meet by the line that begins them
/// and by how many came before. Left alone are those of lines that some rank passes for several parts, as a reference run does, and
/// those in which not every rank takes a part of its own, since ranks may share a part on purpose (tensor parallelism).
pub fn disagreements(passes: &[Pass]) -> Vec<Disagreement> {
    let mut groups: BTreeMap<(Option<Line<'_>>, u64), Vec<&Pass>> = BTreeMap::new();
    let mut parts: BTreeMap<(Option<Line<'_>>, Rank), BTreeSet<u32>> = BTreeMap::new();
    for pass in passes {
        let line = pass.site.as_ref().map(|site| (site.file.as_str(), site.line));
        groups.entry((line, pass.earlier)).or_default().push(pass);
        parts.entry((line, pass.rank)).or_default().insert(pass.replica);
    }
    let several: BTreeSet<Option<Line<'_>>> =
        parts.iter().filter(|(_, parts)| parts.len() > 1).map(|((line, _), _)| *line).collect();
    groups.retain(|(line, _), _| !several.contains(line));
    let mut lines = BTreeSet::new();
    let found = groups.into_iter().filter_map(|((line, _), mut group)| {
        group.sort_by_key(|pass| pass.rank);
        let disagreement = of_group(&group)?;
        lines.insert(line).then_some(disagreement)
    });
    found.collect()
}

fn of_group(group: &[&Pass]) -> Option<Disagreement> {
    let (first, others) = group.split_first()?;
    let ranks: BTreeSet<Rank> = group.iter().map(|pass| pass.rank).collect();
    let is_whole = |pass: &&Pass| pass.replicas == pass.world_size && pass.world_size as usize == ranks.len();
    if ranks.len() != group.len() || !group.iter().all(is_whole) {
        return None;
    }
    let disagreement = |pass: &Pass, sentence: String| Disagreement { pass: pass.clone(), sentence };
    for pass in others {
        let differs = |what: &str, mine: String, firsts: String| {
            let (rank, other) = (pass.rank.0, first.rank.0);
            let effect = "some samples are taken twice, and others by no rank";
            disagreement(
                pass,
                format!("rank {rank} samples with {what} {mine}, rank {other} with {what} {firsts}: {effect}"),
            )
        };
        if pass.length != first.length {
            return Some(differs("a dataset of length", pass.length.to_string(), first.length.to_string()));
        }
        match (pass.order, first.order) {
            (Some([seed, _]), Some([other, _])) if seed != other => {
                return Some(differs("seed", seed.to_string(), other.to_string()));
            }
            (Some([_, epoch]), Some([_, other])) if epoch != other => {
                return Some(differs("epoch", epoch.to_string(), other.to_string()));
            }
            (mine, firsts) if mine.is_some() != firsts.is_some() => {
                let word = |order: Option<[i64; 2]>| if order.is_some() { "True" } else { "False" };
                return Some(differs("shuffle", word(mine).to_owned(), word(firsts).to_owned()));
            }
            _ => {}
        }
        if pass.drops_last != first.drops_last {
            let word = |drops: bool| if drops { "True" } else { "False" };
            return Some(differs("drop_last", word(pass.drops_last).to_owned(), word(first.drops_last).to_owned()));
        }
    }
    let mut parts: BTreeMap<u32, Rank> = BTreeMap::new();
    group.iter().find_map(|pass| {
        let other = parts.insert(pass.replica, pass.rank)?;
        let (rank, part, whole) = (pass.rank.0, pass.replica, pass.replicas);
        Some(disagreement(
            pass,
            format!(
                "rank {rank} takes the same samples as rank {}, part {part} of {whole}: other samples are taken by no rank",
                other.0
            ),
        ))
    })
}

#[cfg(test)]
mod tests {
    use protocol::site::CallSite;

    use super::*;

    fn pass(rank: u32) -> Pass {
        Pass {
            rank: Rank(rank),
            world_size: 2,
            site: Some(CallSite::new("train.py".into(), 7, "main".into())),
            earlier: 0,
            replicas: 2,
            replica: rank,
            length: 100,
            order: Some([0, 3]),
            drops_last: false,
        }
    }

    fn sentence(second: Pass) -> Option<String> {
        disagreements(&[second, pass(0)]).pop().map(|found| found.sentence)
    }

    #[test]
    fn each_number_of_a_sampler_counts() {
        let effect = "some samples are taken twice, and others by no rank";
        assert_eq!(sentence(pass(1)), None);
        for (second, expected) in [
            (Pass { order: Some([1, 3]), ..pass(1) }, "seed 1, rank 0 with seed 0"),
            (Pass { order: Some([0, 4]), ..pass(1) }, "epoch 4, rank 0 with epoch 3"),
            (Pass { order: None, ..pass(1) }, "shuffle False, rank 0 with shuffle True"),
            (Pass { length: 99, ..pass(1) }, "a dataset of length 99, rank 0 with a dataset of length 100"),
            (Pass { drops_last: true, ..pass(1) }, "drop_last True, rank 0 with drop_last False"),
        ] {
            assert_eq!(sentence(second), Some(format!("rank 1 samples with {expected}: {effect}")));
        }
        let same = "rank 1 takes the same samples as rank 0, part 0 of 2: other samples are taken by no rank";
        assert_eq!(sentence(Pass { replica: 0, ..pass(1) }).as_deref(), Some(same));
    }

    #[test]
    fn only_what_all_ranks_share_is_compared() {
        let two_groups =
            |rank: u32| Pass { world_size: 4, replica: rank % 2, order: Some([i64::from(rank / 2), 0]), ..pass(rank) };
        assert!(disagreements(&[0, 1, 2, 3].map(two_groups)).is_empty(), "two experiments in one program");
        assert!(disagreements(&[Pass { order: Some([1, 3]), ..pass(1) }]).is_empty(), "the other rank has ended");
        let later = Pass { earlier: 1, order: Some([1, 3]), ..pass(1) };
        assert!(disagreements(&[pass(0), later]).is_empty(), "another pass");
        let all_parts = |rank: u32| [Pass { replica: 0, ..pass(rank) }, Pass { replica: 1, earlier: 1, ..pass(rank) }];
        let reference: Vec<Pass> = [0, 1].into_iter().flat_map(all_parts).collect();
        assert!(disagreements(&reference).is_empty(), "a rank that takes all parts, one after the other");
    }

    #[test]
    fn a_line_is_named_once() {
        let seed = |rank: u32, earlier: u64| Pass { earlier, order: Some([i64::from(rank), 0]), ..pass(rank) };
        let found = disagreements(&[seed(0, 0), seed(1, 0), seed(0, 1), seed(1, 1)]);
        assert_eq!(found.iter().map(|found| (found.pass.rank, found.pass.earlier)).collect::<Vec<_>>(), [(Rank(1), 0)]);
    }
}
