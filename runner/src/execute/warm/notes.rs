//! How the processes of a case were started, as each of them noted it.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::observation::{Role, Starts};

/// The file in a case's scratch directory.
pub(in crate::execute) fn file(scratch: &Path) -> PathBuf {
    scratch.join("starts")
}

/// What was noted in `file`; none if nothing was.
pub(in crate::execute) fn read(file: &Path) -> Option<Starts> {
    let text = String::from_utf8_lossy(&std::fs::read(file).ok()?).into_owned();
    let mut starts = Starts::default();
    for line in text.lines() {
        match line.split_once(" cold: ") {
            Some((who, why)) => starts.cold.push(format!("{who}: {why}")),
            None => starts.warm += 1,
        }
    }
    // They are noted as they come.
    starts.cold.sort();
    Some(starts)
}

/// Notes that `role` was started cold.
pub(in crate::execute) fn cold(file: &Path, role: Role, why: &str) {
    let why = why.replace('\n', " ");
    // Without the note it still runs.
    let _ = std::fs::File::options()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(format!("{role} cold: {why}\n").as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_ranks_and_launchers_add_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path());
        assert_eq!(read(&path), None);
        std::fs::write(&path, "launcher warm\nrank 1 warm\nrank 0 cold: X differs\n").unwrap();
        cold(&path, Role::Launcher(1), "it\nended");
        let cold = vec!["launcher 1: it ended".to_owned(), "rank 0: X differs".to_owned()];
        assert_eq!(read(&path), Some(Starts { warm: 2, cold }));
    }
}
