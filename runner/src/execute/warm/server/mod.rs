//! One warm process: made, asked for forks, ended. It is our child, and so is each of its forks: orphans are reparented to this
//! process, and a fork is an orphan by the time we hear of it.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, WaitOptions};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use super::request::{Asked, Request};
use crate::execute::launch::environment::Environment;
use crate::execute::process_tree::inherit::UmaskOf;
use crate::execute::process_tree::kernel::Spawn;
use crate::execute::python::Python;
use crate::host::deadline;

/// The package of the server, and the file that the interpreter loads by itself, which imports it.
const FILES: [(&str, &str); 11] = [
    ("sitecustomize.py", include_str!("sitecustomize.py")),
    ("ftest_warm/__init__.py", include_str!("ftest_warm/__init__.py")),
    ("ftest_warm/kernel.py", include_str!("ftest_warm/kernel.py")),
    ("ftest_warm/checks.py", include_str!("ftest_warm/checks.py")),
    ("ftest_warm/sources.py", include_str!("ftest_warm/sources.py")),
    ("ftest_warm/programs.py", include_str!("ftest_warm/programs.py")),
    ("ftest_warm/request.py", include_str!("ftest_warm/request.py")),
    ("ftest_warm/forks.py", include_str!("ftest_warm/forks.py")),
    ("ftest_warm/workers.py", include_str!("ftest_warm/workers.py")),
    ("ftest_warm/child.py", include_str!("ftest_warm/child.py")),
    ("ftest_warm/server.py", include_str!("ftest_warm/server.py")),
];
/// Maximum length of the first message, bytes.
const GREETING: u32 = 1 << 20;

/// Its first message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Greeting {
    /// It is ready, without these modules: names and reasons.
    Ready(Vec<String>),
    /// Why no process can be forked from it.
    Unfit(String),
}

/// A warm process. Dropping it ends it.
#[derive(Debug)]
pub(in crate::execute) struct Server {
    pid: Pid,
    directory: PathBuf,
    /// Gone after a request that was not sent completely.
    control: Mutex<Option<UnixStream>>,
    /// Modules that it should have imported but could not, each with the reason.
    without: Vec<String>,
}

impl Server {
    /// Starts it and waits until it has imported PyTorch and `modules`; its files go to `directory`, which is created. If that
    /// fails, nothing is left of it.
    ///
    /// # Errors
    /// One sentence on why no process can be forked from it.
    pub(super) async fn start(
        python: &Python,
        modules: &[String],
        mut environment: Environment,
        directory: PathBuf,
    ) -> Result<Server, String> {
        let failed = |error: io::Error| format!("the warm process cannot be started: {error}");
        let (code, empty) = (directory.join("server"), directory.join("empty"));
        for directory in [&code.join("ftest_warm"), &empty, &directory.join("tmp")] {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        for (name, text) in FILES {
            fs::write(code.join(name), text).map_err(failed)?;
        }
        environment.prepend("PYTHONPATH", &code);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let control = UnixStream::from_std(ours).map_err(failed)?;
        let stream = |name: &str| File::create(directory.join(name)).map_err(failed);
        let (stdout, stderr) = (stream("stdout")?, stream("stderr")?);
        let modules = modules.join(" ");
        let spawn = Spawn {
            file: &python.program,
            arguments: vec![python.program.as_os_str(), "-m".as_ref(), "ftest_warm".as_ref(), modules.as_ref()],
            environment: environment.whole(),
            directory: &empty,
            streams: [theirs.as_fd(), stdout.as_fd(), stderr.as_fd()],
            umask: UmaskOf::Case,
            network: None,
            foreground: false,
            at_our_death: Some(Signal::KILL.as_raw()),
        };
        let pid = Pid::from_raw(spawn.start().map_err(failed)?).ok_or("there is no process 0")?;
        drop(theirs);
        let mut server = Server { pid, directory, control: Mutex::new(Some(control)), without: Vec::new() };
        server.without = server.greeting().await?;
        Ok(server)
    }

    /// Modules that it should have imported but could not, each with the reason.
    pub(in crate::execute) fn without(&self) -> &[String] {
        &self.without
    }

    /// Waits for its first message: the modules it lacks.
    async fn greeting(&self) -> Result<Vec<String>, String> {
        let mut control = self.control.lock().await;
        let control = control.as_mut().ok_or("it is gone")?;
        let read = async {
            let length = control.read_u32_le().await?;
            let mut text = vec![0; length.min(GREETING) as usize];
            control.read_exact(&mut text).await?;
            Ok::<_, io::Error>(text)
        };
        let limit = deadline::WARM_READY;
        let text = match tokio::time::timeout(limit, read).await {
            Err(_) => return Err(format!("importing torch took longer than {} s", limit.as_secs())),
            Ok(Err(_)) => return Err(format!("the warm process ended: {}", self.last_words())),
            Ok(Ok(text)) => text,
        };
        match serde_json::from_slice(&text) {
            Ok(Greeting::Ready(without)) => Ok(without),
            Ok(Greeting::Unfit(why)) => Err(why),
            Err(error) => Err(format!("the warm process sent a malformed answer: {error}")),
        }
    }

    fn last_words(&self) -> String {
        let text = fs::read(self.directory.join("stderr")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.trim_end().lines().last().unwrap_or("it said nothing").to_owned()
    }

    /// Requests a fork. The new process is our child and waits for [`Asked::go`].
    ///
    /// # Errors
    /// One sentence on why there is none; then no process is left.
    pub(in crate::execute) async fn ask(&self, request: &Request<'_>) -> Result<Asked, String> {
        let message = request.message()?;
        let failed = |error: io::Error| format!("the warm process cannot be asked: {error}");
        let (report, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        report.set_nonblocking(true).map_err(failed)?;
        let report = UnixStream::from_std(report).map_err(failed)?;
        let [stdin, stdout, stderr] = request.streams;
        let asked = async {
            let mut place = self.control.lock().await;
            // Put back only if the whole message was sent: half a message would be read as the next one.
            let mut control = place.take().ok_or("the warm process is gone")?;
            send(&mut control, &message, &[stdin, stdout, stderr, theirs.as_fd()]).await.map_err(failed)?;
            *place = Some(control);
            drop((place, theirs));
            Asked::answer(report).await
        };
        match tokio::time::timeout(deadline::WARM_START, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("the warm process did not answer within {} s", deadline::WARM_START.as_secs())),
        }
    }
}

/// The length with the descriptors, then the message.
async fn send(control: &mut UnixStream, message: &[u8], descriptors: &[BorrowedFd<'_>; 4]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?.to_le_bytes();
    let sent = control.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(descriptors));
        Ok(sendmsg(&*control, &[IoSlice::new(&length)], &mut rights, SendFlags::NOSIGNAL)?)
    });
    let sent = sent.await?;
    control.write_all(&length[sent..]).await?;
    control.write_all(message).await
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is our child and not waited for elsewhere, so the number is still its own.
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
        let _ = fs::remove_dir_all(&self.directory);
    }
}
