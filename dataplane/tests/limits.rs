//! Memory files under a limit on the size of files, which a process has as a whole: each check has one of its own.

use std::process::Command;

use dataplane::arena::Arena;

/// Much more than the limits below.
const LENGTH: usize = 1 << 30;
/// The capability to raise a hard limit.
const SYS_RESOURCE: u32 = 24;

/// Runs the check `name` of this file in a process that a shell started after `limit`.
fn below(limit: &str, name: &str) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]).arg(program);
    let output = command.args(["--exact", "--ignored", "--nocapture", &format!("limits::{name}")]).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && text[0].contains("1 passed"), "{}: {}", output.status, text.concat());
}

fn limit() -> String {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    limits.lines().find(|line| line.starts_with("Max file size")).unwrap().to_owned()
}

#[test]
fn memory_is_no_file_for_a_soft_limit() {
    below("ulimit -S -f 100", "a_file_is_made");
}

#[test]
fn memory_above_a_hard_limit_is_refused_and_nobody_is_ended() {
    below("ulimit -f 100", "a_file_is_made_where_the_limit_can_be_raised");
}

#[test]
#[ignore = "run by another, below a limit"]
fn a_file_is_made() {
    let before = limit();
    let arena = Arena::create("limits", LENGTH).unwrap();
    assert_eq!(arena.length(), LENGTH);
    assert_eq!(limit(), before, "the limit is what it was");
}

#[test]
#[ignore = "run by another, below a limit"]
fn a_file_is_made_where_the_limit_can_be_raised() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim().to_owned();
    let may = u64::from_str_radix(&effective, 16).unwrap() >> SYS_RESOURCE & 1 == 1;
    let before = limit();
    let made = Arena::create("limits", LENGTH);
    assert_eq!(made.as_ref().err().and_then(|error| error.raw_os_error()), (!may).then_some(27), "EFBIG");
    assert_eq!(limit(), before, "the limit is what it was");
}
