//! The sanitizers that a program can enable (`FAKEGPU_SANITIZE`): races between streams, reads of uninitialized memory,
//! non-finite numbers, replicas that differ. Kernels are watched by `ptx`.

pub(crate) mod averaged;
pub(crate) mod branch;
mod clock;
mod coming;
pub(crate) mod finite;
pub(crate) mod forward;
mod history;
pub(crate) mod init;
pub(crate) mod known;
pub(crate) mod lane;
mod outstanding;
pub(crate) mod owner;
mod pinned;
pub(crate) mod races;
mod ranges;
mod shadow;
pub(crate) mod source_line;
