//! Execution: from a case to what was seen. Starts coordinator and ranks, watches them, ends them, leaves nothing behind.

pub mod cancel;
pub mod capture;
mod children;
pub mod clock;
pub mod context;
pub mod control;
pub mod cookie;
pub mod coordinator;
pub mod debug;
pub mod discover;
mod faults;
pub mod guard;
mod hang;
pub mod job;
mod kernel;
mod kills;
mod lean_report;
mod life;
pub mod limit;
mod native_state;
mod port;
pub mod process;
pub mod ranks;
pub mod reports;
pub mod scratch;
pub mod shared_memory;
pub mod show;
pub mod step;
pub mod sweep;
pub mod torchrun;

pub use cancel::Cancel;
pub use context::RunContext;
pub use kernel::keep_descriptors;
pub use life::run_case;
