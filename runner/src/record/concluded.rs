//! The result of a case, as events.

use super::artifact_store::ArtifactStore;
use super::event::{Attempt, Event};
use crate::case::Case;
use crate::verdict::Verdict;
use crate::verdict::conclusion::Conclusion;

/// The events of `case`, which ended with `conclusion`. The files of its attempts go to `artifacts`; without it they stay.
pub fn events(conclusion: &Conclusion, case: &Case, artifacts: Option<&ArtifactStore>) -> Vec<Event> {
    let mut events = Vec::new();
    for (outcome, number) in conclusion.attempts.iter().zip(1..) {
        // What was skipped before anything started is not an attempt.
        if matches!(outcome.verdict, Verdict::Skipped { .. }) && outcome.observation.processes.is_empty() {
            continue;
        }
        let mut attempt = Attempt::new(number, case, outcome);
        if let Some(artifacts) = artifacts {
            artifacts.keep(case, outcome, &mut attempt);
        }
        events.push(Event::AttemptFinished { case: case.full_id(), attempt });
    }
    events.push(Event::CaseFinished {
        case: case.full_id(),
        verdict: conclusion.verdict.clone(),
        flaky: conclusion.flaky,
        failures: conclusion.failures.clone(),
        notes: conclusion.notes.clone(),
    });
    events
}
