//! `ftest` and `fgpu`: suites -> cases -> observations -> verdicts -> reports.

#[macro_use]
pub mod say;

pub mod attempts;
pub mod calendar;
pub mod case;
pub mod check;
pub mod cli;
pub mod commands;
pub mod conclusion;
pub mod event;
pub mod execute;
pub mod exit_code;
mod expression;
pub mod filter;
pub mod fixture;
pub mod fixtures;
pub mod flight_record;
pub mod install;
pub mod late;
pub mod launch;
mod lossy_path;
pub mod machine;
pub mod manual;
pub mod observation;
pub mod policy;
pub mod printable;
pub mod python;
pub mod record;
pub mod report;
pub mod requirement;
pub mod resources;
pub mod review;
pub mod schedule;
pub mod search;
pub mod shard;
pub mod signal;
pub mod snapshot;
pub mod suite;
pub mod variable;
pub mod version;
mod whole_file;
