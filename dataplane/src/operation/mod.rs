//! An operation as both ways of moving bytes see it.

pub(crate) mod context;
pub(crate) mod descriptor;
pub(crate) mod history;
