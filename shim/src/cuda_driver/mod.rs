//! libcuda: `cu*`.

pub(crate) mod array;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod graph;
pub(crate) mod ipc;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod multicast;
mod rules;
pub(crate) mod stream;
pub(crate) mod tensor_map;
pub(crate) mod texture;

pub(crate) use rules::RULES;
