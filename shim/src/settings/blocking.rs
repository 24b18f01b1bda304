//! `CUDA_LAUNCH_BLOCKING`: whether a call that starts a kernel waits for its end.

use std::sync::OnceLock;

/// Whether the program asked for it; CUDA reads the variable once.
pub(crate) fn launches_block() -> bool {
    static BLOCK: OnceLock<bool> = OnceLock::new();
    *BLOCK.get_or_init(|| super::hybrid::variable("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value.trim() == "1"))
}
