//! An operation as both ways of moving bytes see it.

pub(crate) mod collective;
pub(crate) mod context;
pub(crate) mod descriptor;
pub(crate) mod history;
pub(crate) mod one_sided;
pub(crate) mod transfer;
