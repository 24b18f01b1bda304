//! The process: its rank, its forks and its end.

use protocol::launcher::Launcher;

pub(crate) mod at_exit;
pub(crate) mod delay;
pub(crate) mod fork;

/// The global rank that the launcher gave this process in `RANK`.
pub(crate) fn rank() -> Option<u32> {
    Launcher::read_or_task(|name| std::env::var(name).ok()).rank.map(|rank| rank.0)
}
