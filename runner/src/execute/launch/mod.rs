//! Which programs a case starts, and how: where its ranks and launchers run, their environment under the shim, the soname holders,
//! and what the user wants to see or to debug of them.

pub mod builder;
pub mod debug;
pub mod environment;
pub mod holder_cache;
pub mod holders;
pub(super) mod no_capture;
pub mod placement;
pub(super) mod port;
mod profiles;
pub mod program;
pub mod ranks;
pub mod settings;
pub mod torchrun;
pub mod variables;
