//! NCCL: handles, groups and streams here; rendezvous, matching and bytes in the crate `dataplane`.

mod buffer;
pub(crate) mod collective;
pub(crate) mod communicator;
pub(crate) mod config;
pub(crate) mod debug;
pub(crate) mod device_communicator;
pub(crate) mod ended;
pub(crate) mod error;
pub(crate) mod group;
pub(crate) mod header;
pub(crate) mod info;
pub(crate) mod init;
mod issue;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod one_sided;
mod only;
pub(crate) mod point_to_point;
pub(crate) mod properties;
pub(crate) mod reduction;
pub(crate) mod replicas;
pub(crate) mod requirement;
pub(crate) mod resize;
pub(crate) mod suspension;
pub(crate) mod team;
mod threads;
pub(crate) mod window;
