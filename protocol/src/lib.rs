//! The words that shim, coordinator and runner exchange: ids, datatypes, GPU profiles, messages, reports, variable names.
//!
//! No sockets, files or clocks here. Compatibility rule: a peer whose [`message::VERSION`] differs is refused by name;
//! a changed encoding needs a new version and new goldens.

#![warn(missing_docs)]

pub mod activity;
pub mod announcement;
pub mod backlog;
pub mod datatype;
pub mod device_report;
pub mod driver;
pub mod env;
pub mod fault;
pub mod frame;
pub mod ids;
pub mod launcher;
pub mod limit;
pub mod message;
pub mod plan;
pub mod profile;
pub mod record;
pub mod report;
pub mod route;
pub mod suggest;
