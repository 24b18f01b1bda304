//! An operation, as seen by both transports.

pub(crate) mod collective;
pub(crate) mod context;
pub(crate) mod descriptor;
pub(crate) mod history;
pub(crate) mod one_sided;
#[cfg(test)]
pub(crate) mod stage;
pub(crate) mod timing;
pub(crate) mod transfer;
