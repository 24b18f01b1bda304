//! File names relative to the repository of a workflow.

use std::path::{Component, Path, PathBuf};

/// `file`, given relative to `directory`, as a path in the repository at `workspace`.
pub(super) fn repository_path(workspace: Option<&Path>, directory: &Path, file: &Path) -> Option<String> {
    if file.as_os_str().is_empty() {
        return None;
    }
    let path = straight(&directory.join(file));
    let root = straight(workspace.unwrap_or(directory));
    path.strip_prefix(&root).ok().map(|path| path.display().to_string())
}

/// Removes `.` and `..` lexically.
fn straight(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(straight.pop()),
            part => straight.push(part),
        }
    }
    straight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_from_the_repository() {
        let named = |workspace: &str, directory: &str, file: &str| {
            repository_path(Some(Path::new(workspace)), Path::new(directory), Path::new(file))
        };
        assert_eq!(named("/w/r", "/w/r/sub", "../suites/a.yaml"), Some("suites/a.yaml".into()));
        assert_eq!(named("/w/r", "/w/r", "./a.yaml"), Some("a.yaml".into()));
        assert_eq!(named("/w/r", "/w/r", "/elsewhere/a.yaml"), None);
        assert_eq!(named("/w/r", "/w/r", ""), None);
    }
}
