//! The processes that belong together: of a case, of `ftest exec`, of a step of a fixture. Started, watched, ended and
//! reaped in one way.

pub mod capture;
mod children;
pub mod cookie;
pub mod inherit;
pub(crate) mod kernel;
pub mod process;
pub mod sweep;
mod tree;

pub use cookie::COORDINATOR;
pub use process::{Event, ProcessPlan, Running, StartError, Texts};
pub use tree::ProcessTree;
