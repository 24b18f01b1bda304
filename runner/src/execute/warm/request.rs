//! A request to a warm process, as `server/child.py` reads it, and the answer.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, WaitOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Longest answer, bytes.
const ANSWER: u64 = 4096;

/// A process to fork.
#[derive(Debug)]
pub(in crate::execute) struct Request<'a> {
    /// The interpreter.
    pub(in crate::execute) file: &'a Path,
    /// Its name and arguments, as it sees them.
    pub(in crate::execute) arguments: &'a [OsString],
    /// Its whole environment.
    pub(in crate::execute) environment: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub(in crate::execute) directory: &'a Path,
    /// stdin, stdout, stderr.
    pub(in crate::execute) streams: [BorrowedFd<'a>; 3],
    /// Whether it leads its own session.
    pub(in crate::execute) session: bool,
    /// The signal that the kernel sends it when this process dies; 0 for none.
    pub(in crate::execute) at_our_death: i32,
    /// Where it and its workers record how they were started.
    pub(in crate::execute) notes: &'a Path,
}

impl Request<'_> {
    /// The fields, then the arguments, then the environment, with a NUL between any two.
    ///
    /// # Errors
    /// One of them contains a NUL.
    pub(super) fn message(&self) -> Result<Vec<u8>, String> {
        let number = |number: u64| OsString::from(number.to_string());
        let entry = |(name, value): &(OsString, OsString)| {
            let mut entry = name.clone();
            entry.push("=");
            entry.push(value);
            entry
        };
        let mut words = vec![
            self.file.as_os_str().to_owned(),
            self.directory.as_os_str().to_owned(),
            number(u64::from(std::process::id())),
            OsString::from(self.at_our_death.to_string()),
            number(u64::from(self.session)),
            // The warm process already has the umask of all processes started for cases.
            OsString::new(),
            self.notes.as_os_str().to_owned(),
            // No descriptors except the streams.
            OsString::new(),
            number(self.arguments.len() as u64),
        ];
        words.extend(self.arguments.iter().cloned());
        words.extend(self.environment.iter().map(entry));
        if words.iter().any(|word| word.as_bytes().contains(&0)) {
            return Err("its command or environment holds a NUL byte".to_owned());
        }
        Ok(words.join(OsStr::new("\0")).into_encoded_bytes())
    }
}

/// A forked process that waits for a go-ahead before it becomes the requested process. Without one, it exits.
#[derive(Debug)]
pub(in crate::execute) struct Asked {
    /// Our child.
    pub(in crate::execute) pid: i32,
    report: UnixStream,
}

impl Asked {
    /// Reads the answer.
    pub(super) async fn answer(mut report: UnixStream) -> Result<Asked, String> {
        let mut line = Vec::new();
        loop {
            match report.read_u8().await {
                Ok(b'\n') => break,
                Ok(byte) if (line.len() as u64) < ANSWER => line.push(byte),
                Ok(_) => return Err("the warm process sent more than its answer".to_owned()),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err("the process that was forked ended at once".to_owned());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut words = line.splitn(3, ' ');
        let (word, pid) = (words.next(), words.next().and_then(|word| word.parse::<i32>().ok()));
        match (word, pid) {
            (Some("ready"), Some(pid)) => Ok(Asked { pid, report }),
            (_, pid) => {
                // It has ended or is about to, and was reparented to us.
                if let Some(pid) = pid.and_then(Pid::from_raw) {
                    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                }
                Err(words.next().unwrap_or("the warm process sent a malformed answer").to_owned())
            }
        }
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// It ended meanwhile.
    pub(in crate::execute) async fn go(mut self) -> io::Result<()> {
        self.report.write_all(b"g").await
    }
}
