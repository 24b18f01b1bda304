//! Runs a case to its conclusion: its attempts, and the result according to the case's policies.

mod chaos;
mod observe;
mod variants;

pub use observe::Shared;

use std::borrow::Cow;
use std::time::{Instant, SystemTime};

use observe::Attempts;

use crate::case::Case;
use crate::case::policy::Retries;
use crate::case::requirement;
use crate::check::perf::{self, Measured};
use crate::check::snapshot::SnapshotMode;
use crate::check::{Failure, FailureKind, finding};
use crate::execute::collect::time;
use crate::observation::{Execution, Observation};
use crate::schedule::Settings;
use crate::schedule::resources::SharedPool;
use crate::schedule::run_resources::RunResources;
use crate::verdict::Verdict;
use crate::verdict::conclusion::{Conclusion, Outcome};
use crate::verdict::{environment, judge, policy, relation_result};

/// The attempt number for a program with `retries`, from 1.
const ATTEMPT: &str = "FTEST_ATTEMPT";

/// Runs `case` to its conclusion. Its own share of `pool` is taken already.
pub async fn run(
    case: &Case,
    (resources, pool): (&RunResources, &SharedPool),
    settings: Settings,
    shared: &Shared,
) -> Conclusion {
    let attempts = Attempts { case, resources, pool, settings, shared };
    let now = SystemTime::now();
    let mark = case.xfail.as_ref().filter(|mark| mark.counts(now));
    shared.fixtures.begin(case);
    let mut conclusion = Conclusion::from_outcome(attempts.make(1).await);
    if !conclusion.verdict.is_neutral() && mark.is_none() {
        shared.failed.set(shared.failed.get() + 1);
        if let Some(retries) = &case.retries {
            attempts.retry(retries, &mut conclusion).await;
        }
    }
    if let Some(count) = settings.chaos {
        attempts.chaos(count, &mut conclusion).await;
    }
    shared.fixtures.done(case, resources, settings.keep).await;
    if let Some(last) = conclusion.attempts.last() {
        conclusion.notes.extend(last.perf.iter().filter_map(Measured::note));
        conclusion.notes.extend(finding::notes(&last.observation));
        conclusion.notes.extend(time::uncalibrated(&last.observation.device_reports));
        let relations = case.holds_under.as_ref().filter(|_| conclusion.verdict == Verdict::Passed);
        conclusion.notes.extend(relations.and_then(|relations| relations.held(last.observation.variants.len())));
    }
    match (mark, &case.xfail) {
        (Some(mark), _) => policy::apply(mark, &mut conclusion),
        (None, Some(expired)) => {
            let until = expired.until.map(|until| until.to_string()).unwrap_or_default();
            conclusion.notes.push(format!("`xfail` ({}) expired after {until}", expired.place));
        }
        (None, None) => {}
    }
    if settings.deny_skip {
        deny_skip(case, &mut conclusion);
    }
    if matches!(conclusion.verdict, Verdict::Xfailed { .. }) && !settings.keep {
        for attempt in &mut conclusion.attempts {
            resources.execution.discard(&attempt.observation);
            attempt.kept = false;
        }
    }
    conclusion
}

/// Makes an unmet requirement a failure. A case that the user interrupted stays skipped.
fn deny_skip(case: &Case, conclusion: &mut Conclusion) {
    let interrupted = conclusion.attempts.iter().any(|attempt| attempt.observation.execution.is_interrupted());
    if let Verdict::Skipped { reason } = &conclusion.verdict
        && !interrupted
    {
        conclusion.failures.push(Failure {
            place: Some(case.place.clone()),
            kind: FailureKind::Skip,
            expected: "every case runs (--deny-skip)".to_owned(),
            got: reason.clone(),
            next: String::new(),
        });
        conclusion.verdict = Verdict::Failed;
    }
}

