//! libcudart: `cuda*` and `__cuda*`.

pub(crate) mod array;
pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod graph;
pub(crate) mod header;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod occupancy;
pub(crate) mod properties;
mod rules;
pub(crate) mod stream;
pub(crate) mod texture;
mod unread;

pub(crate) use rules::RULES;
