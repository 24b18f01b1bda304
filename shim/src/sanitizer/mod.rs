//! What a program asks to be looked for beside its results (`FAKEGPU_SANITIZE`): races between streams, reads of memory that
//! nobody wrote, numbers that are not finite, replicas that differ; what kernels do is watched by `ptx`.

pub(crate) mod averaged;
pub(crate) mod branch;
mod clock;
mod coming;
pub(crate) mod finite;
pub(crate) mod forward;
pub(crate) mod init;
pub(crate) mod lane;
mod late;
pub(crate) mod owner;
mod pinned;
mod place;
pub(crate) mod races;
mod shadow;
