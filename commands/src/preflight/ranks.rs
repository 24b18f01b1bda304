//! Which ranks of a job a preflight runs, one after the other: rank 0 first, because the others get what it sends.

use protocol::plan::ClusterPlan;

use super::options::PreflightArgs;
use crate::alone::{Alone, AloneArgs, out_of_range};

/// The word of `--ranks` for the first rank of each pipeline stage.
const EACH_STAGE: &str = "each-stage";

/// The ranks that are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranks {
    /// Ascending, without repetition.
    asked_for: Vec<u32>,
    size: u32,
    /// Pipeline stages, each of which has as many consecutive ranks.
    stages: Option<u32>,
    /// Ranks on a node.
    per_node: u32,
}

impl Ranks {
    /// The ranks that the options ask for, on nodes like the first one of `plan`; `None` if they ask for a whole job.
    ///
    /// # Errors
    /// A rank that the job does not have or that is named twice, or stages of different sizes.
    pub(super) fn from_arguments(
        alone: &AloneArgs,
        options: &PreflightArgs,
        plan: &ClusterPlan,
    ) -> Result<Option<Ranks>, String> {
        let Some(size) = alone.of else { return Ok(None) };
        if let Some(stages) = options.stages.filter(|stages| *stages == 0 || size % stages != 0) {
            return Err(format!(
                "--stages {stages} --of {size}: the stages would not have the same number of ranks; leave --stages out, and name \
                 a rank of each stage in --ranks"
            ));
        }
        let named = match alone.as_rank {
            Some(rank) if rank >= size => return Err(out_of_range(&format!("--as-rank {rank}"), size)),
            Some(rank) => vec![rank],
            None => named(&options.ranks, size, options.stages)?,
        };
        let mut asked_for = named.clone();
        asked_for.sort_unstable();
        if let Some(twice) = asked_for.windows(2).find(|pair| pair[0] == pair[1]) {
            let words = options.ranks.join(",");
            return Err(format!("--ranks {words} --of {size}: rank {} is named twice; name it once", twice[0]));
        }
        Ok(Some(Ranks { asked_for, size, stages: options.stages, per_node: Alone::per_node(plan) }))
    }

    /// In the order in which they are run, and whether each was asked for.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (Alone, bool)> {
        let donor = (self.asked_for[0] != 0).then_some((0, false));
        let ranks = donor.into_iter().chain(self.asked_for.iter().map(|rank| (*rank, true)));
        ranks.map(|(rank, is_asked_for)| (Alone::new(rank, self.size, self.per_node), is_asked_for))
    }

    /// The pipeline stage of `rank`, from 0, if it is known.
    pub(super) fn stage(&self, rank: u32) -> Option<u32> {
        Some(rank / (self.size / self.stages?))
    }
}

fn named(words: &[String], size: u32, stages: Option<u32>) -> Result<Vec<u32>, String> {
    let option = || format!("--ranks {}", words.join(","));
    if words == [EACH_STAGE] {
        let Some(stages) = stages else {
            return Err(format!("{}: add --stages with the number of pipeline stages", option()));
        };
        return Ok((0..stages).map(|stage| stage * (size / stages)).collect());
    }
    let rank = |word: &String| match word.as_str() {
        _ if size == 0 => Err(out_of_range(&option(), size)),
        "first" => Ok(0),
        "middle" => Ok(size / 2),
        "last" => Ok(size - 1),
        word => match word.parse() {
            Ok(rank) if rank < size => Ok(rank),
            Ok(_) => Err(out_of_range(&option(), size)),
            Err(_) => Err(format!(
                "{}: `{word}` is not a rank; write numbers, or `first`, `middle`, `last`, or `{EACH_STAGE}` by itself",
                option()
            )),
        },
    };
    words.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runner::execute::launch::settings::DeviceArguments;

    fn ranks(as_rank: Option<u32>, words: &str, size: u32, stages: Option<u32>) -> Result<Ranks, String> {
        let alone = AloneArgs { as_rank, of: Some(size), as_rank_report: None };
        let options = PreflightArgs {
            preflight: true,
            profiles: Vec::new(),
            probe: Vec::new(),
            assume: Vec::new(),
            smallest: false,
            preflight_report: None,
            ranks: words.split_terminator(',').map(str::to_owned).collect(),
            stages,
            steps: None,
        };
        let devices = DeviceArguments { device_count: Some("1".into()), profile: None, devices: None };
        Ok(Ranks::from_arguments(&alone, &options, &devices.single_node().unwrap())?.unwrap())
    }

    #[test]
    fn rank_0_runs_first_and_the_others_in_their_order() {
        for (as_rank, words, size, stages, order) in [
            (Some(16), "", 64, None, &[(0, false), (16, true)][..]),
            (Some(0), "", 64, None, &[(0, true)]),
            (None, "first,middle,last", 64, None, &[(0, true), (32, true), (63, true)]),
            (None, "48,0,16", 64, None, &[(0, true), (16, true), (48, true)]),
            (None, "middle,5", 7, None, &[(0, false), (3, true), (5, true)]),
            (None, "each-stage", 12, Some(3), &[(0, true), (4, true), (8, true)]),
        ] {
            let runs: Vec<(Alone, bool)> = ranks(as_rank, words, size, stages).unwrap().in_order().collect();
            let expected: Vec<(Alone, bool)> =
                order.iter().map(|(rank, is_asked_for)| (Alone::new(*rank, size, 1), *is_asked_for)).collect();
            assert_eq!(runs, expected, "{words}");
        }
        let of_stages = ranks(None, "each-stage", 12, Some(3)).unwrap();
        assert_eq!([3, 4, 11].map(|rank| of_stages.stage(rank)), [Some(0), Some(1), Some(2)]);
        assert_eq!(ranks(Some(3), "", 12, None).unwrap().stage(3), None);
    }

    #[test]
    fn mistakes_by_table() {
        for (as_rank, words, size, stages, says) in [
            (Some(20), "", 20, None, "--as-rank 20 --of 20: ranks count from 0 to 19"),
            (None, "3,20", 20, None, "--ranks 3,20 --of 20: ranks count from 0 to 19"),
            (None, "first", 0, None, "--ranks first --of 0: a job has at least one rank"),
            (None, "first,0", 8, None, "--ranks first,0 --of 8: rank 0 is named twice; name it once"),
            (None, "middle,last", 2, None, "rank 1 is named twice"),
            (None, "some", 8, None, "`some` is not a rank; write numbers"),
            (None, "-1", 8, None, "`-1` is not a rank"),
            (None, "each-stage", 8, None, "add --stages with the number of pipeline stages"),
            (None, "each-stage,last", 8, Some(2), "`each-stage` by itself"),
            (None, "each-stage", 8, Some(3), "would not have the same number of ranks"),
            (None, "each-stage", 8, Some(0), "would not have the same number of ranks"),
        ] {
            let error = ranks(as_rank, words, size, stages).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
