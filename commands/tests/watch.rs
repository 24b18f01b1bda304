//! `--watch`: a changed suite or script starts the run again, a mistake does not end it, Ctrl-C does.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::program;

/// Longer than anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_for(lines: &Receiver<String>, text: &str) -> String {
    loop {
        let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("`{text}` was not said"));
        eprintln!("{line}");
        if line.contains(text) {
            return line;
        }
    }
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    let stream = BufReader::new(stream);
    std::thread::spawn(move || stream.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    lines
}

#[test]
fn changes_start_the_run_again_until_ctrl_c() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let suite = |word: &str| format!("ftest: 1\nsuite: w\ncases:\n- {{id: {word}, launch: {{argv: [sh, s.sh]}}}}\n");
    fs::write(path("suite.yaml"), suite("one")).unwrap();
    fs::write(path("s.sh"), "exit 0\n").unwrap();
    let mut ftest = program::ftest()
        .args(["suite.yaml", "--watch"])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Apart: which of two streams is read first is not known.
    let (cases, messages) = (lines(ftest.stdout.take().unwrap()), lines(ftest.stderr.take().unwrap()));
    let waits = "waiting for a change to 2 files; Ctrl-C to quit";

    wait_for(&cases, "w/one");
    wait_for(&messages, waits);
    // Neither what nobody names nor what only read the script.
    fs::write(path("notes.txt"), "x").unwrap();
    fs::read(path("s.sh")).unwrap();
    fs::write(path("s.sh"), "exit 1\n").unwrap();
    assert!(wait_for(&messages, " changed").contains("s.sh"));
    assert!(wait_for(&cases, "w/one").contains("failed"));
    wait_for(&messages, waits);

    fs::write(path("suite.yaml"), "ftest: 1\nsuite: w\nkases: []\n").unwrap();
    wait_for(&messages, "unknown key `kases`");
    wait_for(&messages, waits);

    // As editors do it: another file takes the place.
    fs::write(path("new"), suite("two")).unwrap();
    fs::rename(path("new"), path("suite.yaml")).unwrap();
    wait_for(&cases, "w/two");
    wait_for(&messages, waits);

    kill_process(Pid::from_child(&ftest), Signal::INT).unwrap();
    assert_eq!(ftest.wait().unwrap().code(), Some(130));
    assert!(fs::read_dir(path(".ftest/runs")).unwrap().count() >= 3, "each run is kept");
}
