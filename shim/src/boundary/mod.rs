//! Everything between C and the bodies: the tables of exports, the guard around each call, gaps, handles, arguments.

pub(crate) mod args;
pub(crate) mod gap;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod library;
pub(crate) mod table;
