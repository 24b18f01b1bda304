//! Starting programs under the shim: the environment of a rank and the soname holders.

pub mod holders;
