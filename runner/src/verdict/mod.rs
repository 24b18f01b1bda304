//! What a case comes to: the verdict on each attempt, what policies make of it, and the exit code of the run.

pub mod conclusion;
pub mod environment;
pub mod exit_code;
pub mod judge;
pub mod policy;
mod word;

pub use word::Verdict;
