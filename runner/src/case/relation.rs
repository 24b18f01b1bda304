//! `holds_under`: changes to a case that must not change its result, and what is compared.

use std::collections::BTreeMap;

use protocol::env::RELATION;
use protocol::schedule::Schedule;
use regex::bytes::Regex;

use super::{Launch, Warm};
use crate::check::compared::{Compared, Curve, Named};
use crate::check::steps::{Run, Steps};
use crate::check::tensors::{Tensors, Unknown, Whole};
use crate::check::{Failure, FailureKind};
use crate::observation::{Number, Observation};
use crate::source::SourceLocation;

/// The relations of a case.
#[derive(Clone, Debug)]
pub struct Relations {
    /// The changes, each for a run of its own.
    pub relations: Vec<Relation>,
    /// The numbers in the output and in files that must not change.
    pub compared: Option<Compared>,
    /// The tensors that must not change.
    pub tensors: Option<Tensors>,
    /// What of the optimizer steps must not change.
    pub steps: Option<Steps>,
}

/// One change that must not change the result; without any, the case is only run again.
#[derive(Clone, Debug, Default)]
pub struct Relation {
    /// As the suite writes it: `ranks: 1`.
    pub name: String,
    /// Another number of ranks.
    pub ranks: Option<u32>,
    /// Another number of nodes.
    pub nodes: Option<u32>,
    /// What is started instead of the case's own launch.
    pub launch: Option<(Launch, Warm)>,
    /// Whether another number of ranks, now or after a restart, changes what is added up.
    pub changes_sums: bool,
    /// Whether the ranks of each run together make a step on as many samples.
    pub keeps_batch: bool,
    /// The profile of every GPU.
    pub gpu: Option<String>,
    /// Further arguments of the program.
    pub args: Vec<String>,
    /// Variables to set, and those to remove.
    pub env: BTreeMap<String, Option<String>>,
    /// Delays on purpose; another seed if the case has the same.
    pub schedule: Option<Schedule>,
    /// Every rank is on another GPU, and on another node if there is one.
    pub reverses_ranks: bool,
    /// The processes start in the reverse order, one a while after the other.
    pub reverses_starts: bool,
    /// The processes have another date, and a faster clock after the first call of CUDA.
    pub changes_clock: bool,
    /// When it is killed, to be started again in the same directory.
    pub restart: Option<Restart>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// When all processes of a variant are killed.
#[derive(Clone, Debug)]
pub struct Restart {
    /// Matched against each line of the rank's stdout.
    pub after: Regex,
    /// The rank that writes it.
    pub rank: u32,
    /// The number of ranks after it, if another.
    pub reshard: Option<u32>,
}

impl Relation {
    /// As failures name it.
    pub fn named(&self) -> Named<'_> {
        Named { name: &self.name, changes_sums: self.changes_sums, place: &self.place }
    }

    /// Whether the change is one inside the program.
    pub fn changes_program(&self) -> bool {
        self.env.contains_key(RELATION.name)
    }

    /// The failure of such a relation that found nothing to change.
    pub fn changed_nothing(&self) -> Failure {
        let (what, makes) = match self.name.as_str() {
            "workers" => ("another number of processes loads the data", "DataLoader"),
            _ => ("gradients are reduced in buckets of another size", "DistributedDataParallel"),
        };
        Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Relation,
            expected: format!("under `{}`, {what}", self.name),
            got: format!("nothing was changed: the program makes no {makes} after its first call of CUDA"),
            next: format!("leave `{}` out, or let the program look for its GPU first", self.name),
        }
    }

    /// The fewest ranks of its runs, if they have another number; 0 for a launch without ranks.
    pub fn fewest_ranks(&self) -> Option<u32> {
        let of_launch = self.launch.as_ref().map(|(launch, _)| launch.world_size().unwrap_or_default());
        let after = self.restart.as_ref().and_then(|restart| restart.reshard);
        [self.ranks, of_launch, after].into_iter().flatten().min()
    }
}

