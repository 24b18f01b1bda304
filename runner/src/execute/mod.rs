//! Execution: turns a case into an observation. Starts the coordinator and ranks, watches them, ends them, and leaves
//! nothing behind.

mod awaited;
pub mod cancel;
mod case_execution;

pub mod clock;
pub mod context;
pub mod control;
pub mod coordinator;
mod cuts;
pub(crate) mod deaths;
pub mod debug;
mod descriptors;
pub mod discover;
mod faults;
pub mod flight_record;
pub mod gaps;
pub mod guard;
mod hang;
pub mod job;
pub mod journal;
mod kills;
pub mod launch;
mod lean_report;
pub mod limit;
mod loader;
pub mod machines;
mod native_state;
pub mod network;
mod no_capture;
pub mod placement;
mod port;
pub mod process_tree;
pub mod python;
mod python_stack;
pub mod ranks;
pub mod reports;
pub mod scratch;
pub mod shared_memory;
pub mod show;
pub mod srun;
pub mod step;
mod stillness;
mod stuck;
pub mod torchrun;
pub mod warm;

pub use cancel::Cancel;
pub use case_execution::run_case;
pub use context::RunContext;
pub use process_tree::kernel::{keep_descriptors, keep_exit_statuses, survive_file_limit};
