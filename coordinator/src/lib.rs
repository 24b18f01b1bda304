//! `fakegpu-coordinator`: the tokio shell around [`model::cluster::Cluster`]. It listens, passes incoming messages to the
//! cluster, sends its outputs, and writes the report. It never sees a tensor byte.
//!
//! [`settings`] resolves flags and variables, [`run()`] serves until it is stopped. Inside, `endpoint` owns the listening socket,
//! `session` opens one connection, `conversation` reads and writes it and the connections that replace it after a reset, `driver` is
//! the single task that owns the cluster, and `report_file` writes the report.
//!
//! ```
//! use clap::Parser;
//! use coordinator::settings::{Arguments, Settings};
//! use coordinator::{End, run};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let arguments = Arguments::parse_from(["fakegpu-coordinator", "--address", "127.0.0.1:0"]);
//! let settings = Settings::resolve(arguments, &|_variable| None)?;
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let mut address = String::new();
//! // It stops at once here; the program waits for a signal or for the last rank.
//! runtime.block_on(run(settings, |ready| address = ready.to_owned(), async { End::Asked }))?;
//! assert!(address.starts_with("127.0.0.1:"));
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod access;
mod address;
pub mod console;
mod conversation;
mod driver;
mod endpoint;
mod event;
mod inquiry;
mod left_behind;
mod machine;
mod pending;
mod report_file;
mod returns;
mod run;
mod session;
pub mod settings;
mod wire;

pub use address::Address;
pub use driver::End;
pub use run::{RunError, run};
