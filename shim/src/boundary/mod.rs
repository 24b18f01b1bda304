//! The entry points from C: the guard around each call, gaps, handles, arguments, and the macro that makes the tables of
//! exports.

pub(crate) mod args;
pub(crate) mod gap;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod library;
pub(crate) mod table;
