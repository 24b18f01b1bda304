//! Threads of our own, which are told from the program's by their names.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::lock::{Condvar, Mutex};

/// The beginnings of the names of our own threads.
const OURS: [&str; 2] = ["ftest-", "fakegpu-"];
/// How long a new thread may need until it runs: it only waits for a processor.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of threads that were started and do not run yet.
static STARTING: Mutex<usize> = Mutex::new(0);
static RUNS: Condvar = Condvar::new();

/// Starts a thread of our own; its `name` begins as all of them do.
///
/// # Errors
/// If the system has no thread for us.
pub fn start<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    debug_assert!(is_ours(name), "{name} is taken for a thread of the program");
    *STARTING.lock() += 1;
    let started = Builder::new().name(name.to_owned()).spawn(move || {
        runs();
        body()
    });
    if started.is_err() {
        runs();
    }
    started
}

/// Whether the process has threads besides the calling one and ours. True where that cannot be known.
pub fn has_others() -> bool {
    if !all_run() {
        return true;
    }
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return true };
    // SAFETY: no preconditions.
    let own = unsafe { libc::gettid() }.to_string();
    threads.flatten().filter(|thread| thread.file_name() != own.as_str()).any(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        // A thread that has ended meanwhile has no name.
        name.is_ok_and(|name| !is_ours(&name))
    })
}

/// Waits until every thread of ours runs: until then it has the name of the thread that started it. False after the deadline.
fn all_run() -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut starting = STARTING.lock();
    while *starting > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        starting = RUNS.wait_timeout(starting, left);
    }
    true
}

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|start| name.starts_with(start))
}

fn runs() {
    *STARTING.lock() -= 1;
    RUNS.notify_all();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn threads_of_ours_have_their_names_before_anyone_counts_them() {
        const THREADS: usize = 64;
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        for _ in 0..20 {
            let start = |_| {
                let gate = Arc::clone(&gate);
                start("ftest-named", move || drop(gate.1.wait_while(gate.0.lock(), |open| !*open))).unwrap()
            };
            let started: Vec<_> = (0..THREADS).map(start).collect();
            assert!(all_run());
            let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
            let names = names.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
            assert_eq!(names.filter(|name| name == "ftest-named\n").count(), THREADS);
            *gate.0.lock() = true;
            gate.1.notify_all();
            for thread in started {
                thread.join().unwrap();
            }
            *gate.0.lock() = false;
        }
    }
}
