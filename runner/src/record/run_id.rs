//! The ids of runs.

use std::time::SystemTime;

use super::event;
use crate::execute::process_tree::cookie::random_word;
use crate::host::calendar::timestamp;

/// The id of a run that starts at `at`: `20261121T103000.250-1a2b`, so that ids sort by time.
pub fn run_id(at: SystemTime) -> String {
    let time = timestamp(at).replace(['-', ':'], "");
    format!("{time}.{:03}-{}", event::ms(at) % 1000, &random_word()[..4])
}
