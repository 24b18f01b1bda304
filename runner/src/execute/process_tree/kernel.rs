//! What only the kernel can do for a process that is to be started, and Rust calls unsafe. The rest of the
//! runner's unsafe code is in `network/port.rs`.
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

/// Programs inherit no descriptor of ftest's except its streams: one that inherits a pipe of the shell or of
/// a CI agent keeps it open, and its reader hangs.
pub fn keep_descriptors() {
    // SAFETY: no descriptor is closed here, and none of ours is meant to be inherited by its number.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    // Before Linux 5.11 there is no such call, and programs inherit all descriptors.
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

/// Signals that ask a process to end pass this one by, but not what it starts: for one that stays until its child has ended.
pub(in crate::execute) fn outlive_signals() {
    extern "C" fn nothing(_: c_int) {}
    for signal in ORDINARY.into_iter().filter(|signal| !matches!(*signal, libc::SIGCHLD | libc::SIGTSTP)) {
        // SAFETY: the structure is plain data, and the handler touches nothing.
        let done = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
            libc::sigaction(signal, &action, ptr::null_mut())
        };
        // It cannot fail for a signal that there is.
        let _ = done;
    }
}

/// Ends this process as the signal `number` ends a program. Gives the code that a shell has for it where the signal ends nothing.
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

/// If our parent ignored SIGCHLD, the kernel would drop our children's exit statuses: resets it to the default.
pub fn keep_exit_statuses() {
    // SAFETY: the structure is plain data; no handler is set.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut())
    };
    // It cannot fail for a signal that there is.
    let _ = done;
}

/// Stops this process until it is continued. SIGSTOP and not SIGTSTP: that one we have caught, and the shell sees the same.
/// It goes to this thread: one to the process may be taken by another thread, and this one would go on until that runs.
pub(in crate::execute) fn stop_here() {
    // SAFETY: no preconditions.
    let done = unsafe { libc::raise(libc::SIGSTOP) };
    // It cannot fail for a signal that there is.
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
    /// It shares our group, our terminal and what is ignored; else it leads a session of its own.
    pub(in crate::execute) foreground: bool,
    /// What the kernel sends it when this process dies, even if nothing is left to look for it.
    pub(in crate::execute) at_our_death: Option<c_int>,
}

/// Bytes of the stack that a child has until it becomes its program.
const STACK: usize = 64 << 10;
/// How a child ends that could not become its program.
const FAILED: c_int = 127;

/// What a child needs until it becomes its program. It runs in our memory while our thread is suspended.
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
    /// Why it could not.
    error: c_int,
}

impl Spawn<'_> {
    /// Starts it, in a session of its own unless it is to share ours: it has no terminal to take away, to wait for or to be
    /// stopped by, no signal is blocked or ignored, and its pid is also that of its group and of its session. Gives the pid.
    ///
    /// As posix_spawn does it, which cannot set what happens at our death: a fork would copy the page tables of a run that
    /// has seen ten thousand cases, and leave the child waiting in line for a processor.
    ///
    /// # Errors
    /// What the system answers, also to the exec.
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
        // Whole words of 16 bytes, as the ABI wants it of a stack.
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
        // SAFETY: the child wrote it, if anybody did; no copy of it is older than the call above.
        match unsafe { (&raw const child.error).read_volatile() } {
            0 => Ok(pid),
            error => {
                // SAFETY: our child, for which only we wait; no status is asked for.
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
                // Our parent may have died before the kernel knew what to do then.
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

/// No signal has a handler: those of ours are not to run in a child. None is ignored either, except by a program in the
/// foreground, which keeps what our parent ignored; SIGPIPE is ignored by us.
///
/// # Safety
/// Only in a child whose signal dispositions are its own.
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

/// The list as C has it, ending with null. Valid as long as `texts`.
fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
