//! How bytes move between ranks: shared arenas, sockets, reductions. No CUDA here: the shim's NCCL is a thin layer above.
#![expect(unsafe_code, reason = "shared memory")]

pub mod arena;
pub mod call;
mod control;
mod descriptor;
mod failure;
pub mod float8;
mod futex;
pub mod mapping;
pub mod reduce;

pub use failure::Failure;
