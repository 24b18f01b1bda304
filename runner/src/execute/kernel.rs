//! What only the kernel can do for a process that is to be started, and Rust calls unsafe. All unsafe code of the runner is
//! in this file.
#![expect(unsafe_code, reason = "close_range and posix_spawn have no safe wrapper; std's has no new session")]

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libc::{c_char, c_int, c_short, c_uint, pid_t};
use tokio::process::Command;

use super::inherit::{self, Heir};

/// The first descriptor that is none of the three streams.
const FIRST: c_uint = 3;

/// Signals that a program may find ignored because ftest's own starter ignored them, as `nohup` and a shell's `&` do.
const ORDINARY: [c_int; 12] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGCHLD,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Whatever ftest was started with besides its streams stays with it: a program that inherits a pipe of the shell's or of
/// a CI agent keeps that one open, and hangs who reads from it.
pub fn keep_descriptors() {
    // SAFETY: no descriptor is closed here, and none of ours is meant to be inherited by its number.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    // Before Linux 5.11 there is no such call, and programs inherit what they did.
    let _ = done;
}

/// A write beyond the limit on file sizes answers "File too large", as one on a full disk does, and does not end ftest. A
/// handler that does nothing: unlike a signal that is ignored, no program inherits it.
pub fn survive_file_limit() {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: the structure is plain data, and the handler touches nothing.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXFSZ, &action, ptr::null_mut())
    };
    // It cannot fail for a signal that there is.
    let _ = done;
}

/// The program starts a session of its own, as those of [`Spawn`] do.
pub(super) fn new_session(command: &mut Command) {
    // SAFETY: setsid is async-signal-safe and touches no memory.
    unsafe {
        command.pre_exec(|| if libc::setsid() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
}

/// The program inherits the user's limits and umask, as those of [`Spawn`] do, and not ftest's own.
pub fn bequeath(command: &mut Command, heir: Heir) {
    // SAFETY: bare system calls, which are async-signal-safe; nothing is allocated.
    unsafe {
        command.pre_exec(move || inherit::bequeath(heir));
    }
}

/// A process to start.
#[derive(Debug)]
pub(super) struct Spawn<'a> {
    /// An executable file.
    pub(super) file: &'a Path,
    /// What it sees as its name and arguments.
    pub(super) arguments: Vec<&'a OsStr>,
    /// Its whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub(super) directory: &'a Path,
    /// stdin, stdout, stderr; none of them is itself one of the three descriptors.
    pub(super) streams: [BorrowedFd<'a>; 3],
    /// Whose umask it gets.
    pub(super) heir: Heir,
    /// It leads a session of its own; else it shares our group and our terminal.
    pub(super) session: bool,
}

impl Spawn<'_> {
    /// Starts it, in a session of its own unless it is to share ours: it has no terminal to take away, to wait for or to be stopped by. Signals are
    /// neither blocked nor ignored. Gives its pid, which is also that of its group and of its session.
    ///
    /// posix_spawn, since a fork would copy the page tables of a run that has seen ten thousand cases, and leave the child
    /// waiting in line for a processor.
    ///
    /// # Errors
    /// What the system answers, also to the exec.
    pub(super) fn start(&self) -> io::Result<i32> {
        let file = text(self.file.as_os_str())?;
        let directory = text(self.directory.as_os_str())?;
        let arguments = self.arguments.iter().map(|word| text(word)).collect::<io::Result<Vec<CString>>>()?;
        let variable = |(name, value): &(OsString, OsString)| {
            let mut entry = name.clone();
            entry.push("=");
            entry.push(value);
            text(&entry)
        };
        let environment = self.environment.iter().map(variable).collect::<io::Result<Vec<CString>>>()?;
        let (argv, envp) = (pointers(&arguments), pointers(&environment));
        let mut actions = MaybeUninit::uninit();
        let mut attributes = MaybeUninit::uninit();
        let mut pid: pid_t = 0;
        // SAFETY: both objects are initialised before anything else is done with them and destroyed after the last use;
        // every string ends with a zero, both lists end with null, and all of them outlive the call.
        unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            let made = check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))
                .and_then(|()| self.prepare(actions.as_mut_ptr(), attributes.as_mut_ptr(), &directory));
            let (actions, attributes) = (actions.as_mut_ptr(), attributes.as_mut_ptr());
            let started = made.and_then(|()| {
                inherit::lend(self.heir, || {
                    check(libc::posix_spawn(&mut pid, file.as_ptr(), actions, attributes, argv.as_ptr(), envp.as_ptr()))
                })
            });
            libc::posix_spawnattr_destroy(attributes);
            libc::posix_spawn_file_actions_destroy(actions);
            started.map(|()| pid)
        }
    }

    /// # Safety
    /// Both pointers are to initialised objects.
    unsafe fn prepare(
        &self,
        actions: *mut libc::posix_spawn_file_actions_t,
        attributes: *mut libc::posix_spawnattr_t,
        directory: &CString,
    ) -> io::Result<()> {
        let mut none = MaybeUninit::uninit();
        let mut ordinary = MaybeUninit::uninit();
        // SAFETY: the caller's promise; the sets are initialised by sigemptyset.
        unsafe {
            for (number, stream) in self.streams.iter().enumerate() {
                check(libc::posix_spawn_file_actions_adddup2(actions, stream.as_raw_fd(), number as c_int))?;
            }
            check(libc::posix_spawn_file_actions_addchdir_np(actions, directory.as_ptr()))?;
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigemptyset(ordinary.as_mut_ptr());
            for signal in ORDINARY {
                libc::sigaddset(ordinary.as_mut_ptr(), signal);
            }
            check(libc::posix_spawnattr_setsigmask(attributes, none.as_ptr()))?;
            check(libc::posix_spawnattr_setsigdefault(attributes, ordinary.as_ptr()))?;
            let signals = (libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF) as c_short;
            let session = if self.session { libc::POSIX_SPAWN_SETSID } else { 0 };
            check(libc::posix_spawnattr_setflags(attributes, signals | session))
        }
    }
}

fn text(word: &OsStr) -> io::Result<CString> {
    CString::new(word.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "it holds a NUL byte"))
}

/// The list as C has it, ending with null. Valid as long as `texts`.
fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
