//! What a case comes to: the conclusion of its attempts, and the exit code of the run.

pub mod conclusion;
pub mod exit_code;
