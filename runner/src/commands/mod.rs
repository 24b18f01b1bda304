//! What the programs do, one file per command; each with its own part of the command line.

pub mod bench;
pub mod check;
pub mod cli;
pub mod ending;
pub mod env;
pub mod exec;
pub mod explain;
pub mod fgpu;
pub mod fmt;
pub mod list;
pub mod manual;
mod one_run;
pub mod profiles;
pub mod replay;
pub mod reports;
pub mod review;
pub mod run;
pub mod runs;
pub mod schema;
mod seen;
pub mod select;
pub mod show;
mod signals;
mod suites;
pub mod top;
mod watch;
