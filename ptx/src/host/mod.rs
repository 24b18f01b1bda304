//! The caller's side of a launch: the memory and services that it provides, the objects that kernels find there, and what it is
//! told.

pub(crate) mod footprint;
pub(crate) mod memory_ops;
pub(crate) mod mistake;
mod services;
pub(crate) mod tensor_map;
pub(crate) mod texture;
pub(crate) mod unwritten;

pub use services::{Assertion, Caller, Child, Host, Memory, Multicast};
