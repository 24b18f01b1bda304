//! No file of tests is forgotten: where the tests of a crate are one program, its `main.rs` names every file beside it. Cargo
//! compiles no other there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use xtask::architecture::Crate;

/// The files of Rust below a directory, from it.
fn sources(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.insert(path.strip_prefix(directory).unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn every_file_of_tests_is_in_its_program() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut programs, mut left_out) = (0, Vec::new());
    for entry in std::fs::read_dir(repository).unwrap() {
        let tests = entry.unwrap().path().join("tests");
        let main = tests.join("main.rs");
        if !main.exists() {
            continue;
        }
        programs += 1;
        let read = Crate::read(&main).unwrap();
        let named: BTreeSet<PathBuf> = read.files().map(Path::to_owned).collect();
        left_out.extend(sources(&tests).difference(&named).map(|file| tests.join(file)));
    }
    assert!(programs >= 6, "the programs were not found");
    assert!(left_out.is_empty(), "add `mod NAME;` to the `main.rs` beside them: {left_out:?}");
}
