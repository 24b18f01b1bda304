//! Locations in the user's files.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::lossy_path;

/// A place in a suite file; line and column count from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Place")]
pub struct SourceLocation {
    /// As the user named it.
    #[serde(serialize_with = "lossy_path::serialize")]
    #[schemars(with = "PathBuf")]
    pub file: PathBuf,
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}
