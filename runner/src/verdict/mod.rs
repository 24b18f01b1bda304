//! The result of a case: the verdict on each attempt, the effect of policies, and the exit code of the run.

pub mod conclusion;
pub mod environment;
pub mod exit_code;
pub mod judge;
mod left_out;
pub mod policy;
pub mod relation_result;
mod word;

pub use word::Verdict;
