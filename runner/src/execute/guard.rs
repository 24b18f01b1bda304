//! The guard of a run: a process of its own that waits for ftest to end. When ftest was killed, the guard kills what is
//! left of its cases, whatever session or parent they have, and removes the run's directory.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::cookie::Cookie;
use super::sweep::Sweep;

/// First argument under which `ftest` plays the guard.
pub const ARGUMENT: &str = "__guard";
/// What ftest says on the lifeline before an orderly end.
const DONE: &[u8] = b"done";
/// For how long the guard kills.
const LIMIT: Duration = Duration::from_secs(4);

/// ftest's end of the lifeline. Dropping it without [`Guard::dismiss`] is the alarm.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts `program` (that is, `ftest`) as the guard of everything marked `cookie` and of `directory`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, cookie: &Cookie, directory: &Path) -> std::io::Result<Guard> {
        let mut command = Command::new(program);
        super::super::launch::environment::scrubbed(&mut command)
            .arg(ARGUMENT)
            .arg(cookie.to_string())
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C on a terminal is for ftest; the guard outlives it.
            .process_group(0);
        Ok(Guard { child: command.spawn()? })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Tells the guard that all is in order and waits for it.
    pub fn dismiss(mut self) {
        if let Some(mut lifeline) = self.child.stdin.take() {
            // A guard that somebody killed has nothing left to do.
            let _ = lifeline.write_all(DONE);
        }
        let _ = self.child.wait();
    }
}

/// The guard's whole life, with the arguments after [`ARGUMENT`]: the cookie and the directory. Gives the exit code.
pub fn main(arguments: &[String]) -> i32 {
    let [cookie, directory] = arguments else {
        eprintln!("ftest: {ARGUMENT} is internal and takes a cookie and a directory");
        return 2;
    };
    let mut word = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut word);
    if word == DONE {
        return 0;
    }
    let sweep = Sweep::new(Cookie::from_text(cookie.as_str()));
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        runtime.block_on(sweep.clear(LIMIT));
    }
    let directory = PathBuf::from(directory);
    let _ = std::fs::remove_dir_all(directory);
    0
}
