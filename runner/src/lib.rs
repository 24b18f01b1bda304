//! `ftest` and `fgpu`: suites -> cases -> observations -> verdicts -> reports.

#[macro_use]
pub mod host;

pub mod case;
pub mod check;
pub mod commands;
pub mod execute;
pub mod expression;
pub mod filter;
pub mod observation;
pub mod record;
pub mod report;
pub mod review;
pub mod schedule;
pub mod source;
pub mod suite;
pub mod verdict;
