//! From one case to its conclusion: attempts, and what the policies of the case make of them.

use crate::case::Case;
use crate::check::{self, Verdict};
use crate::execute::{RunContext, run_case};
use crate::observation::Observation;
use crate::progress::{Conclusion, Outcome};
use crate::requirement;
use crate::schedule::Settings;

/// Runs `case` to its conclusion.
pub async fn run(case: &Case, context: &RunContext, settings: Settings) -> Conclusion {
    Conclusion::of(attempt(case, context, settings).await)
}

async fn attempt(case: &Case, context: &RunContext, settings: Settings) -> Outcome {
    let observation = match requirement::unmet(case) {
        Some(reason) => Observation { skipped: Some(reason), ..Observation::default() },
        None => run_case(case, context).await,
    };
    let (verdict, failures) = check::judge(case, &observation, settings.accept);
    let clean = matches!(verdict, Verdict::Passed | Verdict::Skipped(_));
    let slow = verdict == Verdict::Passed && observation.duration > case.timeout.slow;
    let kept = (settings.keep || !clean) && observation.scratch.is_dir();
    if !kept {
        context.discard(&observation);
    }
    Outcome { verdict, failures, observation, slow, kept }
}
