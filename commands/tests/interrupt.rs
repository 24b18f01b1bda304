//! Ctrl-C in the middle of a run: the cases end, the JUnit file is whole and counts every case, the exit code says so.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program;

/// The first case interrupts ftest, which is its parent; nothing is guessed about when it runs.
fn suite(signal: &str) -> String {
    format!(
        "ftest: 1\nsuite: interrupted\ncases:\n\
         - {{id: before, launch: {{argv: ['true']}}}}\n\
         - {{id: interrupts, timeout: 30s, launch: {{argv: [sh, -c, 'kill -{signal} $PPID; sleep 60']}}}}\n\
         - {{id: after, launch: {{argv: ['true']}}}}\n"
    )
}

fn run(signal: &str) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("suite.yaml"), suite(signal)).unwrap();
    let started = Instant::now();
    let output = program::ftest()
        .args(["suite.yaml", "--jobs", "1", "--junit", "out.xml"])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(started.elapsed() < Duration::from_secs(25), "the run went on to the deadline of the case");
    let junit = fs::read_to_string(directory.path().join("out.xml")).unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), junit)
}

#[test]
fn ctrl_c_ends_the_run_and_leaves_a_whole_junit_file() {
    let (code, stdout, junit) = run("INT");
    assert_eq!(code, Some(130), "{stdout}");
    assert!(stdout.contains("interrupted\n3 cases: 1 passed, 1 skipped, 1 not run"), "{stdout}");
    assert!(
        junit.contains("<testsuites name=\"ftest\" tests=\"4\" skipped=\"2\" failures=\"0\" errors=\"1\""),
        "{junit}"
    );
    // The cases, and that the run was interrupted.
    assert_eq!(junit.matches("<testcase ").count(), 4);
    assert!(junit.ends_with("</testsuites>\n"), "{junit}");
}

#[test]
fn sigterm_and_sighup_do_the_same_with_their_own_codes() {
    for (signal, number) in [("TERM", 143), ("HUP", 129)] {
        let (code, stdout, _) = run(signal);
        assert_eq!(code, Some(number), "{stdout}");
    }
}

/// The shell that is to end ignores SIGTERM, and the grace is longer than this test may take.
fn stubborn(signals: &str) -> Option<i32> {
    let directory = tempfile::tempdir().unwrap();
    let suite = format!(
        "ftest: 1\nsuite: interrupted\ncases:\n\
         - {{id: stubborn, timeout: {{kill: 60s, grace: 50s}}, launch: {{argv: [sh, -c, 'trap \"\" TERM; {signals}; sleep 60']}}}}\n"
    );
    fs::write(directory.path().join("suite.yaml"), suite).unwrap();
    let started = Instant::now();
    let mut command = program::ftest();
    let output = command.arg("suite.yaml").current_dir(directory.path()).stdin(Stdio::null()).output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(25), "the run waited for the grace");
    output.status.code()
}

#[test]
fn twice_ends_it_at_once() {
    // Two signals of one number that meet count as one: the second waits until the first was answered.
    assert_eq!(stubborn("kill -INT $PPID; sleep 1; kill -INT $PPID"), Some(130));
}

#[test]
fn sigquit_ends_it_at_once() {
    assert_eq!(stubborn("kill -QUIT $PPID"), Some(131));
}
