//! `--drive`: cases start when their ids come, and the events are what is printed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use runner::record::event::{Event, RunInfo};
use runner::verdict::Verdict;

use crate::program;

/// Longer than anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
const SUITE: &str = "ftest: 1
suite: s
cases:
  - {id: a, launch: {argv: [echo, from a]}}
  - {id: fails, launch: {argv: [\"false\"]}}
  - {id: b, launch: {argv: [echo, from b]}}
  - {id: long, launch: {argv: [sh, -c, 'echo begun; exec sleep 600']}}
";

struct Driven {
    _root: tempfile::TempDir,
    child: Child,
    input: Option<ChildStdin>,
    events: Receiver<Event>,
}

impl Driven {
    fn start() -> Driven {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("s.yaml"), SUITE).unwrap();
        let mut child = program::ftest()
            .args(["run", "s.yaml", "--drive", "--jobs", "1"])
            .current_dir(root.path())
            // What it says to GitHub is not an event.
            .env("GITHUB_ACTIONS", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, events) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        let driven = Driven { _root: root, child, input, events };
        let Event::RunStarted(RunInfo { cases, .. }) = driven.next() else { panic!("the run does not start") };
        assert_eq!(cases.len(), 4);
        driven
    }

    fn ask(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    /// The case that finishes next, and its verdict.
    fn finished(&self) -> (String, Verdict) {
        loop {
            if let Event::CaseFinished { case, verdict, .. } = self.next() {
                return (case, verdict);
            }
        }
    }

    /// Ends the input; the exit code, what else happened, and stderr.
    fn end(mut self) -> (Option<i32>, Vec<Event>, String) {
        drop(self.input.take());
        let output = self.child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), self.events.iter().collect(), text)
    }
}

#[test]
fn cases_start_when_they_are_asked_for_and_one_that_fails_stops_nothing() {
    let mut driven = Driven::start();
    for (case, verdict) in [("s/b", Verdict::Passed), ("s/fails", Verdict::Failed), ("s/a", Verdict::Passed)] {
        driven.ask(case);
        assert_eq!(driven.finished(), (case.to_owned(), verdict));
    }
    let (code, rest, stderr) = driven.end();
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    assert!(matches!(rest[..], [Event::RunFinished { exit_code: 1, .. }]), "the fourth case never started: {rest:?}");
}

#[test]
fn the_end_of_the_input_ends_what_runs() {
    let mut driven = Driven::start();
    driven.ask("s/long");
    assert!(matches!(driven.next(), Event::CaseStarted { .. }));
    let (_, rest, stderr) = driven.end();
    let skipped = |event: &Event| matches!(event, Event::CaseFinished { verdict: Verdict::Skipped { .. }, .. });
    assert!(rest.iter().any(skipped), "{rest:?} {stderr}");
}

#[test]
fn an_id_that_is_not_there_ends_the_run() {
    let mut driven = Driven::start();
    driven.ask("s/c");
    let (_, rest, stderr) = driven.end();
    assert!(matches!(rest[..], [Event::RunFinished { .. }]), "{rest:?}");
    assert!(stderr.contains("`s/c` is not the id of a case"), "{stderr}");
}
