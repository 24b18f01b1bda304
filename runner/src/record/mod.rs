//! What is kept of a run: the fold of its events, from which every report is made.

pub mod run;

use std::time::SystemTime;

pub use run::{CaseRun, Run};

use crate::calendar::timestamp;
use crate::execute::cookie::random_word;

/// The id of a run that starts at `at`: `20261121T103000-1a2b`, so that ids sort by time.
pub fn run_id(at: SystemTime) -> String {
    let time = timestamp(at).replace(['-', ':'], "");
    format!("{time}-{}", &random_word()[..4])
}
