//! NCCL: handles, groups and streams here; rendezvous, matching and bytes in the crate `dataplane`.

pub(crate) mod abi;
mod collective;
mod communicator;
mod config;
mod debug;
mod device_communicator;
mod error;
pub(crate) mod exports;
mod group;
mod info;
mod init;
mod memory;
mod one_sided;
mod point_to_point;
mod properties;
mod reduction;
mod requirement;
mod resize;
mod suspension;
mod team;
mod window;
