//! `--chaos`: runs a case with many seeds of delays, each compared with the case without delays.

use std::borrow::Cow;

use protocol::schedule::Schedule;

use super::observe::Attempts;
use crate::case::Case;
use crate::check::snapshot::SnapshotMode;
use crate::check::{Failure, FailureKind, repeat};
use crate::filter;
use crate::observation::Observation;
use crate::verdict::conclusion::{Conclusion, Outcome};
use crate::verdict::{Verdict, judge};

/// Maximum number of seeds whose difference is shown.
const SHOWN: usize = 5;

impl Attempts<'_> {
    /// Tries the case with `count` seeds; it fails if any of them ends differently from the last attempt.
    pub(super) async fn chaos(&self, count: u32, conclusion: &mut Conclusion) {
        let decided = matches!(conclusion.verdict, Verdict::Passed | Verdict::Failed | Verdict::Timeout);
        let Some(plain) = conclusion.attempts.last().filter(|_| decided && self.case.cluster.is_some()) else { return };
        let expected = of_one_run(plain);
        let jitter = self.case.schedule.map_or(Schedule::JITTER, |schedule| schedule.jitter);
        let mut others: Vec<(u32, String)> = Vec::new();
        let mut interrupted = None;
        for seed in 1..=count {
            let schedule = Some(Schedule { seed, jitter });
            let case =
                Case { schedule, is_compared: true, deterministic: None, holds_under: None, ..self.case.clone() };
            let mut case = Cow::Owned(case);
            let seen = self.observe(&mut case).await;
            let (verdict, failures) = judge::judge(&case, &seen, SnapshotMode::CompareOnly);
            if !self.settings.keep {
                self.resources.execution.discard(&seen);
            }
            if matches!(verdict, Verdict::Skipped { .. }) {
                interrupted = Some(format!("--chaos: {} of {count} seeds were tried", seed - 1));
                break;
            }
            others.extend(
                difference((&expected, plain), &verdict, &failures, &seen).map(|difference| (seed, difference)),
            );
        }
        let word = expected.word();
        conclusion.notes.extend(interrupted);
        let Some((first, _)) = others.first() else {
            conclusion
                .notes
                .push(format!("--chaos: all seeds that were tried end like the run without delays: {word}"));
            return;
        };
        conclusion.failures.push(Failure {
            place: Some(self.case.place.clone()),
            kind: FailureKind::Chaos,
            expected: format!("{count} seeds of delays end like the run without delays: {word}, with the same report"),
            got: in_words(&others),
            next: format!(
                "one of them again: ftest run {} --filter {} --schedule {}",
                self.case.place.file.display(),
                filter::one(&self.case.full_id()),
                Schedule { seed: *first, jitter }
            ),
        });
        if conclusion.verdict == Verdict::Passed {
            conclusion.verdict = Verdict::Failed;
        }
    }
}

/// The verdict of the run without delays alone: the seeds are not compared with the other runs of `deterministic` and `holds_under`.
fn of_one_run(plain: &Outcome) -> Verdict {
    let is_of_others = |failure: &Failure| matches!(failure.kind, FailureKind::Deterministic | FailureKind::Relation);
    match &plain.verdict {
        Verdict::Failed if plain.failures.iter().all(is_of_others) => Verdict::Passed,
        other => other.clone(),
    }
}

/// What a run with delays did differently than the run without, which has this verdict.
fn difference(
    (expected, plain): (&Verdict, &Outcome),
    verdict: &Verdict,
    failures: &[Failure],
    seen: &Observation,
) -> Option<String> {
    if verdict != expected {
        let why = failures.first().map_or(String::new(), |failure| format!(": {}", failure.got));
        return Some(format!("{}{why}", verdict.word()));
    }
    repeat::in_report(&plain.observation, seen).into_iter().next()
}

/// The seeds, and what the first of them did.
fn in_words(others: &[(u32, String)]) -> String {
    let seeds: Vec<String> = others.iter().map(|(seed, _)| seed.to_string()).collect();
    let shown: Vec<String> =
        others.iter().take(SHOWN).map(|(seed, difference)| format!("seed {seed}: {difference}")).collect();
    let end = if others.len() == 1 { "seed ends" } else { "seeds end" };
    format!("{} {end} otherwise ({}): {}", others.len(), seeds.join(", "), shown.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(verdict: Verdict, calls: u32) -> Outcome {
        let cluster_report = Some(json!({ "calls": calls, "measured": { "pid": calls } }));
        let observation = Observation { cluster_report, ..Observation::default() };
        let (failures, perf) = (vec![Failure { got: "rank 1 ended".to_owned(), ..Failure::default() }], Vec::new());
        Outcome {
            verdict,
            failures,
            perf,
            observation,
            duration: std::time::Duration::ZERO,
            relations: Vec::new(),
            slow: false,
            kept: false,
        }
    }

    #[test]
    fn another_verdict_or_report_is_a_difference() {
        let plain = outcome(Verdict::Passed, 1);
        let of =
            |other: &Outcome| difference((&plain.verdict, &plain), &other.verdict, &other.failures, &other.observation);
        assert_eq!(of(&plain), None);
        assert_eq!(of(&outcome(Verdict::Failed, 1)).as_deref(), Some("failed: rank 1 ended"));
        assert_eq!(of(&outcome(Verdict::Passed, 2)).as_deref(), Some("$.calls is 1, then 2"));
    }

    #[test]
    fn a_difference_between_other_runs_is_none_of_the_seeds() {
        let with =
            |kind| Outcome { failures: vec![Failure { kind, ..Failure::default() }], ..outcome(Verdict::Failed, 1) };
        assert_eq!(of_one_run(&with(FailureKind::Relation)), Verdict::Passed);
        assert_eq!(of_one_run(&with(FailureKind::Deterministic)), Verdict::Passed);
        assert_eq!(of_one_run(&with(FailureKind::Exit)), Verdict::Failed);
        assert_eq!(of_one_run(&outcome(Verdict::Timeout, 1)), Verdict::Timeout);
    }

    #[test]
    fn seeds_in_words() {
        assert_eq!(in_words(&[(3, "failed".to_owned())]), "1 seed ends otherwise (3): seed 3: failed");
        let others: Vec<(u32, String)> = (1..=7).map(|seed| (seed, "failed".to_owned())).collect();
        assert!(in_words(&others).starts_with("7 seeds end otherwise (1, 2, 3, 4, 5, 6, 7): seed 1: failed; seed 2"));
        assert!(in_words(&others).ends_with("seed 5: failed"));
    }
}
