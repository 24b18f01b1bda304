//! Where the ranks of a hang are, below Python: every thread's state and system call and, if gdb may look, its stack. All of
//! it goes into one file per process; a one-line summary is for people in a hurry.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use regex::Regex;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::execute::process_tree::sweep::Process;
use crate::host::deadline;

/// Stack frames kept, starting with the innermost.
const DEPTH: u32 = 32;
/// Main-thread frames shown in the summary line.
const FRAMES: usize = 4;

/// The findings about all processes.
pub(in crate::execute) struct NativeState {
    /// One line per process.
    pub(in crate::execute) lines: Vec<String>,
    /// Where the details are, or why there are none.
    pub(in crate::execute) files: Result<PathBuf, String>,
}

/// One thread as `/proc` shows it.
struct Thread {
    id: i32,
    name: String,
    state: char,
    /// "futex", or "no system call".
    call: String,
    /// Kernel function that it waits in; empty if unknown.
    channel: String,
}

/// Inspects the processes of ranks. With `stacks`, gdb inspects them as well, the `missing` ranks first. Files go to
/// `directory`.
pub(in crate::execute) async fn collect(
    processes: &[Process],
    missing: &[u32],
    stacks: bool,
    directory: &Path,
) -> NativeState {
    let mut ranks: Vec<(u32, &Process)> =
        processes.iter().filter_map(|process| process.rank.map(|rank| (rank, process))).collect();
    ranks.sort_by_key(|(rank, _)| !missing.contains(rank));
    // Read before gdb stops them.
    let threads: Vec<Vec<Thread>> = ranks.iter().map(|(_, process)| threads(process.pid)).collect();
    let cores = Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));
    let end = Instant::now() + deadline::GDB_ALL;
    let look = |(_, process): &(u32, &Process)| {
        let (pid, cores) = (process.pid, Arc::clone(&cores));
        tokio::spawn(async move {
            if !stacks {
                return Err("not asked for".to_owned());
            }
            match timeout_at(end, cores.acquire_owned()).await {
                Ok(_turn) => backtraces(pid).await,
                Err(_) => Err(format!("there was no time left after {} s", deadline::GDB_ALL.as_secs())),
            }
        })
    };
    let looks: Vec<_> = ranks.iter().map(look).collect();
    let mut state = NativeState {
        lines: Vec::new(),
        files: std::fs::create_dir_all(directory)
            .map(|()| directory.to_owned())
            .map_err(|error| format!("no native state: cannot make {}: {error}", directory.display())),
    };
    for (((rank, process), threads), look) in ranks.into_iter().zip(&threads).zip(looks) {
        let stacks = look.await.unwrap_or_else(|error| Err(error.to_string()));
        state.lines.push(line(rank, process, threads, stacks.as_deref().unwrap_or_default()));
        let path = directory.join(format!("rank_{rank}.{}.txt", process.pid));
        if state.files.is_ok()
            && let Err(error) = std::fs::write(&path, page(rank, process, threads, &stacks))
        {
            state.files = Err(format!("no native state: cannot write {}: {error}", path.display()));
        }
    }
    state.lines.sort();
    state
}

/// The system call in which the main thread waits; `None` if it runs, or is gone.
pub(in crate::execute) fn main_call(pid: i32) -> Option<String> {
    let task = Path::new("/proc").join(pid.to_string()).join("task").join(pid.to_string());
    thread(&task).filter(Thread::is_waiting).map(|thread| thread.call)
}

/// Whether a thread of any of them runs, or waits for the disk or a processor.
pub(in crate::execute) fn any_runs(processes: &[Process]) -> bool {
    processes.iter().any(|process| threads(process.pid).iter().any(|thread| matches!(thread.state, 'R' | 'D')))
}

/// "rank 2: python3.11 (pid 4711), sleeping, main thread in clock_nanosleep < sleep < main, 7 threads".
fn line(rank: u32, process: &Process, threads: &[Thread], stacks: &str) -> String {
    let main = threads.iter().find(|thread| thread.id == process.pid);
    let calls = main_calls(stacks, process.pid);
    let place = match (calls.is_empty(), main) {
        (false, _) => format!(", main thread in {}", calls.join(" < ")),
        (true, Some(main)) if main.is_waiting() => format!(", main thread in {}", main.place()),
        (true, _) => String::new(),
    };
    let count = threads.len();
    let plural = if count == 1 { "thread" } else { "threads" };
    format!("rank {rank}: {} (pid {}), {}{place}, {count} {plural}", process.name, process.pid, word(process.state))
}

