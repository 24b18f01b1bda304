//! The result of a case with all observations, before it is turned into events.

use std::time::Duration;

use crate::case::{Case, KillTarget};
use crate::check::Failure;
use crate::check::perf::Measured;
use crate::observation::{Exit, Observation, Role};
use crate::verdict::Verdict;
use crate::verdict::relation_result::RelationResult;

/// The result of one case: its attempts, and the verdict after policies (`retries`, `xfail`).
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The last attempt's verdict unless a policy changes it.
    pub verdict: Verdict,
    /// It passed after an attempt that did not.
    pub flaky: bool,
    /// Failures outside the attempts, from a policy that set the verdict.
    pub failures: Vec<Failure>,
    /// Other things a reader should know.
    pub notes: Vec<String>,
    /// The attempts in order, at least one.
    pub attempts: Vec<Outcome>,
}

impl Conclusion {
    /// The conclusion from one attempt without any policy.
    pub fn from_outcome(outcome: Outcome) -> Conclusion {
        Conclusion {
            verdict: outcome.verdict.clone(),
            flaky: false,
            failures: Vec::new(),
            notes: Vec::new(),
            attempts: vec![outcome],
        }
    }

    /// The most informative attempt and its number, from 1: the first that did not pass, or else the last.
    pub fn shown(&self) -> (usize, &Outcome) {
        let failed = self.attempts.iter().position(|attempt| attempt.verdict != Verdict::Passed);
        let index = failed.unwrap_or(self.attempts.len().saturating_sub(1));
        (index + 1, &self.attempts[index])
    }
}

/// The result of one attempt of a case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// Every failed check, in file order.
    pub failures: Vec<Failure>,
    /// What `perf` measured.
    pub perf: Vec<Measured>,
    /// What was seen.
    pub observation: Observation,
    /// How long its runs took: the case, the second one of a `deterministic` case, and its variants.
    pub duration: Duration,
    /// What became of its relations.
    pub relations: Vec<RelationResult>,
    /// It took longer than `timeout.slow`.
    pub slow: bool,
    /// The scratch directory was left in place.
    pub kept: bool,
}

/// The process with the most informative output: a rank that a hang waits for, else the first that failed by itself, else the first
/// rank that did not exit with 0, else the first launcher, else the coordinator, else the first that said anything.
pub fn culprit(case: &Case, observation: &Observation) -> Option<Role> {
    let killed = |role: Role| {
        case.kill.iter().any(|kill| match (kill.target, role) {
            (KillTarget::Coordinator, Role::Coordinator) => true,
            (KillTarget::Rank(target), Role::Rank(rank)) => target == rank,
            _ => false,
        })
    };
    // A hanging rank is ended like those that wait for it, but its stack explains most.
    let missing = observation.execution.hang().into_iter().flat_map(|hang| &hang.missing).map(|rank| Role::Rank(*rank));
    if let Some(role) = missing.into_iter().find(|role| observation.process(*role).is_some()) {
        return Some(role);
    }
    if let Some(cause) = case.expect.exit.cause(observation) {
        return Some(cause.role);
    }
    let bad = |exit: &Exit| !matches!(exit, Exit::Code(0));
    // The process that failed before the others were ended explains more than they do.
    let failed = case.expect.exit.failed_early(observation).into_iter().map(|process| process.role).min();
    if let Some(role) = failed.filter(|_| !observation.execution.unfinished().is_empty()) {
        return Some(role);
    }
    observation
        .processes
        .iter()
        .filter(|process| bad(&process.exit) && !killed(process.role) && !process.stderr.head.is_empty())
        .min_by_key(|process| process.role)
        .or_else(|| observation.processes.iter().find(|process| bad(&process.exit) && !killed(process.role)))
        .or_else(|| observation.processes.iter().find(|process| !process.stderr.head.is_empty()))
        // A program that gives up with code 0 says why on stdout.
        .or_else(|| {
            let own = observation.processes.iter().filter(|process| process.role != Role::Coordinator);
            own.filter(|process| !process.stdout.head.is_empty()).min_by_key(|process| process.role)
        })
        .map(|process| process.role)
}
