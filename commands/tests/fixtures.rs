//! Fixtures end in order, whatever ends the run.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::program;

/// Longer than anything here may take on a loaded machine, shorter than what sleeps in it.
const PATIENCE: Duration = Duration::from_secs(30);

struct Ran {
    directory: TempDir,
    code: Option<i32>,
    stdout: String,
}

impl Ran {
    /// What the steps of the fixtures wrote, in order.
    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

fn run(suite: &str) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("suite.yaml"), format!("ftest: 1\nsuite: s\n{suite}")).unwrap();
    let started = Instant::now();
    let output = program::ftest()
        .args(["suite.yaml", "--jobs", "1"])
        .current_dir(directory.path())
        .env("TMPDIR", directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(started.elapsed() < PATIENCE, "something waited for what sleeps");
    Ran { code: output.status.code(), stdout: String::from_utf8_lossy(&output.stdout).into_owned(), directory }
}

#[test]
fn ctrl_c_in_a_case_takes_the_fixtures_down() {
    let ran = run("
fixtures:
  outer: { scope: suite, setup: { shell: 'echo outer up >> log' }, teardown: { shell: 'sleep 0.2; echo outer down >> log' } }
  inner: { uses: [outer], setup: { shell: 'echo inner up >> log' }, teardown: { shell: 'echo inner down >> log' } }
cases:
- { id: interrupts, uses: [inner], launch: { argv: [sh, -c, 'kill -INT $PPID; sleep 60'] } }
- { id: after, uses: [outer], launch: { argv: ['true'] } }
");
    assert_eq!(ran.code, Some(130), "{}", ran.stdout);
    assert_eq!(ran.log(), "outer up\ninner up\ninner down\nouter down\n", "{}", ran.stdout);
}

#[test]
fn ctrl_c_in_a_setup_ends_it_and_skips_the_case() {
    let ran = run("
fixtures:
  slow: { scope: suite, setup: { shell: 'echo up >> log; kill -INT $PPID; sleep 60' }, teardown: { shell: 'echo down >> log' } }
cases:
- { id: one, uses: [slow], launch: { argv: ['true'] } }
");
    assert_eq!(ran.code, Some(130), "{}", ran.stdout);
    assert!(ran.stdout.contains("1 case: 1 skipped"), "{}", ran.stdout);
    assert_eq!(ran.log(), "up\n", "what was never made is not taken down");
    let left = fs::read_dir(ran.directory.path()).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("ft-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_second_ctrl_c_ends_a_teardown() {
    let ran = run("
fixtures:
  stuck: { setup: { argv: ['true'] }, teardown: { shell: 'kill -INT $PPID; sleep 60' } }
cases:
- { id: interrupts, uses: [stuck], launch: { argv: [sh, -c, 'kill -INT $PPID; sleep 60'] } }
");
    assert_eq!(ran.code, Some(130), "{}", ran.stdout);
    assert!(ran.stdout.contains("the teardown of s/stuck"), "{}", ran.stdout);
    assert!(ran.stdout.contains("it was interrupted"), "{}", ran.stdout);
}

#[test]
fn what_a_setup_leaves_running_ends_with_the_fixture() {
    let ran = run("
fixtures:
  server: { scope: suite, outputs: [PID], setup: { shell: 'sleep 1000 & echo \"PID=$!\" >> $FTEST_OUTPUT; echo $! > pid' } }
cases:
- { id: lives, uses: [server], launch: { argv: [sh, -c, 'kill -0 ${{ fixtures.server.PID }}'] } }
- { id: lives-on, uses: [server], launch: { argv: [sh, -c, 'kill -0 ${{ fixtures.server.PID }}'] } }
");
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    let pid = fs::read_to_string(ran.directory.path().join("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the server {} is still there", pid.trim());
}

#[test]
fn fail_fast_takes_down_what_cases_that_never_ran_would_have_used() {
    let ran = run("
fixtures:
  data: { scope: suite, setup: { shell: 'echo up >> log' }, teardown: { shell: 'echo down >> log' } }
cases:
- { id: fails, uses: [data], launch: { argv: ['false'] } }
- { id: never, uses: [data], launch: { argv: ['true'] } }
");
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stdout.contains("1 not run"), "{}", ran.stdout);
    assert_eq!(ran.log(), "up\ndown\n");
}
