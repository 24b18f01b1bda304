//! How bytes move between ranks: shared arenas, sockets, reductions. No CUDA here: the shim's NCCL is a thin layer above.
#![expect(unsafe_code, reason = "shared memory")]

pub mod arena;
mod backlog;
pub mod call;
pub mod communicator;
mod control;
mod descriptor;
mod diary;
mod failure;
mod fault;
pub mod float8;
mod futex;
mod greeter;
pub mod host;
mod hub;
mod listener;
mod mapping;
mod mesh;
pub mod one_sided;
pub mod process;
pub mod reduce;
pub mod refusal;
pub mod resize;
mod rows;
mod send;
pub mod session;
pub mod settings;
mod shared;
mod socket_transfers;
mod sockets;
mod streaming;
mod transfers;
mod transport;
mod turn;
pub mod unique;
mod wake;

pub use failure::Failure;
