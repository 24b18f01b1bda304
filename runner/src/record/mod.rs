//! What is kept of a run: its event log and files, the fold of the log from which every report is made, and what later
//! runs ask of it.

pub mod artifact_store;
pub mod concluded;
pub mod event;
pub mod history;
pub mod keep;
pub mod log;
pub mod merge;
pub mod recorder;
pub mod run;
mod run_id;
pub mod schema;
pub mod secrets;
pub mod shards;
pub mod store;

pub use artifact_store::ArtifactStore;
pub(crate) use log::{LOCK, LOG};
pub use recorder::Recorder;
pub use run::{CaseRun, Run};
pub use run_id::run_id;
pub use store::{Runs, Store};
