//! Starting programs under the shim: the environment of a rank and the soname holders.

pub mod builder;
pub mod environment;
pub mod holder_cache;
pub mod holders;
mod profiles;
pub mod program;
pub mod settings;
pub mod variables;
