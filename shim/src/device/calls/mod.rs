//! The calls that libcuda and libcudart have in common.

pub(crate) mod error;
pub(crate) mod ipc;
pub(crate) mod memory;
pub(crate) mod occupancy;
pub(crate) mod pool;
pub(crate) mod stream;
pub(crate) mod stream_attribute;
