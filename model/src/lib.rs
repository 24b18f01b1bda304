//! The rules of the simulated cluster as pure values: no sockets, files, clocks, environment or threads.
//!
//! Files become values in [`cluster_file`] (through [`yaml`], with every mistake a [`diagnostic`]). A run is one
//! [`cluster::Cluster`]: inputs and the time go in, messages to send come out, and [`protocol::report::ClusterReport`]s
//! can be taken at any moment. Tensor values are not here: ranks compute them.

#![warn(missing_docs)]

pub mod checker;
pub mod cluster;
pub mod cluster_file;
mod communicator;
pub mod cost;
pub mod diagnostic;
mod ending;
pub mod exchange;
mod failure;
mod fault;
mod gathering;
mod ledger;
pub mod node;
mod placement;
mod processes;
mod rendezvous;
pub mod report_markdown;
mod resize;
mod split;
mod timeline;
pub mod topology;
pub mod yaml;
