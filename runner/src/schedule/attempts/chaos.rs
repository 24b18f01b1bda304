//! `--chaos`: runs a case with many seeds of delays, each compared with the case without delays.

use std::borrow::Cow;

use protocol::schedule::Schedule;

use super::Attempts;
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
        let jitter = self.case.schedule.map_or(Schedule::JITTER, |schedule| schedule.jitter);
        let mut others: Vec<(u32, String)> = Vec::new();
        let mut interrupted = None;
        for seed in 1..=count {
            let schedule = Some(Schedule { seed, jitter });
            let case = Case { schedule, is_compared: true, deterministic: None, ..self.case.clone() };
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
            others.extend(difference(plain, &verdict, &failures, &seen).map(|difference| (seed, difference)));
        }
        let word = plain.verdict.word();
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

/// What a run with delays did differently.
fn difference(plain: &Outcome, verdict: &Verdict, failures: &[Failure], seen: &Observation) -> Option<String> {
    if *verdict != plain.verdict {
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
        Outcome { verdict, failures, perf, observation, slow: false, kept: false }
    }

    #[test]
    fn another_verdict_or_report_is_a_difference() {
        let plain = outcome(Verdict::Passed, 1);
        let of = |other: &Outcome| difference(&plain, &other.verdict, &other.failures, &other.observation);
        assert_eq!(of(&plain), None);
        assert_eq!(of(&outcome(Verdict::Failed, 1)).as_deref(), Some("failed: rank 1 ended"));
        assert_eq!(of(&outcome(Verdict::Passed, 2)).as_deref(), Some("$.calls is 1, then 2"));
    }

    #[test]
    fn seeds_in_words() {
        assert_eq!(in_words(&[(3, "failed".to_owned())]), "1 seed ends otherwise (3): seed 3: failed");
        let others: Vec<(u32, String)> = (1..=7).map(|seed| (seed, "failed".to_owned())).collect();
        assert!(in_words(&others).starts_with("7 seeds end otherwise (1, 2, 3, 4, 5, 6, 7): seed 1: failed; seed 2"));
        assert!(in_words(&others).ends_with("seed 5: failed"));
    }
}
