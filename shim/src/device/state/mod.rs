//! What a device is, whatever it does: which GPU, its contexts, health and failure, what monitors see of it, and the versions and
//! errors that CUDA knows.

pub(crate) mod attribute;
mod board;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod energy;
pub(crate) mod error_names;
pub(crate) mod failure;
pub(crate) mod health;
pub(crate) mod meter;
pub(crate) mod neighbors;
mod output;
mod peers;
mod primary;
mod share;
pub(crate) mod version;
