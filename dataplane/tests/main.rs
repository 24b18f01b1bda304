//! Ranks that move bytes, as threads or processes.

mod collectives;
mod failures;
mod faults;
mod limits;
mod one_sided;
mod processes;
mod resize;
mod strangers;
mod support;
mod transfers;
