//! The guard of a run: a separate process that waits for ftest to end. If ftest was killed, the guard kills whatever is
//! left of its cases, regardless of session or parent, and removes the run's directory. A guard that dies is replaced.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, PidfdFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

use crate::check::exit;
use crate::execute::process_tree::cookie::Cookie;
use crate::execute::process_tree::process::exit_of;
use crate::execute::process_tree::sweep::Sweep;
use crate::host::deadline;

/// First argument under which `ftest` is the guard.
pub const ARGUMENT: &str = "__guard";
/// As [`ARGUMENT`], for the guard that a coordinator starts when all others are gone. It is a different word, so that a
/// search for guards does not find the coordinator, whose command line contains it.
pub const SUCCESSOR: &str = "__successor";
/// What ftest writes to the lifeline before an orderly end.
const DONE: &[u8] = b"done";
/// Maximum number of guards replaced in one run: killing more of them is deliberate.
const REPLACED: u32 = 100;

/// ftest's end of the lifeline. Dropping it without [`Guard::dismiss`] triggers the guard.
#[derive(Debug)]
pub struct Guard {
    post: Arc<Post>,
    /// Replaces a guard that died; `None` outside a runtime.
    watch: Option<JoinHandle<()>>,
}

/// The current guard, and how to make another.
#[derive(Debug)]
struct Post {
    argv: Vec<OsString>,
    child: Mutex<Child>,
}

impl Post {
    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock()
    }

    /// Replaces each guard that dies.
    async fn watch(self: Arc<Self>) {
        for _ in 0..REPLACED {
            let Some(handle) = Pid::from_raw(self.child().id() as i32)
                .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK).ok())
            else {
                return;
            };
            #[expect(
                deprecated,
                reason = "sound for an OwnedFd, which stays open while registered; the other is unsafe"
            )]
            let Ok(handle) = AsyncFd::with_interest(handle, Interest::READABLE) else { return };
            if handle.readable().await.is_err() {
                return;
            }
            let mut child = self.child();
            let how = child.wait().map_or_else(|error| error.to_string(), describe);
            match start(&self.argv) {
                Ok(another) => {
                    *child = another;
                    eprintln!("ftest: the guard of this run ended with {how}; another one has taken over");
                }
                Err(error) => {
                    return eprintln!(
                        "ftest: the guard of this run ended with {how}, and another cannot be started ({error}): if ftest is \
                         killed now, its processes keep running"
                    );
                }
            }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    exit::describe(&exit_of(status))
}

fn start(argv: &[OsString]) -> std::io::Result<Child> {
    let mut command = Command::new(&argv[0]);
    crate::execute::launch::environment::scrubbed(&mut command)
        .args(&argv[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C on a terminal is for ftest; the guard outlives it.
        .process_group(0);
    command.spawn()
}

/// The command of a guard for everything marked `cookie` and for `directory`; `word` is one of its first arguments, and `program`
/// is `ftest`. It acts when its stdin ends without the orderly message.
pub(in crate::execute) fn argv(program: &Path, word: &str, cookie: &Cookie, directory: &Path) -> Vec<OsString> {
    vec![program.into(), word.into(), cookie.to_string().into(), directory.into()]
}

impl Guard {
    /// Starts `program` (that is, `ftest`) as the guard for everything marked `cookie` and for `directory`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(program: &Path, cookie: &Cookie, directory: &Path) -> std::io::Result<Guard> {
        let argv = argv(program, ARGUMENT, cookie, directory);
        let post = Arc::new(Post { child: Mutex::new(start(&argv)?), argv });
        let runtime = tokio::runtime::Handle::try_current().ok();
        let watch = runtime.map(|runtime| runtime.spawn(Arc::clone(&post).watch()));
        Ok(Guard { post, watch })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.post.child().id() as i32
    }

    /// Dismisses the guard and waits for it.
    pub fn dismiss(mut self) {
        self.leave_alone();
        let mut child = self.post.child();
        if let Some(mut lifeline) = child.stdin.take() {
            // A guard that was killed has nothing left to do.
            let _ = lifeline.write_all(DONE);
        }
        let _ = child.wait();
    }

    /// Stops replacing it.
    fn leave_alone(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.leave_alone();
        // The task being aborted may hold the lock a moment longer.
        drop(self.post.child().stdin.take());
    }
}

/// The guard's main function, given the arguments after its word: the cookie and the directory. Returns the exit code.
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
        runtime.block_on(sweep.clear(deadline::GUARD));
    }
    let directory = PathBuf::from(directory);
    let _ = std::fs::remove_dir_all(directory);
    0
}