/// What a run without any change has to compare.
pub struct First {
    numbers: Vec<Number>,
    tensors: Vec<Whole>,
    steps: Option<Run>,
}

impl Relations {
    /// What the run without any change has to compare.
    ///
    /// # Errors
    /// It has nothing, or something that is not understood.
    pub fn read(&self, first: &Observation) -> Result<First, Unknown> {
        let numbers = self.compared.as_ref().map(|compared| compared.read(first));
        let numbers = numbers.transpose().map_err(Unknown::Failed)?.unwrap_or_default();
        let tensors = self.tensors.as_ref().map(|tensors| tensors.read(&first.scratch, None));
        let steps = self.records_steps().then(|| self.read_steps(first, None)).transpose()?;
        Ok(First { numbers, tensors: tensors.transpose()?.unwrap_or_default(), steps })
    }

    /// Whether optimizer steps are compared, or their samples counted.
    pub fn records_steps(&self) -> bool {
        self.steps.is_some() || self.relations.iter().any(|relation| relation.keeps_batch)
    }

    fn read_steps(&self, seen: &Observation, relation: Option<&Relation>) -> Result<Run, Unknown> {
        let keeping = self.relations.iter().find(|relation| relation.keeps_batch);
        let counts = relation.map_or(keeping.is_some(), |relation| relation.keeps_batch);
        let needs_samples = counts || self.steps.as_ref().is_some_and(|steps| steps.samples);
        let place = self.steps.as_ref().map(|steps| &steps.place).or(keeping.map(|relation| &relation.place));
        let before = seen.before.as_ref().map(|before| before.scratch.as_path());
        let unplaced = SourceLocation::default();
        Run::read(&seen.scratch, before, needs_samples, relation.map(Relation::named), place.unwrap_or(&unplaced))
    }

    /// What to say of a case that passed with its first `count` relations: which they are. `None` without any.
    pub fn held(&self, count: usize) -> Option<String> {
        let names: Vec<String> = self.relations.iter().take(count).map(|one| format!("`{}`", one.name)).collect();
        (count > 0).then(|| format!("holds under {}", names.join(", ")))
    }

    /// The numbers of a variant that differ from those of the first run, by step.
    pub fn curves(&self, relation: &Relation, first: &First, variant: &Observation) -> Vec<Curve> {
        let compared = self.compared.as_ref();
        compared.map_or_else(Vec::new, |compared| compared.curves(relation.named(), &first.numbers, variant))
    }

    /// What a variant that passed does not share with the first run.
    ///
    /// # Errors
    /// The variant has no tensors, or some that are not understood.
    pub fn compare(&self, relation: &Relation, first: &First, variant: &Observation) -> Result<Vec<Failure>, Unknown> {
        let named = relation.named();
        let in_numbers = self.compared.as_ref().and_then(|compared| compared.compare(named, &first.numbers, variant));
        let in_steps = self.compare_steps(relation, first, variant)?;
        let seen = in_steps.into_iter().chain(in_numbers);
        let Some(tensors) = &self.tensors else { return Ok(seen.collect()) };
        let second = tensors.read(&variant.scratch, Some(named))?;
        Ok(seen.chain(tensors.compare(named, &first.tensors, &second)).collect())
    }

    /// A batch of another size explains every other difference, and other samples most of them.
    fn compare_steps(
        &self,
        relation: &Relation,
        first: &First,
        variant: &Observation,
    ) -> Result<Option<Failure>, Unknown> {
        let Some(own) = first.steps.as_ref().filter(|_| self.steps.is_some() || relation.keeps_batch) else {
            return Ok(None);
        };
        let (named, second) = (relation.named(), self.read_steps(variant, Some(relation))?);
        let in_batches = relation.keeps_batch.then(|| own.compare_batches(named, &second)).flatten();
        Ok(in_batches.or_else(|| self.steps.as_ref()?.compare(named, own, &second)))
    }
}
