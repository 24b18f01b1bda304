//! libcudart: `cuda*` and `__cuda*`.

pub(crate) mod abi;
pub(crate) mod copy;
pub(crate) mod device;
pub(crate) mod launch;
pub(crate) mod properties;
