//! One test, fully expanded, as the plan passes it to execution and to the checks. Nothing here is read from a file.

pub mod cluster;
mod condition;
mod definition;
mod disturbance;
pub mod fixture;
mod launch;
pub mod layout;
mod limits;
pub mod network;
pub mod outputs;
pub mod policy;
pub mod python;
pub mod relation;
pub mod requirement;
pub mod srun;
pub mod variables;
pub mod variant;

pub use condition::Requirement;
pub use definition::Case;
pub use disturbance::{Fault, Kill, KillTarget};
pub use launch::{Launch, Transport, Warm};
pub use limits::{Resources, Timeout};
