//! fakegpu-coordinator: the tokio shell around [`model::cluster::Cluster`].
//!
//! [`settings`] says what to do, [`endpoint`] owns the listening socket, [`session`] one connection each, and
//! [`driver`] is the single task that owns the cluster; [`report_file`] writes what it saw. [`run()`] joins them.

#![warn(missing_docs)]

mod access;
mod crowd;
mod driver;
pub mod endpoint;
mod inquiry;
mod left_behind;
mod report_file;
mod run;
mod session;
pub mod settings;

pub use run::{End, RunError, run};
