//! The bodies of calls that libcuda and libcudart share. Each makes the primary context current if the thread has none, as the
//! runtime does; libcuda requires a context first (`in_context!`).

pub(crate) mod capture;
pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod graph;
pub(crate) mod graph_memory;
pub(crate) mod graph_node;
pub(crate) mod header;
pub(crate) mod ipc;
pub(crate) mod kernel;
pub(crate) mod link;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod occupancy;
pub(crate) mod pool;
pub(crate) mod stream;
pub(crate) mod stream_attribute;