fn page(rank: u32, process: &Process, threads: &[Thread], stacks: &Result<String, String>) -> String {
    let mut page = format!("rank {rank}: {}, process {}\n\n", process.name, process.pid);
    for thread in threads {
        let (id, name, state) = (thread.id, &thread.name, word(thread.state));
        // Writing to a String cannot fail.
        let _ = writeln!(page, "thread {id:<8} {name:<16} {state}, {}", thread.place());
    }
    let _ = match stacks {
        Ok(stacks) => write!(page, "\n{stacks}"),
        Err(why) => write!(page, "\nno stacks: {why}\n"),
    };
    page
}

/// The kernel's state letter as a word.
fn word(state: char) -> &'static str {
    match state {
        'R' => "running",
        'S' => "sleeping",
        'D' => "in an uninterruptible sleep",
        'T' => "stopped by a signal",
        't' => "stopped by a debugger",
        'Z' => "a zombie",
        _ => "in an unknown state",
    }
}

impl Thread {
    fn is_waiting(&self) -> bool {
        self.state != 'R'
    }

    /// "futex (futex_wait_queue)".
    fn place(&self) -> String {
        if self.channel.is_empty() { self.call.clone() } else { format!("{} ({})", self.call, self.channel) }
    }
}

fn threads(pid: i32) -> Vec<Thread> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut threads: Vec<Thread> = tasks.filter_map(|task| thread(&task.path())).collect();
    threads.sort_by_key(|thread| thread.id);
    threads
}

/// The thread of a directory `/proc/PID/task/TID`.
fn thread(task: &Path) -> Option<Thread> {
    let id = task.file_name()?.to_str()?.parse().ok()?;
    let read = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
    let stat = read("stat");
    // The name is in parentheses and may itself contain some.
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    let channel = read("wchan");
    Some(Thread {
        id,
        name: read("comm").trim().to_owned(),
        state,
        call: system_call(&read("syscall")),
        channel: if channel == "0" { String::new() } else { channel },
    })
}

/// The name of the system call in `/proc/PID/task/TID/syscall`.
fn system_call(text: &str) -> String {
    /// System calls that threads wait in. Others are shown by number.
    const NAMES: [(libc::c_long, &str); 25] = [
        (libc::SYS_futex, "futex"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_pselect6, "pselect6"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_epoll_pwait2, "epoll_pwait2"),
        (libc::SYS_nanosleep, "nanosleep"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_read, "read"),
        (libc::SYS_readv, "readv"),
        (libc::SYS_write, "write"),
        (libc::SYS_writev, "writev"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_sendmsg, "sendmsg"),
        (libc::SYS_accept, "accept"),
        (libc::SYS_accept4, "accept4"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_waitid, "waitid"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_flock, "flock"),
        (libc::SYS_fcntl, "fcntl"),
        (libc::SYS_restart_syscall, "restart_syscall"),
    ];
    #[cfg(target_arch = "x86_64")]
    const OLDER: [(libc::c_long, &str); 4] = [
        (libc::SYS_poll, "poll"),
        (libc::SYS_select, "select"),
        (libc::SYS_epoll_wait, "epoll_wait"),
        (libc::SYS_pause, "pause"),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const OLDER: [(libc::c_long, &str); 0] = [];
    let number = text.split_ascii_whitespace().next().and_then(|word| word.parse::<libc::c_long>().ok());
    match number {
        Some(number) if number >= 0 => NAMES
            .iter()
            .chain(&OLDER)
            .find(|(known, _)| *known == number)
            .map_or_else(|| format!("system call {number}"), |(_, name)| (*name).to_owned()),
        Some(_) => "no system call".to_owned(),
        None if text.starts_with("running") => "no system call".to_owned(),
        None => "an unknown place".to_owned(),
    }
}

/// The stacks of all threads, as gdb prints them.
async fn backtraces(pid: i32) -> Result<String, String> {
    let mut command = Command::new("gdb");
    // Nothing from the case's environment reaches gdb, and gdb runs no scripts that lie beside a library.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    let run = format!("thread apply all backtrace {DEPTH}");
    let arguments = ["--batch", "--nx", "--quiet", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"];
    command.args(arguments).args(["-ex", "set width 0", "-ex", &run, "-p"]).arg(OsString::from(pid.to_string()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut gdb = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "gdb is not on PATH".to_owned(),
        _ => format!("gdb cannot be started: {error}"),
    })?;
    let (Some(mut stdout), Some(mut stderr)) = (gdb.stdout.take(), gdb.stderr.take()) else {
        return Err("gdb has no output".to_owned());
    };
    let (mut out, mut complaints) = (Vec::new(), Vec::new());
    let read = async { tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut complaints)) };
    let is_done = timeout(deadline::GDB, read).await.is_ok();
    let _ = gdb.kill().await;
    let text = String::from_utf8_lossy(&out);
    let begin = text.find("\nThread ").map(|at| at + 1);
    match begin {
        Some(begin) if is_done => Ok(text[begin..].to_owned()),
        Some(begin) => {
            Ok(format!("{}\n(gdb was not done after {} s)\n", text[begin..].trim_end(), deadline::GDB.as_secs()))
        }
        None if !is_done => Err(format!("gdb was not done after {} s", deadline::GDB.as_secs())),
        None => {
            let complaints = String::from_utf8_lossy(&complaints);
            let why = complaints.lines().find(|line| line.contains("ptrace")).or(complaints.lines().last());
            Err(format!("gdb: {}", why.unwrap_or("no thread was found").trim()))
        }
    }
}

