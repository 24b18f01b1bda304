//! Ranks that waited until the case was ended, and whom they waited for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::lossy_path;

/// Ranks that waited for ranks that did not come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Hang {
    /// The coordinator noticed it before the kill deadline: nothing moved for `timeout.idle`.
    pub idle: bool,
    /// Which ranks wait for which, and what the missing ones did last.
    pub sentence: String,
    /// Ranks whose processes others waited for and that waited for none.
    pub missing: Vec<u32>,
    /// Where in the program the missing ranks were when they were ended, if Python said so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<String>,
    /// Where in the program these ranks wait, and where the missing ones were last.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Each wait with its duration, and each rank's processes with the state they were in.
    pub details: Vec<String>,
    /// The directory of the flight record, if one could be written.
    #[serde(serialize_with = "lossy_path::optional")]
    #[schemars(with = "Option<PathBuf>")]
    pub flight_record: Option<PathBuf>,
}

impl Hang {
    /// Where the missing ranks are, as it is what the reader looks for; the message; and, each on its own line, the places in
    /// the program.
    pub fn story(&self) -> String {
        let at = if self.at.is_empty() { String::new() } else { format!("{}: ", self.at.join(", ")) };
        let parts: Vec<&str> = std::iter::once(&self.sentence).chain(&self.lines).map(String::as_str).collect();
        at + &parts.join("\n")
    }
}
