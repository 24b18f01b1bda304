//! How bytes move between ranks. No CUDA here: the shim's NCCL is a thin layer above.
//!
//! A rank's `Process` meets the others and forms communicators; a `Communicator` runs the operations of one rank in order and moves
//! their bytes through `shared` memory or over `sockets`, each with its own collectives, transfers and one-sided operations.
#![expect(unsafe_code, reason = "shared memory")]

pub mod arena;
pub mod call;
pub mod communicator;
mod failure;
mod fault;
pub mod host;
mod journal;
pub mod kernels;
pub mod lock;
mod losses;
mod operation;
pub mod process;
pub mod refusal;
pub mod settings;
mod shared;
mod sockets;
mod transport;
pub mod unique;
mod wake;

pub use failure::Failure;
