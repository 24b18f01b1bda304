//! The optimizer steps that a run made, each with the samples of all ranks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use protocol::sampled_step::Line;
use protocol::site::CallSite;

/// One step of an optimizer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Step {
    /// The line of the step.
    pub(super) site: Option<CallSite>,
    /// What each rank took for it, ascending. Ranks with the same samples share a batch, as those of tensor parallelism do.
    shares: Vec<Vec<i64>>,
}

impl Step {
    /// The samples of all ranks, ascending; one that several took is there several times.
    pub(super) fn samples(&self) -> Vec<i64> {
        let mut samples = self.shares.concat();
        samples.sort_unstable();
        samples
    }

    fn add(&mut self, mut samples: Vec<i64>) {
        samples.sort_unstable();
        if !samples.is_empty() && !self.shares.contains(&samples) {
            self.shares.push(samples);
        }
    }
}

/// The steps of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// By optimizer, in the order of its steps.
    pub(super) steps: BTreeMap<u32, Vec<Step>>,
    /// Why the samples of a data loader are not known.
    pub(super) refused: Option<String>,
}

impl Made {
    /// What the processes of a run recorded in `directory`; nothing if there is no such directory.
    ///
    /// # Errors
    /// A file cannot be read: which one, and why.
    pub(super) fn read(directory: &Path) -> Result<Self, String> {
        let mut files: Vec<_> = match fs::read_dir(directory) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => return Ok(Self::default()),
        };
        files.sort();
        let mut by_step: BTreeMap<(u32, u64), Step> = BTreeMap::new();
        let mut refused = None;
        for file in files {
            let unreadable = |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", file.display());
            let text = fs::read_to_string(&file).map_err(|error| unreadable(&error))?;
            // A process that is killed may leave a line that is not whole.
            for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
                match serde_json::from_str(line).map_err(|error| unreadable(&error))? {
                    Line::Refused { why } => drop(refused.get_or_insert(why)),
                    Line::Step(made) => {
                        let step = by_step.entry((made.optimizer, made.step)).or_default();
                        step.site = step.site.take().or(made.site);
                        step.add(made.samples);
                    }
                }
            }
        }
        let mut steps: BTreeMap<u32, Vec<Step>> = BTreeMap::new();
        for ((optimizer, _), step) in by_step {
            steps.entry(optimizer).or_default().push(step);
        }
        Ok(Self { steps, refused })
    }

    /// How many steps the optimizer made.
    pub(super) fn count(&self, optimizer: u32) -> usize {
        self.steps.get(&optimizer).map_or(0, Vec::len)
    }

    /// Whether a data loader gave samples to any step.
    pub(super) fn has_samples(&self) -> bool {
        self.steps.values().flatten().any(|step| !step.shares.is_empty())
    }
}
