//! Which steps of two runs are the same step. A run that was killed and started again counts anew: its last step is the last one.

use super::made::{Made, Step};

/// A step of both runs.
pub(super) struct Pair<'a> {
    /// Its number in the run without a change, from 1.
    number: usize,
    /// Its number after the restart, if there was one.
    after: Option<usize>,
    pub(super) first: &'a Step,
    pub(super) second: &'a Step,
}

impl Pair<'_> {
    /// "optimizer step 3 (train.py:7)".
    pub(super) fn title(&self) -> String {
        let name = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
        let site = self.first.site.as_ref().or(self.second.site.as_ref());
        let line = site.map_or_else(String::new, |site| format!(" ({}:{})", name(&site.file), site.line));
        let after = self.after.map_or_else(String::new, |after| format!(", step {after} after the restart"));
        format!("optimizer step {}{line}{after}", self.number)
    }
}

/// Two runs make other numbers of steps.
pub(super) struct CountDifference {
    first: usize,
    before: usize,
    second: usize,
}

impl CountDifference {
    /// "the optimizer makes 6 steps, but 5 under `ranks: 1`".
    pub(super) fn in_words(&self, relation: &str, restarted: bool) -> String {
        let Self { first, before, second } = self;
        match restarted {
            false => format!("the optimizer makes {first} steps, but {second} under `{relation}`"),
            true if first == second => {
                format!("after the restart, the optimizer makes all {first} steps again: the case did not resume")
            }
            true => format!(
                "the optimizer makes {first} steps, but {before} before and {second} after the restart under `{relation}`"
            ),
        }
    }
}

/// The steps that both runs make, and the optimizers that make other numbers of them.
#[derive(Default)]
pub(super) struct Aligned<'a> {
    pub(super) pairs: Vec<Pair<'a>>,
    pub(super) differences: Vec<CountDifference>,
}

/// Aligns the steps of two runs, of which the second may have a part before it was killed.
pub(super) fn pairs<'a>(first: &'a Made, before: Option<&'a Made>, second: &'a Made) -> Aligned<'a> {
    let mut aligned = Aligned::default();
    let mut optimizers: Vec<u32> = first.steps.keys().chain(second.steps.keys()).copied().collect();
    optimizers.sort_unstable();
    optimizers.dedup();
    for optimizer in optimizers {
        let steps = |made: &'a Made| made.steps.get(&optimizer).map_or(&[][..], Vec::as_slice);
        let (own, other) = (steps(first), steps(second));
        let made_before = before.map_or(0, |before| before.count(optimizer));
        // How many steps the checkpoint had.
        let resumed_at = if before.is_some() { own.len().checked_sub(other.len()) } else { Some(0) };
        let fits = match (before, resumed_at) {
            (None, _) => own.len() == other.len(),
            (Some(_), Some(resumed_at)) => 0 < resumed_at && resumed_at <= made_before,
            (Some(_), None) => false,
        };
        if !fits {
            aligned.differences.push(CountDifference { first: own.len(), before: made_before, second: other.len() });
        }
        let resumed_at = resumed_at.unwrap_or_default();
        let kept = before.map_or(&[][..], steps).iter().take(resumed_at).map(|step| (step, None));
        let rest = (1..).zip(other).map(|(number, step)| (step, before.map(|_| number)));
        let places = (0..kept.len()).chain(resumed_at..);
        for (place, (second, after)) in places.zip(kept.chain(rest)) {
            let Some(first) = own.get(place) else { break };
            aligned.pairs.push(Pair { number: place + 1, after, first, second });
        }
    }
    aligned.pairs.sort_by_key(|pair| pair.number);
    aligned
}
