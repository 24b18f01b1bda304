//! libcudart: `cuda*` and `__cuda*`.

pub(crate) mod error;
pub(crate) mod exports;
