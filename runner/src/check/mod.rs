//! Checks: predicates on the observation of a case. Pure, except that snapshots read and write their files.

pub mod capture;
pub mod cause;
pub mod common_cause;
pub mod compared;
pub mod exit;
pub mod expectations;
pub mod failure;
pub mod finding;
pub mod gap;
pub mod hang;
pub mod invariant;
pub mod need;
pub mod numbers;
pub mod operator;
pub mod output;
pub mod perf;
pub mod repeat;
pub mod report;
pub mod report_shape;
pub mod search;
pub mod snapshot;
pub mod snapshot_file;
pub mod steps;
pub mod stream;
pub mod tensors;
pub mod tolerance;

pub use expectations::{Expectations, Leaks};
pub use failure::{Failure, FailureKind};
