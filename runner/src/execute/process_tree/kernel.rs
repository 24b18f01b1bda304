//! Kernel operations for starting a process that need unsafe Rust. The rest of the runner's unsafe code is in
//! `network/port.rs`.
#![expect(
    unsafe_code,
    reason = "close_range and clone have no safe wrapper; std's knows neither sessions nor our death"
)]

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libc::{c_char, c_int, c_uint, c_ulong, c_void, pid_t};

use super::inherit::{self, UmaskOf};

/// The first descriptor after the three streams.
const FIRST: c_uint = 3;

/// Signals that a program may find ignored because ftest's parent ignored them, as `nohup` and a shell's `&` do.
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

/// Makes programs inherit no descriptors from ftest except its streams: a program that inherits a pipe from the shell
/// or a CI agent keeps it open, and the reader hangs.
pub fn keep_descriptors() {
    // SAFETY: no descriptor is closed here, and none of ours is meant to be inherited by number.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    // Linux before 5.11 lacks this call, and programs inherit all descriptors.
    let _ = done;
}

/// Makes a write beyond the file size limit fail with "File too large", like a write on a full disk, instead of ending
/// ftest. Uses a handler that does nothing: unlike an ignored signal, programs do not inherit it.
pub fn survive_file_limit() {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: the structure is plain data, and the handler touches nothing.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXFSZ, &action, ptr::null_mut())
    };
    // It cannot fail for a signal that exists.
    let _ = done;
}

/// Makes this process, but not its children, ignore signals that ask it to end: for a process that stays until its child has
/// ended.
pub(in crate::execute) fn outlive_signals() {
    extern "C" fn nothing(_: c_int) {}
    for signal in ORDINARY.into_iter().filter(|signal| !matches!(*signal, libc::SIGCHLD | libc::SIGTSTP)) {
        // SAFETY: the structure is plain data, and the handler touches nothing.
        let done = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
            libc::sigaction(signal, &action, ptr::null_mut())
        };
        // It cannot fail for a signal that exists.
        let _ = done;
    }
}

/// Ends this process the way the signal `number` ends a program. If the signal does not end it, returns the code that a shell
/// uses for it.
pub(in crate::execute) fn end_by(number: c_int) -> c_int {
    // SAFETY: the structure is plain data; a signal that does not exist is refused.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(number, &action, ptr::null_mut());
        libc::kill(libc::getpid(), number);
    }
    128 + number
}

/// Resets SIGCHLD to the default: if our parent ignored it, the kernel would drop our children's exit statuses.
pub fn keep_exit_statuses() {
    // SAFETY: the structure is plain data; no handler is set.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut())
    };
    // It cannot fail for a signal that exists.
    let _ = done;
}

/// Stops this process until it is continued. Uses SIGSTOP, not SIGTSTP, because we catch the latter; the shell sees no
/// difference. The signal goes to this thread: another thread might take a signal to the process, and this one would go on
/// until that thread runs.
pub(in crate::execute) fn stop_here() {
    // SAFETY: no preconditions.
    let done = unsafe { libc::raise(libc::SIGSTOP) };
    // It cannot fail for a signal that exists.
    let _ = done;
}

/// A process to start.
#[derive(Debug)]
pub(in crate::execute) struct Spawn<'a> {
    /// An executable file.
    pub(in crate::execute) file: &'a Path,
    /// What it sees as its name and arguments.
    pub(in crate::execute) arguments: Vec<&'a OsStr>,
    /// Its whole environment.
    pub(in crate::execute) environment: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub(in crate::execute) directory: &'a Path,
    /// stdin, stdout, stderr; none of them is itself one of the three descriptors.
    pub(in crate::execute) streams: [BorrowedFd<'a>; 3],
    /// Whose umask it gets.
    pub(in crate::execute) umask: UmaskOf,
    /// The network namespace that it enters.
    pub(in crate::execute) network: Option<BorrowedFd<'a>>,
    /// Whether it shares our group, terminal and ignored signals; otherwise it leads its own session.
    pub(in crate::execute) foreground: bool,
    /// The signal that the kernel sends it when this process dies, even if nothing is left to look for it.
    pub(in crate::execute) at_our_death: Option<c_int>,
}

/// Stack size of a child until it becomes its program, bytes.
const STACK: usize = 64 << 10;
/// The exit code of a child that could not become its program.
const FAILED: c_int = 127;

/// Data that a child needs until it becomes its program. It runs in our memory while our thread is suspended.
struct Child {
    file: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
    directory: *const c_char,
    streams: [c_int; 3],
    umask: UmaskOf,
    network: Option<c_int>,
    foreground: bool,
    at_our_death: Option<c_int>,
    parent: pid_t,
    /// Why it could not become its program.
    error: c_int,
}

