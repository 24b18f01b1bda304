//! A failed check, as every report shows it, and the kinds that there are.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::source::SourceLocation;

/// A check that did not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failure {
    /// Where the check is written; none for what every case must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<SourceLocation>,
    /// The kind of check: `exit`, `stdout`, `report`, ...
    #[schemars(with = "String")]
    pub kind: FailureKind,
    /// What was wanted.
    pub expected: String,
    /// What was there.
    pub got: String,
    /// What to do next; may be empty.
    #[serde(default)]
    pub next: String,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        /// The kind of check that did not hold.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(from = "Box<str>", into = "Box<str>")]
        pub enum FailureKind {
            $($(#[$doc])* $kind,)*
            /// One that another version of ftest wrote.
            Unknown(Box<str>),
        }

        impl FailureKind {
            /// Every kind that this version makes.
            pub const ALL: &'static [FailureKind] = &[$(FailureKind::$kind),*];

            /// The word in logs and reports.
            pub fn word(&self) -> &str {
                match self {
                    $(FailureKind::$kind => $word,)*
                    FailureKind::Unknown(word) => word,
                }
            }
        }

        impl From<Box<str>> for FailureKind {
            fn from(word: Box<str>) -> Self {
                match &*word {
                    $($word => FailureKind::$kind,)*
                    _ => FailureKind::Unknown(word),
                }
            }
        }
    };
}

kinds! {
    /// Attempts with different seeds ended in different ways.
    Chaos = "chaos",
    /// The coordinator did not end with code 0.
    Coordinator = "coordinator",
    /// A cut of a link was never triggered.
    Cut = "cut",
    /// Two runs of the case differ.
    Deterministic = "deterministic",
    /// The machine lacked something.
    Environment = "environment",
    /// A process ended otherwise than expected.
    Exit = "exit",
    /// A fault never fired.
    Fault = "fault",
    /// A finding that is not expected, or an expected one that was not made.
    Finding = "finding",
    /// A fixture could not be set up.
    Fixture = "fixture",
    /// The case passed only when it was run again.
    Flaky = "flaky",
    /// Something that is not simulated was used.
    Gap = "gap",
    /// Ranks wait for ranks that never arrive, or an expected hang was not found.
    Hang = "hang",
    /// ftest could not run the case.
    Infra = "infra",
    /// An expression is not true.
    Invariant = "invariant",
    /// Not all iterations ended alike.
    Iterations = "iterations",
    /// A `kill` was never triggered.
    Kill = "kill",
    /// Something was left behind.
    Leak = "leak",
    /// A measured value is out of its bounds.
    Perf = "perf",
    /// The interpreter lacks something that the case declares.
    Python = "python",
    /// A change that must not matter changes the result.
    Relation = "relation",
    /// A value of a report is not as expected.
    Report = "report",
    /// The cluster report does not match its schema.
    Schema = "schema",
    /// The case must not be skipped.
    Skip = "skip",
    /// Slurm could not run the case.
    Slurm = "slurm",
    /// A report is not as it was accepted.
    Snapshot = "snapshot",
    /// Standard error is not as expected.
    Stderr = "stderr",
    /// Standard output is not as expected.
    Stdout = "stdout",
    /// A fixture could not be torn down.
    Teardown = "teardown",
    /// The case did not end before its deadline.
    Timeout = "timeout",
    /// The case ended by itself, but not soon enough.
    Within = "within",
    /// The case passed although it was expected to fail.
    Xfail = "xfail",
}

impl Default for FailureKind {
    fn default() -> Self {
        FailureKind::Unknown(Box::default())
    }
}

impl From<FailureKind> for Box<str> {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Unknown(word) => word,
            known => known.word().into(),
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_word_and_one_of_another_version_stays_as_it_is() {
        for kind in FailureKind::ALL.iter().cloned().chain([FailureKind::Unknown("race".into())]) {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<FailureKind>(&json).unwrap(), kind);
        }
        let old = r#"{"kind":"race","expected":"none","got":"one","next":""}"#;
        let failure: Failure = serde_json::from_str(old).unwrap();
        assert_eq!(failure.kind, FailureKind::Unknown("race".into()));
        assert_eq!(serde_json::to_string(&failure).unwrap(), old);
    }
}