/// The innermost functions of the main thread.
fn main_calls(stacks: &str, pid: i32) -> Vec<String> {
    let Ok(call) = Regex::new(r"^#\d+\s+(?:0x[0-9a-f]+ in )?([^\s(]+)") else { return Vec::new() };
    let [light, process] = [format!("(LWP {pid})"), format!("(process {pid})")];
    let lines = stacks.lines().skip_while(|line| !(line.contains(&light) || line.contains(&process))).skip(1);
    let frames = lines.take_while(|line| line.starts_with('#')).filter_map(|line| call.captures(line));
    frames.map(|found| found[1].to_owned()).filter(|name| name != "??").take(FRAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32) -> Process {
        Process {
            pid,
            parent: 0,
            group: 0,
            session: 0,
            start: 0,
            state: 'S',
            name: "sleep".to_owned(),
            rank: Some(3),
            cookie: None,
        }
    }

    #[test]
    fn calls_are_shown_by_name_or_number() {
        assert_eq!(system_call(&format!("{} 0x7f 0x0 0x7ffe 0x7f", libc::SYS_futex)), "futex");
        assert_eq!(system_call("9999 0x7f"), "system call 9999");
        assert_eq!(system_call("running\n"), "no system call");
        assert_eq!(system_call("-1 0x7ffd 0x7f"), "no system call");
        assert_eq!(system_call(""), "an unknown place");
    }

    #[test]
    fn the_main_thread_is_found_among_gdbs_stacks() {
        let stacks = "Thread 2 (LWP 12 \"flush\"):\n#0  0x00007f in futex () from libc\n\nThread 1 (LWP 11 \"sleep\"):\n\
                      #0  0x00007f in clock_nanosleep () from libc\n#1  0x00007f in ?? ()\n#2  main (argc=1)\n";
        assert_eq!(main_calls(&stacks.replace("LWP 11 \"sleep\"", "LWP 11"), 11), ["clock_nanosleep", "main"]);
        assert!(main_calls(stacks, 13).is_empty());
    }

    #[tokio::test]
    async fn a_sleeping_process_is_seen_sleeping() {
        let mut child = std::process::Command::new("sleep").arg("60").env("LD_PRELOAD", "").spawn().unwrap();
        let pid = child.id() as i32;
        // It sleeps only once it is `sleep` and no longer a copy of this process.
        let asleep = || threads(pid).iter().any(|thread| thread.call == "clock_nanosleep");
        while !asleep() {
            tokio::task::yield_now().await;
        }
        let directory = tempfile::tempdir().unwrap();
        let state = collect(&[process(pid)], &[3], true, &directory.path().join("native")).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let [line] = &state.lines[..] else { panic!("{:?}", state.lines) };
        assert!(line.starts_with(&format!("rank 3: sleep (pid {pid}), sleeping, main thread in ")), "{line}");
        assert!(line.contains("nanosleep") && line.ends_with(", 1 thread"), "{line}");
        let page = std::fs::read_to_string(state.files.unwrap().join(format!("rank_3.{pid}.txt"))).unwrap();
        assert!(page.contains("sleep            sleeping, clock_nanosleep"), "{page}");
        assert!(page.contains("#0 ") || page.contains("no stacks: "), "{page}");
    }
}