impl Spawn<'_> {
    /// Starts it in its own session, unless it is to share ours. It has no terminal to take away, wait for or be stopped by;
    /// no signal is blocked or ignored; and its pid is also the id of its group and session. Returns the pid.
    ///
    /// Works like posix_spawn, which cannot set what happens at our death. A fork would copy the page tables of a run that
    /// has seen ten thousand cases, and leave the child waiting in line for a processor.
    ///
    /// # Errors
    /// The system error, including that of the exec.
    pub(in crate::execute) fn start(&self) -> io::Result<i32> {
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
        let mut child = Child {
            file: file.as_ptr(),
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            directory: directory.as_ptr(),
            streams: [0, 1, 2].map(|stream| self.streams[stream].as_raw_fd()),
            umask: self.umask,
            network: self.network.map(|network| network.as_raw_fd()),
            foreground: self.foreground,
            at_our_death: self.at_our_death,
            // SAFETY: no preconditions.
            parent: unsafe { libc::getpid() },
            error: 0,
        };
        // Multiples of 16 bytes, as the ABI requires for a stack.
        let mut stack = vec![0_u128; STACK / size_of::<u128>()];
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the child uses nothing but `child` and its own stack, both of which live until it has become its program or
        // is gone: until then this thread is suspended. No handler of ours runs in it, since every signal is blocked.
        let pid = unsafe {
            let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            libc::sigfillset(all.as_mut_ptr());
            check(libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()))?;
            let top = stack.as_mut_ptr_range().end.cast::<c_void>();
            let pid = libc::clone(become_program, top, flags, (&raw mut child).cast());
            let error = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
            if pid < 0 {
                return Err(error);
            }
            pid
        };
        // SAFETY: only the child may have written it; no copy of it is older than the call above.
        match unsafe { (&raw const child.error).read_volatile() } {
            0 => Ok(pid),
            error => {
                // SAFETY: this is our child, and only we wait for it; no status is requested.
                unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}

/// The child's life until it becomes its program. Only what may be called between fork and exec: it shares our memory.
extern "C" fn become_program(child: *mut c_void) -> c_int {
    let child = child.cast::<Child>();
    // SAFETY: `start` passes its `Child`, which nothing else touches meanwhile; every pointer in it is live, every string ends with
    // a zero and both lists with null.
    unsafe {
        let error = 'failed: {
            default_signals((*child).foreground);
            if let Err(error) = inherit::bequeath((*child).umask) {
                break 'failed error.raw_os_error().unwrap_or(libc::EPERM);
            }
            if let Some(network) = (*child).network
                && libc::setns(network, libc::CLONE_NEWNET) < 0
            {
                break 'failed errno();
            }
            if !(*child).foreground && libc::setsid() < 0 {
                break 'failed errno();
            }
            if let Some(signal) = (*child).at_our_death {
                if libc::prctl(libc::PR_SET_PDEATHSIG, signal as c_ulong) < 0 {
                    break 'failed errno();
                }
                // Our parent may have died before the kernel knew what to do in that case.
                if libc::getppid() != (*child).parent {
                    libc::_exit(FAILED);
                }
            }
            if (0..3).any(|stream| libc::dup2((*child).streams[stream as usize], stream) < 0) {
                break 'failed errno();
            }
            if libc::chdir((*child).directory) < 0 {
                break 'failed errno();
            }
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
            libc::execve((*child).file, (*child).argv.cast(), (*child).envp.cast());
            errno()
        };
        (&raw mut (*child).error).write_volatile(error);
        libc::_exit(FAILED)
    }
}

/// Removes all signal handlers, because ours must not run in a child. No signal is ignored either, except that a
/// program in the foreground keeps what our parent ignored; SIGPIPE is ignored by us.
///
/// # Safety
/// Call only in a child that has its own signal dispositions.
unsafe fn default_signals(foreground: bool) {
    // SAFETY: all-zero is a value of this plain C struct, and means the default; signals that do not exist are refused.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        for signal in 1..=libc::SIGRTMAX() {
            let mut now: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, ptr::null(), &raw mut now) == 0;
            let ignored = now.sa_sigaction == libc::SIG_IGN;
            let reset = if foreground { signal == libc::SIGPIPE } else { ORDINARY.contains(&signal) };
            if known && now.sa_sigaction != libc::SIG_DFL && (!ignored || reset) {
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
        }
    }
}

fn errno() -> c_int {
    // SAFETY: no preconditions.
    unsafe { *libc::__errno_location() }
}

fn text(word: &OsStr) -> io::Result<CString> {
    CString::new(word.as_bytes()).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "it holds a NUL byte"))
}

/// A C list of pointers, ending with null. Valid as long as `texts`.
fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
