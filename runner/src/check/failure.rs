//! A failed check, as every report shows it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::source::SourceLocation;

/// A check that did not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failure {
    /// Where the check is written; none for what every case must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<SourceLocation>,
    /// The kind of check: `exit`, `stdout`, `report`, ...
    pub kind: Cow<'static, str>,
    /// What was wanted.
    pub expected: String,
    /// What was there.
    pub got: String,
    /// What to do next; may be empty.
    #[serde(default)]
    pub next: String,
}
