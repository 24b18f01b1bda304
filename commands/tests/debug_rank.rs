//! `--debug-rank`: the rank waits, stopped, with its input and output the user's.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::program;

#[test]
fn the_rank_waits_stopped_and_then_has_the_keyboard() {
    let directory = tempfile::tempdir().unwrap();
    // Nobody answers within the deadline, which does not count.
    let suite = "ftest: 1\nsuite: debug\ncases:\n\
                 - {id: asks, timeout: 100ms, launch: {argv: [sh, -c, 'test $RANK = 0 || { read word; echo \"heard $word\"; }'], ranks: 2}}\n";
    fs::write(directory.path().join("suite.yaml"), suite).unwrap();
    let mut ftest = program::ftest()
        .args(["suite.yaml", "--debug-rank", "1"])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(ftest.stderr.take().unwrap()).lines();
    let first = printed.next().unwrap().unwrap();
    let (_, pid) = first.split_once("ftest: rank 1 waits, stopped, as process ").expect(&first);
    assert_eq!(
        printed.next().unwrap().unwrap(),
        format!("ftest:   attach:  gdb -p {pid} -ex 'handle SIGSTOP nostop nopass' -ex 'catch exec' -ex continue")
    );
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // It says so and stops: between the two there is nothing to wait for but this.
    while !stat().contains(") T ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut keyboard = ftest.stdin.take().unwrap();
    writeln!(keyboard, "you").unwrap();
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let output = ftest.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.starts_with("heard you\n"), "{stdout}");
}
