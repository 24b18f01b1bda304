//! How often the cases of a run are run, and the result of a case that ran several times.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::case::Case;
use crate::check::{Failure, FailureKind};
use crate::record::ArtifactStore;
use crate::record::event;
use crate::record::event::Event;
use crate::suite::quantity;
use crate::verdict::Verdict;
use crate::verdict::conclusion::{Conclusion, Outcome};

/// How often cases run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounds {
    /// Once; `retries` count.
    #[default]
    Once,
    /// This many times; no iteration is retried.
    Count(u32),
    /// Round after round for this long, at least once; no iteration is retried.
    For(Duration),
}

impl Rounds {
    /// Whether cases run several times.
    pub fn repeat(self) -> bool {
        self != Rounds::Once
    }
}

impl FromStr for Rounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Rounds, String> {
        match text.parse::<u32>() {
            Ok(0) => Err("0 iterations are none".to_owned()),
            Ok(count) => Ok(Rounds::Count(count)),
            Err(_) => {
                let time = quantity::duration(text).map_err(|_| "write a number, or a time like 10m".to_owned())?;
                Ok(Rounds::For(time))
            }
        }
    }
}

impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rounds::Once => f.write_str("once"),
            Rounds::Count(count) => write!(f, "{count} times"),
            Rounds::For(time) => write!(f, "for {} s", time.as_secs_f64()),
        }
    }
}

/// The results of the iterations of one case so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    made: u32,
    passed: u32,
    /// Number and verdict of the first that did not pass.
    first: Option<(u32, Verdict)>,
    last: Option<Verdict>,
}

impl Tally {
    /// Records an iteration and returns its event; `None` if it did not run. Files of the first failed iteration go to
    /// `artifacts`. `discard` is called for the scratch directory of any later failed one.
    pub fn add(
        &mut self,
        case: &Case,
        mut conclusion: Conclusion,
        artifacts: Option<&ArtifactStore>,
        discard: impl Fn(&Outcome),
    ) -> Option<Event> {
        self.last = Some(conclusion.verdict.clone());
        if matches!(conclusion.verdict, Verdict::Skipped { .. }) {
            return None;
        }
        self.made += 1;
        let fine = conclusion.verdict.is_neutral();
        self.passed += u32::from(fine);
        let outcome = conclusion.attempts.last_mut()?;
        let first = !fine && self.first.is_none();
        if first {
            self.first = Some((self.made, conclusion.verdict.clone()));
        } else if !fine && outcome.kept {
            discard(outcome);
            outcome.kept = false;
        }
        let mut attempt = event::Attempt::new(self.made, case, outcome);
        attempt.verdict = conclusion.verdict.clone();
        if let Some(artifacts) = artifacts.filter(|_| first) {
            artifacts.keep(case, outcome, &mut attempt);
        }
        if !first {
            // Thousands of them must not fill memory; the first failed one shows what happened.
            for process in &mut attempt.processes {
                (process.stdout, process.stderr) = Default::default();
            }
        }
        Some(Event::AttemptFinished { case: case.full_id(), attempt })
    }

    /// Whether the case is finished early: it was skipped, and would be skipped again.
    pub fn is_over(&self) -> bool {
        matches!(self.last, Some(Verdict::Skipped { .. }))
    }

    /// The end event of a case that began; `None` for one that never did.
    pub fn finish(&self, case: &Case) -> Option<Event> {
        let last = self.last.clone()?;
        let mut notes = Vec::new();
        let mut failures = Vec::new();
        let mut counted = format!("{} of {} iterations passed", self.passed, self.made);
        if case.retries.is_some() {
            counted.push_str("; `retries` did not apply");
        }
        let verdict = match &self.first {
            Some((number, verdict)) => {
                let failure = Failure {
                    place: Some(case.place.clone()),
                    kind: FailureKind::Iterations,
                    expected: "every iteration passes".to_owned(),
                    got: format!("{counted}; the first that did not is iteration {number}"),
                    next: String::new(),
                };
                failures.push(failure);
                verdict.clone()
            }
            // Interrupted in a later iteration: the earlier ones count.
            None if self.made > 0 => {
                notes.push(counted);
                if matches!(last, Verdict::Skipped { .. }) { Verdict::Passed } else { last }
            }
            None => last,
        };
        Some(Event::CaseFinished { case: case.full_id(), verdict, flaky: false, failures, notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_by_table() {
        for (text, rounds) in [
            ("50", Rounds::Count(50)),
            ("10m", Rounds::For(Duration::from_secs(600))),
            ("1m30s", Rounds::For(Duration::from_secs(90))),
        ] {
            assert_eq!(text.parse(), Ok(rounds));
        }
        for text in ["0", "-1", "ten", "5 apples", ""] {
            assert!(text.parse::<Rounds>().is_err(), "{text}");
        }
    }
}
