//! Bytes through memory that all ranks of a communicator map.

pub(crate) mod collectives;
mod futex;
pub(crate) mod mapping;
pub(crate) mod segment;
pub(crate) mod transfers;
