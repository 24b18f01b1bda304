//! Execution: turns a case into an observation. Starts the coordinator and ranks, watches them, ends them, and leaves
//! nothing behind.

mod case_execution;
pub mod collect;
pub mod coordinator;
mod hang;
pub mod launch;
pub mod machines;
pub mod network;
pub mod process_tree;
pub mod python;
pub mod run;
pub mod srun;
pub mod warm;
pub mod watch;

pub use case_execution::run_case;
pub use process_tree::kernel::{keep_descriptors, keep_exit_statuses, survive_file_limit};
pub use run::cancel::Cancel;
pub use run::context::RunContext;
