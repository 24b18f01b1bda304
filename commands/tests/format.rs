//! `ftest fmt` writes files, leaves those that it must not touch, and says the same of a suite before and after.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use runner::suite::format::format;

use crate::program;

const WIDE: &str = "# why\nftest:   1\nsuite: x    # name\n\n\n\ncases:\n    - {id: a,launch: {argv: [x, 010]}}\n";
const LAID_OUT: &str = "# why\nftest: 1\nsuite: x # name\n\ncases:\n  - { id: a, launch: { argv: [x, 010] } }\n";

fn ftest(words: &[&str], file: &Path) -> Output {
    program::ftest().args(words).arg(file).output().unwrap()
}

fn suites() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../suites");
    let files = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect()
}

#[test]
fn a_file_is_checked_written_and_then_as_it_should_be() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.yaml");
    fs::write(&file, WIDE).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(ftest(&["fmt", "--check"], &file).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&file).unwrap(), WIDE, "`--check` writes nothing");
    let written = ftest(&["fmt"], &file);
    assert_eq!(written.status.code(), Some(0), "{written:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), LAID_OUT);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let again = ftest(&["fmt", "--check"], &file);
    assert_eq!((again.status.code(), again.stdout.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_file_with_a_mistake_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.yaml");
    fs::write(&file, "ftest:   1\nsuite: [x\n").unwrap();
    assert_eq!(ftest(&["fmt"], &file).status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "ftest:   1\nsuite: [x\n");
}

#[test]
fn our_own_suites_are_formatted() {
    let files = suites();
    assert!(files.len() > 8);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let laid_out = format("x", &text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(text, laid_out, "`ftest fmt {}` changes it", file.display());
    }
}
