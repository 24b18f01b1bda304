//! libcuda: `cu*`.

pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod ipc;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod stream;
