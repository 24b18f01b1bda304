//! The words that shim, coordinator and runner exchange: ids, datatypes, GPU profiles, messages, reports, variable names.
//!
//! No sockets, files or clocks here: everything is a value. A tour:
//!
//! - [`mod@env`] lists every environment variable; [`launcher`] reads those of torchrun.
//! - [`profile`] has the built-in GPU models of `profiles/`; [`plan`] is a cluster made of them.
//! - [`machine`] has the GPUs of a machine, each a [`gpu`] with its [`gpu_attribute`]s.
//! - [`message`] has the messages between ranks and coordinator, each sent in a [`frame`].
//! - [`resumption`] makes a broken connection whole.
//! - [`activity`] is what a rank does at one moment, [`diagnosis`] why nothing moves any more.
//! - [`route`] knows how many bytes each collective moves between which ranks.
//! - [`secrecy`] derives keys and proofs from the token of a run.
//! - [`report`] is the cluster report, [`device_report`] the report of one process.
//! - [`operations`] has what a process submitted under the modeled clock.
//! - [`sampling`] has the samples that ranks take.
//! - [`step_record`] has the tensors of a training step, for relations between runs.
//!
//! ```
//! use protocol::message::{Role, ToCoordinator, VERSION};
//! use protocol::{frame, profile};
//!
//! // A message survives the wire.
//! let hello = ToCoordinator::Hello { version: VERSION, token: String::new(), role: Role::Control };
//! let mut bytes = frame::encode(&hello);
//! assert_eq!(frame::decode(&mut bytes, frame::MAX_HELLO), Ok(Some(hello)));
//!
//! // An H100 has 80 GiB.
//! let h100 = profile::builtin("h100").unwrap();
//! assert_eq!(h100.memory.bytes, 80 << 30);
//! ```
//!
//! Compatibility rule: a peer whose [`message::VERSION`] differs is refused by name; a changed encoding needs a new version and new
//! goldens.

#![warn(missing_docs)]

pub mod activity;
pub mod announcement;
pub mod assume;
pub mod backlog;
pub mod clock;
pub mod cuda_history;
pub mod datatype;
pub mod device_report;
pub mod diagnosis;
pub mod driver;
pub mod env;
pub mod fault;
pub mod file_access;
pub mod finding;
pub mod frame;
pub mod gpu;
pub mod gpu_attribute;
pub mod gpu_event;
pub mod hybrid;
pub mod ids;
pub mod launcher;
pub mod limit;
pub mod machine;
pub mod market;
pub mod message;
pub mod operations;
pub mod plan;
pub mod profile;
pub mod ready;
pub mod real_cuda;
pub mod record;
pub mod report;
pub mod resumption;
pub mod route;
pub mod sampled_step;
pub mod sampling;
pub mod sanitizer;
pub mod schedule;
pub mod secrecy;
pub mod site;
pub mod skip;
pub mod step_record;
pub mod suggest;
pub mod transfer;
pub mod upstream;
