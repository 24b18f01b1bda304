//! The shim's side of the C boundary (`abi`): what the guard adds around each call, gaps, and the tables of exports.

pub(crate) mod calls;
mod forbidden;
pub(crate) mod gap;
pub(crate) mod guard;
pub(crate) mod table;
