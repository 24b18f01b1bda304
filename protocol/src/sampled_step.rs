//! The steps of a program's optimizers, and the samples that each was made on: what ranks write and relations between runs compare.

use serde::{Deserialize, Serialize};

use crate::site::CallSite;

/// A line of a process's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// After a step of an optimizer.
    Step(SampledStep),
    /// The samples of a data loader cannot be told.
    Refused {
        /// What, and why.
        why: String,
    },
}

/// One step of one optimizer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledStep {
    /// The rank, if the process has one.
    pub rank: Option<u32>,
    /// The position of the optimizer among those of the process, by their first steps, from 0.
    pub optimizer: u32,
    /// How many steps it has made.
    pub step: u64,
    /// Where the program called the step.
    pub site: Option<CallSite>,
    /// The indices in their datasets of the samples that the data loaders of the process gave to training since the step before.
    pub samples: Vec<i64>,
}
