//! Checks: an observation against what a case expects. Pure, except that a snapshot reads and writes its file.

use crate::case::Place;

/// What must come of a case.
#[derive(Clone, Debug, Default)]
pub struct Expectations {}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every check held.
    Passed,
    /// A check did not hold.
    Failed,
    /// We could not play our part: a gap, or something the runner could not do.
    Broken,
    /// It did not run: why.
    Skipped(String),
    /// The kill deadline passed.
    Timeout,
}

/// A check that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where the check is written; none for what every case must satisfy.
    pub place: Option<Place>,
    /// The kind of check: `exit`, `stdout`, `report`, ...
    pub kind: &'static str,
    /// What was wanted.
    pub expected: String,
    /// What was there.
    pub got: String,
    /// What to do next; may be empty.
    pub next: String,
}
