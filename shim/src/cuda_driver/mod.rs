//! libcuda: `cu*`.

pub(crate) mod exports;
