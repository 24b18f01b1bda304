//! The rules of the simulated cluster as pure values: no sockets, files, clocks, environment or threads.
//!
//! - [`cluster_file`] turns YAML into a plan, or [`diagnostic`]s with file, line and column ([`yaml`] and [`node`] read,
//!   [`checker`] collects).
//! - [`cluster::Cluster`] is one run: an [`exchange::Input`] and the time go in, [`exchange::Output`]s come out.
//! - [`cost`] and [`topology`] compute how long an operation would take, and over which links.
//! - [`protocol::report::ClusterReport`] can be taken at any moment; [`report_markdown`] prints it.
//!
//! Tensor values are not here: ranks compute them.
//!
//! ```
//! use model::cluster::{Cluster, Settings};
//! use model::cluster_file;
//! use model::exchange::{ConnectionId, Input};
//! use protocol::message::ProcessInfo;
//!
//! let no_files = |path: &str| Err(format!("{path}: there are no files here"));
//! let plan = cluster_file::parse("two.yaml", "nodes: 2\ngpus_per_node: 4\nprofile: h100", &no_files).unwrap();
//! assert_eq!(plan.nodes.len(), 2);
//!
//! let mistakes = cluster_file::parse("bad.yaml", "node: 2", &no_files).unwrap_err();
//! assert_eq!(mistakes[0].message, "unknown key `node`");
//!
//! let mut cluster = Cluster::new(Settings { plan: Some(plan), ..Settings::default() });
//! let info = ProcessInfo { pid: 7, rank: None, world_size: None, program: "demo".into(), backlog: None };
//! cluster.step(Input::Joined { connection: ConnectionId(1), info }, 0);
//! assert_eq!(cluster.processes().count(), 1);
//! ```

#![warn(missing_docs)]

pub mod checker;
pub mod cluster;
pub mod cluster_file;
mod communicator;
pub mod cost;
pub mod diagnostic;
pub mod digits;
mod ending;
pub mod exchange;
mod failure;
mod fault;
pub mod files;
mod gathering;
mod ledger;
mod machine_section;
pub mod node;
mod order;
mod paths;
mod placement;
mod processes;
mod rendezvous;
mod replicas;
pub mod report_markdown;
mod resize;
pub mod sampling;
mod shift;
mod site;
mod split;
mod timeline;
pub mod topology;
pub mod transfer;
pub mod upstream;
pub mod yaml;
