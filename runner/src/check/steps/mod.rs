//! `compared: {steps: ...}` and `batch: same`: how many steps the optimizers of two runs make, and on which samples.

mod made;
mod pairs;

use std::path::Path;

pub use made::Made;
use pairs::{Pair, pairs};

use crate::check::compared::Named;
use crate::check::tensors::Unknown;
use crate::check::{Failure, FailureKind};
use crate::source::SourceLocation;

/// The directory below [`Observation::scratch`](crate::observation::Observation::scratch) in which ranks record steps.
pub const DIRECTORY: &str = "steps";

/// How many samples a failure names.
const MOST_NAMED: usize = 8;

/// What of the steps must not change.
#[derive(Clone, Debug)]
pub struct Steps {
    /// How many there are.
    pub count: bool,
    /// On which samples each is made.
    pub samples: bool,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// The steps of a run; of both parts if it was killed and started again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    before: Option<Made>,
    made: Made,
}

impl Run {
    /// The steps that a run recorded in its scratch directory, and those of its first part, if it was killed and started again.
    /// `needs_samples` if they are compared or counted; `relation` is that of a variant, `place` that of what is compared.
    ///
    /// # Errors
    /// Why there is nothing to compare.
    pub fn read(
        scratch: &Path,
        before: Option<&Path>,
        needs_samples: bool,
        relation: Option<Named<'_>>,
        place: &SourceLocation,
    ) -> Result<Self, Unknown> {
        let whose = relation.map_or_else(String::new, |relation| format!(" under `{}`", relation.name));
        let failure = |expected: String, got: String, next: &str| {
            let place = Some(relation.map_or(place, |relation| relation.place).clone());
            Box::new(Failure { place, kind: FailureKind::Relation, expected, got, next: next.to_owned() })
        };
        let broken = |why: String| {
            let next = "compare `count` alone, or numbers that the program prints";
            Unknown::Broken(failure(format!("the samples of each optimizer step{whose} are known"), why, next))
        };
        let read = |scratch: &Path| Made::read(&scratch.join(DIRECTORY)).map_err(&broken);
        let run = Self { before: before.map(read).transpose()?, made: read(scratch)? };
        let refused = run.before.iter().chain([&run.made]).find_map(|made| made.refused.as_ref());
        if let Some(why) = refused.filter(|_| needs_samples) {
            return Err(broken(why.clone()));
        }
        let (expected, got, next) = if run.made.steps.is_empty() {
            let next = "a relation that compares nothing proves nothing: `steps` and `batch` see steps of torch.optim in a program \
                        that uses simulated GPUs";
            (format!("the optimizer makes a step{whose}"), "no optimizer step was seen", next)
        } else if needs_samples && !run.made.has_samples() {
            let next = "a relation that compares nothing proves nothing: samples are those that torch.utils.data.DataLoader draws by \
                        index while gradients are on";
            (format!("a data loader gives samples to training{whose}"), "no sample was seen", next)
        } else {
            return Ok(run);
        };
        Err(Unknown::Failed(failure(expected, got.to_owned(), next)))
    }

    /// The failure of a relation that promises the same batch over all ranks, in samples, and has another.
    pub fn compare_batches(&self, relation: Named<'_>, second: &Self) -> Option<Failure> {
        let aligned = pairs(&self.made, second.before.as_ref(), &second.made);
        let (pair, [first, other]) = aligned.pairs.iter().find_map(|pair| {
            let counts = [pair.first, pair.second].map(|step| step.samples().len());
            (counts[0] != counts[1]).then_some((pair, counts))
        })?;
        Some(Failure {
            place: Some(relation.place.clone()),
            kind: FailureKind::Relation,
            expected: format!("under `{}`, each optimizer step is made on as many samples", relation.name),
            got: format!("{} is made on {first} samples, but on {other} under `{}`", pair.title(), relation.name),
            next: "the program has a batch of its own on each rank: let it divide the batch by the number of ranks, or scale it by \
                   `args` of the relation"
                .to_owned(),
        })
    }
}

impl Steps {
    /// The failure of a relation whose variant made other steps.
    pub fn compare(&self, relation: Named<'_>, first: &Run, second: &Run) -> Option<Failure> {
        let aligned = pairs(&first.made, second.before.as_ref(), &second.made);
        let name = relation.name;
        let failure = |expected: &str, got: String, next: &str| Failure {
            place: Some(relation.place.clone()),
            kind: FailureKind::Relation,
            expected: format!("under `{name}`, {expected}"),
            got,
            next: next.to_owned(),
        };
        let restarted = second.before.is_some();
        let in_samples = || {
            let (pair, words) = aligned.pairs.iter().find_map(|pair| Some((pair, in_words(pair, name)?)))?;
            let next = match (restarted, relation.changes_sums) {
                (true, _) => {
                    "the position in the data belongs in the checkpoint: the epoch of the sampler, and the batches that are done"
                }
                (false, true) => {
                    "ranks take shares of one order: a DistributedSampler takes the first samples again where the ranks do not divide \
                     all of them, and pads less with fewer"
                }
                (false, false) => "",
            };
            Some(failure("each optimizer step is made on the same samples", format!("{}: {words}", pair.title()), next))
        };
        let in_count = || {
            let got = aligned.differences.first()?.in_words(name, restarted);
            Some(failure("the optimizer makes as many steps", got, ""))
        };
        // Other samples explain another number of steps.
        self.samples.then(in_samples).flatten().or_else(in_count)
    }
}

/// Which samples of a step the other run does not have; `None` if it has all of them, and no others.
fn in_words(pair: &Pair<'_>, relation: &str) -> Option<String> {
    let [first, second] = [pair.first, pair.second].map(|step| step.samples());
    let (missing, added) = (without(&first, &second), without(&second, &first));
    match (missing.is_empty(), added.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("{} missing under `{relation}`", are(&missing))),
        (true, false) => Some(format!("{} there only under `{relation}`", are(&added))),
        (false, false) => {
            Some(format!("{} missing under `{relation}`, and {} there instead", are(&missing), are(&added)))
        }
    }
}

/// What of the ascending `samples` is not in `others`; what is there more often than in `others` is the rest.
fn without(samples: &[i64], others: &[i64]) -> Vec<i64> {
    let mut others = others.iter().peekable();
    let mut rest = Vec::new();
    for sample in samples {
        while others.next_if(|other| *other < sample).is_some() {}
        if others.next_if_eq(&sample).is_none() {
            rest.push(*sample);
        }
    }
    rest
}

/// "samples 4, 5 and 2 more are".
fn are(samples: &[i64]) -> String {
    let named: Vec<String> = samples.iter().take(MOST_NAMED).map(i64::to_string).collect();
    let named = named.join(", ");
    match samples.len().saturating_sub(MOST_NAMED) {
        0 if samples.len() == 1 => format!("sample {named} is"),
        0 => format!("samples {named} are"),
        more => format!("samples {named} and {more} more are"),
    }
}

#[cfg(test)]
mod tests;