impl Attempts<'_> {
    async fn retry(&self, retries: &Retries, conclusion: &mut Conclusion) {
        while let Some(last) = conclusion.attempts.last().filter(|last| policy::again(retries, self.case, last)) {
            let made = conclusion.attempts.len();
            if made > retries.count as usize {
                break;
            }
            let limit = self.settings.retry_limit;
            if self.shared.failed.get() > limit {
                let note = format!("not tried again: more cases have failed than --retry-limit {limit} allows");
                conclusion.notes.push(note);
                break;
            }
            let before = last.verdict.clone();
            tokio::select! {
                () = tokio::time::sleep(retries.delay) => {}
                () = self.resources.execution.cancel.raised(1) => break,
            }
            let outcome = self.make(made + 1).await;
            if matches!(outcome.verdict, Verdict::Skipped { .. }) {
                // A failed case does not become skipped because the next attempt was skipped.
                conclusion.notes.push(format!("attempt {} was not made: {}", made + 1, reason(&outcome)));
                conclusion.verdict = before;
                break;
            }
            conclusion.verdict = outcome.verdict.clone();
            conclusion.attempts.push(outcome);
        }
        conclusion.flaky = conclusion.verdict == Verdict::Passed && conclusion.attempts.len() > 1;
        if conclusion.flaky && retries.flaky.fails() {
            conclusion.verdict = Verdict::Failed;
            conclusion.failures.push(Failure {
                place: Some(retries.place.clone()),
                kind: FailureKind::Flaky,
                expected: "the first attempt passes".to_owned(),
                got: format!("attempt {} passed", conclusion.attempts.len()),
                next: "`flaky: pass` in `retries` lets that count".to_owned(),
            });
        }
    }

    async fn make(&self, number: usize) -> Outcome {
        let mut case = Cow::Borrowed(self.case);
        if case.retries.is_some() {
            case.to_mut().env.entry(ATTEMPT.to_owned()).or_insert_with(|| number.to_string());
        }
        if self.settings.chaos.is_some() {
            let case = case.to_mut();
            (case.schedule, case.is_compared) = (None, true);
        }
        // Without the fixture outputs of the first run.
        let fresh = (case.deterministic.is_some() || case.holds_under.is_some()).then(|| case.clone());
        let limit = self.resources.execution.limits.for_case(&case).filter(|limit| limit.has_passed());
        let mut observation = match (limit, requirement::unmet(&case)) {
            (Some(limit), _) => Execution::OutOfTime(limit.whose).into(),
            (None, Some(reason)) => Execution::Skipped(reason).into(),
            (None, None) => self.observe(&mut case).await,
        };
        let once = Instant::now();
        if let Some(fresh) = fresh {
            self.repeat(&case, &fresh, &mut observation).await;
        }
        let duration = observation.duration + once.elapsed();
        let case = case.as_ref();
        let (verdict, failures) = judge::judge(case, &observation, self.settings.snapshots);
        let relations = relation_result::results(case, &observation, &verdict);
        // The output and files of the other runs are compared first.
        let parts = observation.variants.iter().filter_map(|variant| variant.before.as_deref());
        for other in observation.again.iter().map(AsRef::as_ref).chain(&observation.variants).chain(parts) {
            if !self.settings.keep {
                self.resources.execution.discard(other);
            }
        }
        let perf = perf::measure(&case.expect.perf, &case.expect.output, &observation);
        let clean = matches!(verdict, Verdict::Passed | Verdict::Skipped { .. });
        if !clean {
            observation.notes.extend(environment::hints(case, &observation));
        }
        let slow = verdict == Verdict::Passed && observation.duration > case.timeout.slow;
        let kept = (self.settings.keep || !clean) && observation.scratch.is_dir();
        if !kept {
            self.resources.execution.discard(&observation);
        }
        Outcome { verdict, failures, perf, observation, duration, relations, slow, kept }
    }

    /// Runs a case that passed a second time if it is `deterministic`, and then with each change of `holds_under`. `fresh` is
    /// the case without the fixture outputs of the first run.
    async fn repeat(&self, case: &Case, fresh: &Case, observation: &mut Observation) {
        let mut alone = Case { deterministic: None, holds_under: None, ..case.clone() };
        // A snapshot that is accepted only later must not keep the other runs from running.
        alone.expect.snapshots.clear();
        if judge::judge(&alone, observation, SnapshotMode::CompareOnly).0 != Verdict::Passed {
            return;
        }
        if case.deterministic.is_some() {
            observation.again = Some(Box::new(self.observe(&mut Cow::Borrowed(fresh)).await));
            let twice = Case { deterministic: case.deterministic.clone(), ..alone };
            if judge::judge(&twice, observation, SnapshotMode::CompareOnly).0 != Verdict::Passed {
                return;
            }
        }
        let Some(relations) = &case.holds_under else { return };
        observation.variants = self.observe_variants(fresh, relations).await;
    }
}

fn reason(outcome: &Outcome) -> String {
    match &outcome.verdict {
        Verdict::Skipped { reason } => reason.clone(),
        other => other.word().to_owned(),
    }
}
