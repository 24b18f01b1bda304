//! Groups of processes that belong together: those of a case, of `ftest exec`, or of a fixture step. All are started,
//! watched, ended and reaped in the same way.

pub mod capture;
mod children;
pub mod cookie;
pub mod inherit;
pub(crate) mod kernel;
pub mod process;
pub mod show;
pub mod step;
pub mod sweep;
mod tree;

pub use cookie::COORDINATOR;
pub use process::{Event, ProcessPlan, Running, StartError, Texts};
pub use tree::ProcessTree;
