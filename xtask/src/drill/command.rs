//! A command that a row starts, and its results after it ended.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything that a drill waits for may take on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A command that runs.
#[derive(Debug)]
pub(super) struct Started {
    pub child: Child,
    pub began: Instant,
    pub streams: PathBuf,
}

/// A command that ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Started {
    /// Waits for its end; a process that does not end is killed.
    ///
    /// # Errors
    /// It did not end in time.
    pub(super) fn end(mut self, deadline: Duration) -> Result<Ended, String> {
        let pid = Pid::from_child(&self.child);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(self.child.wait()));
        let waited = receiver.recv_timeout(deadline.saturating_sub(self.began.elapsed()));
        let read = |name: &str| {
            let bytes = fs::read(self.streams.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        match waited {
            Ok(Ok(status)) => Ok(Ended { status, out: read("out"), err: read("err"), took: self.began.elapsed() }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                let _ = kill_process(pid, Signal::KILL);
                let _ = receiver.recv();
                Err(format!("not ended after {} s: {}{}", deadline.as_secs(), read("out"), read("err")))
            }
        }
    }
}

impl Ended {
    /// Exit code, or the one a shell reports for a signal.
    pub(super) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }

    /// Both streams.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// Whether it ended with one of `codes`, and not by a panic.
    ///
    /// # Errors
    /// It did not; contains its output.
    pub(super) fn expect(&self, codes: &[i32]) -> Result<(), String> {
        let text = self.text();
        if text.contains("panicked at") {
            return Err(format!("a panic: {text}"));
        }
        if !codes.contains(&self.code()) {
            return Err(format!("ended with {}, expected {codes:?}: {text}", self.code()));
        }
        Ok(())
    }
}
