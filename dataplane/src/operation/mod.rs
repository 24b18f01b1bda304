//! An operation as both ways of moving bytes see it.

pub(crate) mod collective;
pub(crate) mod context;
pub(crate) mod descriptor;
pub(crate) mod history;
pub(crate) mod one_sided;
#[cfg(test)]
pub(crate) mod stage;
pub(crate) mod timing;
pub(crate) mod transfer;
