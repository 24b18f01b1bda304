//! Sums over ranks that a loss uses, and through which no gradient reaches the other ranks.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ids::Rank;
use protocol::site::CallSite;
use protocol::upstream::Upstream;

/// An all_reduce without a derivative whose derivative matters.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    /// The first of its ranks.
    pub rank: Rank,
    /// Where the program calls it.
    pub site: Option<CallSite>,
    /// What is wrong, in one sentence.
    pub sentence: String,
}

/// Where ranks get gradients that differ for a tensor that they have summed, for each line once. Every rank contributed to the sum, so
/// its contribution has the sum of all these gradients. If they are the same on all ranks, they belong to one loss that all ranks
/// compute alike, as in tensor parallelism, and passing them on unchanged is right.
pub fn missing(gradients: &[Upstream]) -> Vec<Missing> {
    let mut calls: BTreeMap<(&[Rank], u64), Vec<&Upstream>> = BTreeMap::new();
    for gradient in gradients {
        calls.entry((&gradient.ranks, gradient.earlier)).or_default().push(gradient);
    }
    let mut lines = BTreeSet::new();
    let found = calls.into_iter().filter_map(|((ranks, _), calls)| {
        let first = calls.first()?;
        let line = |call: &Upstream| call.site.as_ref().map(|site| (site.file.clone(), site.line));
        let given: BTreeSet<Rank> = calls.iter().map(|call| call.rank).collect();
        let is_whole = given.len() == ranks.len() && calls.len() == ranks.len();
        let is_same_line = calls.iter().all(|call| line(call) == line(first));
        let differs = calls.iter().any(|call| call.gradient != first.gradient);
        if !is_whole || !is_same_line || !differs || !lines.insert(line(first)) {
            return None;
        }
        let names: Vec<String> = ranks.iter().map(Rank::to_string).collect();
        let sentence = format!(
            "ranks {} sum a tensor that requires grad by all_reduce, which has no derivative, and compute with the sum: each rank gets \
             another gradient for it, and none gets those of the others",
            names.join(", ")
        );
        Some(Missing { rank: *ranks.first()?, site: first.site.clone(), sentence })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(rank: u32, earlier: u64, gradient: u64) -> Upstream {
        let site = Some(CallSite::new("train.py".into(), 7, "main".into()));
        Upstream { rank: Rank(rank), ranks: vec![Rank(0), Rank(2)], site, earlier, gradient }
    }

    #[test]
    fn gradients_of_one_loss_are_the_same() {
        assert!(missing(&[gradient(2, 0, 5), gradient(0, 0, 5)]).is_empty());
        let found = missing(&[gradient(2, 0, 5), gradient(0, 0, 6), gradient(2, 1, 5), gradient(0, 1, 6)]);
        assert_eq!(found.len(), 1, "each line once");
        assert!(found[0].sentence.starts_with("ranks 0, 2 sum a tensor that requires grad by all_reduce"), "{found:?}");
        assert_eq!((found[0].rank, found[0].site.as_ref().map(|site| site.line)), (Rank(0), Some(7)));
    }

    #[test]
    fn only_calls_of_all_ranks_are_compared() {
        assert!(missing(&[gradient(2, 0, 5), gradient(0, 1, 6)]).is_empty(), "other calls");
        let again = [gradient(2, 0, 5), gradient(0, 0, 6), gradient(0, 0, 7)];
        assert!(missing(&again).is_empty(), "the program was started again");
        let mut elsewhere = gradient(0, 0, 6);
        elsewhere.site = Some(CallSite::new("train.py".into(), 9, "main".into()));
        assert!(missing(&[gradient(2, 0, 5), elsewhere]).is_empty());
    }
}
