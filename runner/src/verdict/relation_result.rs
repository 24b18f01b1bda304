//! What became of each relation of an attempt, as the event log has it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Verdict;
use super::judge::relations::{Outcome, Tried, duration, tried};
use crate::case::Case;
use crate::check::compared::Curve;
use crate::observation::Observation;

/// What became of a relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RelationResult {
    /// As the suite writes it: `ranks: 1`.
    pub relation: String,
    /// Whether it holds; none if nobody knows.
    pub holds: Option<bool>,
    /// The first difference, or why nobody knows; empty if it holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub got: String,
    /// How long its runs took, us.
    pub duration_us: u64,
    /// The numbers that differ, by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
}

impl RelationResult {
    /// How reports call it.
    pub fn word(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "differs",
            None => "unknown",
        }
    }
}

/// The results of the relations of `case`; none if it did not come to them, or was interrupted.
pub fn results(case: &Case, observation: &Observation, verdict: &Verdict) -> Vec<RelationResult> {
    let Some(relations) = case.holds_under.as_ref().filter(|_| !observation.variants.is_empty()) else {
        return Vec::new();
    };
    let named = |name: &str, took: Duration| RelationResult {
        relation: name.to_owned(),
        duration_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        ..RelationResult::default()
    };
    if *verdict == Verdict::Passed {
        let held = relations.relations.iter().zip(&observation.variants);
        let held = held.map(|(one, seen)| RelationResult { holds: Some(true), ..named(&one.name, duration(seen)) });
        return held.collect();
    }
    let result = |one: Tried<'_>| {
        let (holds, got) = match one.outcome {
            Outcome::Holds => (Some(true), String::new()),
            Outcome::Differs(failures) => (Some(false), failures.into_iter().next()?.got),
            Outcome::Unknown(failure) => (None, failure.got),
            Outcome::Interrupted(_) => return None,
        };
        Some(RelationResult { holds, got, curves: one.curves, ..named(&one.relation.name, one.duration) })
    };
    tried(case, relations, observation).into_iter().flatten().filter_map(result).collect()
}
