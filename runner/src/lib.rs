//! `ftest` and `fgpu`: suites -> cases -> observations -> verdicts -> reports.

pub mod case;
pub mod check;
pub mod launch;
pub mod observation;
pub mod progress;
