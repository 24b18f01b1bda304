//! How the processes of a case were started, as recorded by each of them.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::observation::{Role, Starts};

/// The prefix of a line that names a module.
const WITHOUT: &str = "without ";

/// The file in a case's scratch directory.
pub(in crate::execute) fn file(scratch: &Path) -> PathBuf {
    scratch.join("starts")
}

/// The notes in `file`; `None` if there are none.
pub(in crate::execute) fn read(file: &Path) -> Option<Starts> {
    let text = String::from_utf8_lossy(&std::fs::read(file).ok()?).into_owned();
    let mut starts = Starts::default();
    for line in text.lines() {
        if let Some(module) = line.strip_prefix(WITHOUT) {
            starts.without.push(module.to_owned());
        } else if let Some((who, why)) = line.split_once(" cold: ") {
            starts.cold.push(format!("{who}: {why}"));
        } else {
            starts.warm += 1;
        }
    }
    // They are recorded in order of arrival.
    starts.cold.sort();
    Some(starts)
}

/// Notes that `role` was started cold.
pub(in crate::execute) fn cold(file: &Path, role: Role, why: &str) {
    add(file, &format!("{role} cold: {why}"));
}

/// Notes that the warm process did not import this module: its name and the reason.
pub(in crate::execute) fn without(file: &Path, module: &str) {
    add(file, &format!("{WITHOUT}{module}"));
}

fn add(file: &Path, line: &str) {
    let line = format!("{}\n", line.replace('\n', " "));
    // Without the note everything still runs.
    let file = std::fs::File::options().create(true).append(true).open(file);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
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
        without(&path, "rich: importing it prints something");
        let cold = vec!["launcher 1: it ended".to_owned(), "rank 0: X differs".to_owned()];
        let without = vec!["rich: importing it prints something".to_owned()];
        assert_eq!(read(&path), Some(Starts { warm: 2, cold, without }));
    }
}
