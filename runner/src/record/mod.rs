//! What is kept of a run: its event log and files, the fold of the log from which every report is made, and what later
//! runs ask of it.

pub mod artifact_store;
pub mod concluded;
pub mod event;
pub mod history;
pub mod log;
pub mod merge;
pub mod recorder;
pub mod run;
pub mod schema;
pub mod secrets;
pub mod store;

use std::time::SystemTime;

pub use artifact_store::ArtifactStore;
pub(crate) use log::{LOCK, LOG};
pub use recorder::Recorder;
pub use run::{CaseRun, Run};
pub use store::{Runs, Store};

use crate::execute::process_tree::cookie::random_word;
use crate::host::calendar::timestamp;

/// The id of a run that starts at `at`: `20261121T103000.250-1a2b`, so that ids sort by time.
pub fn run_id(at: SystemTime) -> String {
    let time = timestamp(at).replace(['-', ':'], "");
    format!("{time}.{:03}-{}", event::ms(at) % 1000, &random_word()[..4])
}
