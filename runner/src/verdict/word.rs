//! The verdicts.

use serde::{Deserialize, Serialize};

/// The result of a case or an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Verdict {
    /// Every check held.
    #[default]
    Passed,
    /// A check did not hold.
    Failed,
    /// A gap, or something the runner could not do.
    Broken,
    /// A deadline passed.
    Timeout,
    /// It did not run.
    Skipped {
        /// Why.
        reason: String,
    },
    /// It did not pass, as its `xfail` expects.
    Xfailed {
        /// Why that is expected.
        reason: String,
    },
}

impl Verdict {
    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Broken => "broken",
            Verdict::Timeout => "timeout",
            Verdict::Skipped { .. } => "skipped",
            Verdict::Xfailed { .. } => "xfailed",
        }
    }

    /// Whether a run with this verdict can exit with 0.
    pub fn is_neutral(&self) -> bool {
        matches!(self, Verdict::Passed | Verdict::Skipped { .. } | Verdict::Xfailed { .. })
    }
}
