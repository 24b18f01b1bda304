//! The commands of the programs, one file each, with their part of the command line.

// `println!` and `eprintln!` here are the runner's, which do not panic when nobody reads.
#[macro_use(eprintln, println)]
extern crate runner;

mod after_torch;
pub mod agent;
mod alone;
pub mod bench;
pub mod check;
pub mod cli;
pub mod cluster;
pub mod docs;
pub mod doctor;
mod drive;
pub mod ending;
pub mod env;
pub mod exec;
pub mod explain;
pub mod fgpu;
pub mod fmt;
pub mod init;
pub mod list;
pub mod machines;
pub mod man;
pub mod manual;
pub mod modeled;
pub mod new;
mod one_run;
mod package;
pub mod preflight;
pub mod profiles;
mod pytest;
mod real_gpus;
pub mod relations;
pub mod replay;
pub mod reports;
pub mod review;
pub mod run;
pub mod runs;
pub mod schema;
mod seen;
pub mod select;
pub mod select_args;
pub mod show;
mod signals;
mod suites;
pub mod top;
mod watch;
pub mod what_if;
