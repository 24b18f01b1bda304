//! The children of a process, from the kernel's own list. Scanning all of `/proc` costs milliseconds on a busy machine; a
//! case that left nothing behind need not pay for that.

/// The children of `pid`, including unreaped ones; `None` if the kernel keeps no such list.
///
/// While children come and go, one may be missing: callers that must not overlook any look twice.
pub(super) fn list(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    // A child belongs to the thread that started it, and orphans to any thread.
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        match std::fs::read_to_string(task.path().join("children")) {
            Ok(list) => children.extend(list.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok())),
            // A thread that has just ended has no list and no children.
            Err(_) if !task.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_listed_until_it_is_taken() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let own = std::process::id() as i32;
        let listed = || list(own).is_none_or(|children| children.contains(&(child.id() as i32)));
        assert!(listed(), "alive or dead, it is there");
        child.wait().unwrap();
        let after = list(own).unwrap_or_default();
        assert!(!after.contains(&(child.id() as i32)));
        assert_eq!(list(i32::MAX), None);
    }
}
