//! Everything between C and the bodies: the tables of exports, the guard around each call, gaps, handles, arguments.

pub(crate) mod args;
pub(crate) mod at_exit;
mod device_files;
pub(crate) mod exports;
pub(crate) mod fork;
pub(crate) mod gap;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod interposed;
pub(crate) mod library;
pub(crate) mod lookup;
