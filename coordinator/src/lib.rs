//! fakegpu-coordinator: the tokio shell around [`model::cluster::Cluster`].
//!
//! [`settings`] says what to do, `endpoint` owns the listening socket, `session` one connection, and `driver` is the
//! single task that owns the cluster; `report_file` writes what it saw. [`run()`] puts them together.

#![warn(missing_docs)]

mod access;
mod address;
pub mod console;
mod crowd;
mod driver;
mod endpoint;
mod inquiry;
mod left_behind;
mod report_file;
mod run;
mod session;
pub mod settings;

pub use address::Address;
pub use driver::End;
pub use run::{RunError, run};
