//! Work in order: streams, events, and kernels while they run.

pub(crate) mod captured;
pub(crate) mod clock;
pub(crate) mod event;
pub(crate) mod running;
pub(crate) mod stream;
pub(crate) mod timeline;
mod unrecorded;
