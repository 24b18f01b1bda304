//! What happens when a report, or what ftest prints, cannot be written: it is said, and the exit code is 3.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Output, Stdio};

use crate::program;

const SUITE: &str = "ftest: 1\nsuite: s\ncases:\n- { id: a, launch: { argv: [sh, -c, 'echo said $API_TOKEN'] } }\n";

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// `ftest ARGUMENTS`, in a directory with a suite.
fn ftest(directory: &Path, arguments: &[&str], stdout: impl Into<Stdio>) -> Output {
    fs::write(directory.join("suite.yaml"), SUITE).unwrap();
    program::ftest()
        .args(arguments)
        .current_dir(directory)
        .env("TMPDIR", directory)
        .env("API_TOKEN", "hunter2hunter2")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_stdout_without_room_is_an_error_of_every_command() {
    let directory = tempfile::tempdir().unwrap();
    ftest(directory.path(), &["suite.yaml"], Stdio::null());
    for command in [
        "suite.yaml",
        "suite.yaml --list",
        "suite.yaml --no-capture",
        "check suite.yaml",
        "explain suite.yaml",
        "runs",
        "replay",
        "profiles",
        "schema",
        "completions bash",
        "--version",
        "run --help",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let fine = ftest(directory.path(), &arguments, Stdio::piped());
        assert_eq!((fine.status.code(), fine.stdout.is_empty()), (Some(0), false), "{command}: {}", stderr(&fine));
        let output = ftest(directory.path(), &arguments, full());
        let printed = "ftest: cannot write to stdout: No space left on device (os error 28)\n";
        assert!(stderr(&output).ends_with(printed), "{command}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(3), "{command}");
    }
}

#[test]
fn a_cluster_report_without_room_is_an_error_in_words() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.path().join("link")).unwrap();
    let output = ftest(directory.path(), &["exec", "--report", "link", "--", "true"], Stdio::null());
    let printed = "link: cannot be written: No space left on device (os error 28)\n";
    assert!(stderr(&output).ends_with(printed), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_reader_that_left_is_not_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = ftest(directory.path(), &["suite.yaml"], writer);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn reports_that_cannot_be_written_are_named() {
    let directory = tempfile::tempdir().unwrap();
    // Through links: a mistake costs the link and not the machine's device.
    for (option, what) in [
        ("--junit", "the JUnit file"),
        ("--html", "the HTML page"),
        ("--trace", "the trace"),
        ("--markdown", "the summary"),
    ] {
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/full", &link).unwrap();
        let output = ftest(directory.path(), &["suite.yaml", option, "link"], Stdio::null());
        let printed = format!("cannot write {what} link: No space left on device (os error 28)");
        assert!(stderr(&output).contains(&printed), "{option}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(3), "{option}");
        assert!(link.is_symlink());
        fs::remove_file(&link).unwrap();
    }
}
