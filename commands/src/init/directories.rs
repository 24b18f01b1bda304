//! The directories of a repository that are searched.

/// Directory levels that are searched.
pub(super) const DEPTH: usize = 4;
/// Directories that never hold the repository's own programs.
const FOREIGN: &[&str] = &["node_modules", "site-packages", "build", "dist", "target", "venv", "env", "__pycache__"];

/// Whether a directory of this name may hold the repository's own programs.
pub(super) fn may_be_own(name: &str) -> bool {
    !name.starts_with('.') && !FOREIGN.contains(&name)
}
