//! What is known of a device whatever it does: which GPU it is, contexts, failures, and what other processes see of it.

pub(super) mod board;
pub(super) mod device;
pub(super) mod failure;
mod peers;
mod primary;
mod share;
