//! The rules of the pretended cluster as pure values: no sockets, files, clocks, environment or threads.

#![warn(missing_docs)]

pub mod checker;
pub mod cluster_file;
pub mod diagnostic;
pub mod node;
pub mod yaml;
