//! Finds and ends every process of a case by its mark in `/proc/PID/environ` and by descent, so that a process that left
//! its session, group or parent is found too. Processes are signaled through a pidfd, so never a reused pid.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use protocol::env;
use protocol::launcher::Launcher;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::children;
use super::cookie::{self, Cookie};
use crate::execute::run::clock::{Instant, timeout_at};
use crate::host::{deadline, variable};

/// How often to look among our children for a group that still exists.
const LOOKS: u32 = 20;

/// A process as `/proc` showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// Start time in clock ticks since boot: with the pid, its identity.
    pub start: u64,
    /// The kernel's letter for its state.
    pub state: char,
    /// Command name, at most 15 bytes.
    pub name: String,
    /// `RANK` and `LOCAL_RANK` of its environment.
    pub rank: Option<u32>,
    /// `FTEST_CASE_COOKIE` of its environment.
    pub cookie: Option<String>,
}

impl Process {
    /// Reads one process; `None` if it is gone.
    pub(in crate::execute) fn read(pid: i32) -> Option<Process> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let mut process = parse_stat(&String::from_utf8_lossy(&stat))?;
        // Unreadable for another user's process, which is not ours then.
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        process.cookie = variable::in_environ(&environ, env::COOKIE.name).map(str::to_owned);
        let launcher = Launcher::read(|name| variable::in_environ(&environ, name).map(str::to_owned));
        process.rank = launcher.rank.map(|rank| rank.0);
        Some(process)
    }

    /// This process. Its group and session are 0 if they began outside our process namespace, as in a container that
    /// was entered; the system calls cannot express that.
    pub fn own() -> Option<Process> {
        Process::read(std::process::id() as i32)
    }

    /// Whether a signal has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.state == 'T'
    }

    /// Whether it can still run.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// A handle for exactly this process; `None` if it is gone.
    fn open(&self) -> Option<OwnedFd> {
        let pidfd = rustix::process::pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // It was opened by number, and the number may have passed to another process since it was read.
        let now = std::fs::read(format!("/proc/{}/stat", self.pid)).ok()?;
        (parse_stat(&String::from_utf8_lossy(&now))?.start == self.start).then_some(pidfd)
    }

    /// Sends a signal; false if the process is gone.
    pub fn signal(&self, signal: Signal) -> bool {
        self.open().is_some_and(|pidfd| rustix::process::pidfd_send_signal(&pidfd, signal).is_ok())
    }

    /// Kills it. If its session is not ours, kills its whole group, including anything forked in the meantime: a process
    /// that keeps forking and exiting has no stable pid to kill. A session that a case began contains only the case's
    /// processes. False if the process is gone.
    fn end(&self) -> bool {
        // As long as the process exists, dead or alive, no other group can have its number.
        let Some(pidfd) = self.open() else { return false };
        let own = Process::own().map(|own| own.session);
        if let Some(group) = Pid::from_raw(self.group).filter(|_| Some(self.session) != own) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        rustix::process::pidfd_send_signal(&pidfd, Signal::KILL).is_ok()
    }

    /// Whether it is a rank that runs Python: with `PYTHONFAULTHANDLER` it prints its stacks when it is aborted.
    pub(in crate::execute) fn prints_stacks(&self) -> bool {
        let program = std::fs::read_link(format!("/proc/{}/exe", self.pid));
        let name = program.as_ref().ok().and_then(|program| program.file_name());
        self.rank.is_some() && name.is_some_and(|name| name.to_string_lossy().starts_with("python"))
    }

    /// "python (pid 4711, rank 2)". A program chooses its own name, so unprintable characters in it are kept from the
    /// terminal.
    pub fn describe(&self) -> String {
        let name: String = self.name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
        match self.rank {
            Some(rank) => format!("{name} (pid {}, rank {rank})", self.pid),
            None => format!("{name} (pid {})", self.pid),
        }
    }
}

/// The relevant fields of `/proc/PID/stat`; the name may contain spaces and parentheses.
fn parse_stat(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Process {
        pid: pid.trim().parse().ok()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
        name: name.to_owned(),
        rank: None,
        cookie: None,
    })
}

/// The processes to look for, and those to leave alone.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Covers the processes.
    pub cookie: Cookie,
    /// Processes that are neither found nor signaled.
    pub spared: HashSet<i32>,
    /// The same, by their mark.
    pub spared_cookie: Option<Cookie>,
    /// Our own children, which are reaped elsewhere.
    pub awaited: HashSet<i32>,
    /// Process groups created for what the cookie covers. An orphan that was reparented to us and is in one of them
    /// belongs to it even if it lost the mark with its environment.
    pub groups: HashSet<i32>,
    /// Whether some were started by another parent, such as slurmd: then only a scan of the whole machine finds what
    /// they left.
    pub scattered: bool,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Descriptions of the processes that it had to kill.
    pub killed: Vec<String>,
    /// Descriptions of the processes that did not go away.
    pub unkillable: Vec<String>,
}

impl Sweep {
    /// A sweep of everything that `cookie` covers.
    pub fn new(cookie: Cookie) -> Sweep {
        let (spared, awaited, groups) = Default::default();
        Sweep { cookie, spared, spared_cookie: None, awaited, groups, scattered: false }
    }

    /// Every living process that the cookie covers, and all their descendants; never this process. Dead orphans among
    /// them that were reparented to us are reaped.
    pub fn find(&self) -> Vec<Process> {
        let own = std::process::id() as i32;
        let all = all_but(own);
        for dead in all.iter().filter(|process| !process.is_alive() && self.is_orphan(process, own)) {
            reap(dead.pid);
        }
        self.belonging(all, own)
    }

    /// As [`Sweep::find`], for a case whose own processes ended by themselves: anything they left was reparented to this
    /// process, or descends from such a process. Only scans our own children instead of the whole machine.
    pub fn leftovers(&self) -> Vec<Process> {
        let own = std::process::id() as i32;
        let adopts = ADOPTS.load(Ordering::Relaxed) && !self.scattered;
        for _ in 0..LOOKS {
            let Some(children) = children::list(own).filter(|_| adopts) else { return self.find() };
            let found = self.family(children, own);
            if !found.is_empty() || !self.answers() {
                return found;
            }
        }
        // The number of a group that no longer exists may have been reused.
        Vec::new()
    }

    /// The processes among `next` and their descendants that belong to the sweep.
    fn family(&self, mut next: Vec<i32>, own: i32) -> Vec<Process> {
        let mut all: Vec<Process> = Vec::new();
        while !next.is_empty() {
            let layer: Vec<Process> = next.iter().filter_map(|pid| Process::read(*pid)).collect();
            for dead in layer.iter().filter(|process| !process.is_alive() && self.is_orphan(process, own)) {
                reap(dead.pid);
            }
            let known = all.len();
            all.extend(layer);
            let chosen = self.belonging(all.clone(), own);
            next = all[known..]
                .iter()
                .filter(|process| chosen.contains(process))
                .flat_map(|process| children::list(process.pid).unwrap_or_default())
                .collect();
        }
        self.belonging(all, own)
    }

    /// Whether any process is in one of the groups. This catches a process that forks and exits between two scans.
    fn answers(&self) -> bool {
        let groups = self.groups.iter().filter_map(|group| Pid::from_raw(*group));
        groups.into_iter().any(|group| rustix::process::test_kill_process_group(group).is_ok())
    }

    fn covers(&self, mark: &str) -> bool {
        self.cookie.covers(mark) && !self.spared_cookie.as_ref().is_some_and(|spared| spared.covers(mark))
    }

    /// Whether the process is our child that we did not start, in one of our groups.
    fn is_orphan(&self, process: &Process, own: i32) -> bool {
        process.parent == own && self.groups.contains(&process.group) && !self.awaited.contains(&process.pid)
    }

    fn belonging(&self, all: Vec<Process>, own: i32) -> Vec<Process> {
        let marked = |process: &Process| {
            process.cookie.as_deref().is_some_and(|mark| self.covers(mark)) || self.is_orphan(process, own)
        };
        let mut chosen: HashSet<i32> =
            all.iter().filter(|process| marked(process)).map(|process| process.pid).collect();
        add_descendants(&mut chosen, &all, &self.spared);
        all.into_iter()
            .filter(|process| chosen.contains(&process.pid) && !self.spared.contains(&process.pid))
            .filter(Process::is_alive)
            .collect()
    }

    /// Waits until all of `processes` have ended, at most until `deadline`; returns those that did not.
    pub async fn wait(&self, processes: Vec<Process>, deadline: Instant) -> Vec<Process> {
        let mut left = Vec::new();
        for process in processes {
            let Some(pidfd) = process.open() else { continue };
            #[expect(
                deprecated,
                reason = "sound for an OwnedFd, which stays open while registered; the other is unsafe"
            )]
            let registered = AsyncFd::with_interest(pidfd, Interest::READABLE);
            let ended = match registered {
                Ok(pidfd) => timeout_at(deadline, pidfd.readable()).await.is_ok(),
                Err(_) => false,
            };
            if !ended {
                left.push(process);
            } else if !self.awaited.contains(&process.pid) {
                reap(process.pid);
            }
        }
        left
    }

    /// As [`Sweep::clear`], for a case that ended by itself: it is done when two scans of the processes reparented to us
    /// find nothing.
    pub async fn clear_leftovers(&self, limit: Duration) -> Swept {
        if self.leftovers().is_empty() && self.leftovers().is_empty() {
            return Swept::default();
        }
        self.clear(limit).await
    }

    /// Kills everything that it finds until two passes in a row find nothing, for at most `limit`.
    pub async fn clear(&self, limit: Duration) -> Swept {
        let deadline = Instant::now() + limit;
        let mut swept = Swept::default();
        let mut seen = HashSet::new();
        let mut clean = 0;
        self.let_srun_cancel(deadline).await;
        while clean < 2 {
            // Scanning all of /proc may be so slow that a forking process has moved on by then.
            let near = self.leftovers();
            let alive = if near.is_empty() { self.find() } else { near };
            if alive.is_empty() {
                clean += 1;
                continue;
            }
            clean = 0;
            let (turn, later) = coordinators_last(alive);
            let mut end = |process: &Process| {
                if process.end() && seen.insert((process.pid, process.start)) {
                    swept.killed.push(process.describe());
                }
            };
            turn.iter().for_each(&mut end);
            let left = self.wait(turn, deadline).await;
            if Instant::now() >= deadline {
                later.iter().for_each(end);
                swept.unkillable = left.iter().map(Process::describe).collect();
                break;
            }
        }
        swept
    }
}

impl Sweep {
    /// Lets each srun cancel its step, and the allocation if srun owns it: a killed srun leaves both to Slurm.
    async fn let_srun_cancel(&self, deadline: Instant) {
        let near = self.leftovers();
        let all = if near.is_empty() { self.find() } else { near };
        let sruns: Vec<Process> = all.into_iter().filter(|process| process.name == "srun").collect();
        for srun in &sruns {
            srun.signal(Signal::TERM);
            srun.signal(Signal::CONT);
        }
        self.wait(sruns, deadline.min(Instant::now() + deadline::SRUN)).await;
    }
}

/// Adds to `chosen` their descendants among `all`, except through `spared` processes.
fn add_descendants(chosen: &mut HashSet<i32>, all: &[Process], spared: &HashSet<i32>) {
    loop {
        let before = chosen.len();
        for process in all {
            if chosen.contains(&process.parent) && !spared.contains(&process.parent) {
                chosen.insert(process.pid);
            }
        }
        if chosen.len() == before {
            return;
        }
    }
}

/// Splits `alive` into those to end now and those to end later: coordinators and what they started. If this process is killed
/// before it is done, they end the rest.
fn coordinators_last(alive: Vec<Process>) -> (Vec<Process>, Vec<Process>) {
    let is_one = |process: &&Process| process.cookie.as_deref().is_some_and(cookie::is_of_a_coordinator);
    let mut late: HashSet<i32> = alive.iter().filter(is_one).map(|process| process.pid).collect();
    add_descendants(&mut late, &alive, &HashSet::new());
    let (later, turn): (Vec<Process>, Vec<Process>) =
        alive.into_iter().partition(|process| late.contains(&process.pid));
    if turn.is_empty() { (later, Vec::new()) } else { (turn, later) }
}

/// Reaps an orphan that was reparented to us; a child with another owner is left alone.
fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Every process except `own`.
fn all_but(own: i32) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .filter_map(Process::read)
        .collect()
}

/// Ends the children of this process except `own`, and returns them: orphans that lost mark, group and parent. For the end
/// of a run, when nothing waits for a child any more.
pub async fn end_strays(own: &[i32], limit: Duration) -> Vec<String> {
    let here = std::process::id() as i32;
    let sweep = Sweep::new(Cookie::from_text(String::new()));
    let deadline = Instant::now() + limit;
    let mut ended = Vec::new();
    loop {
        let adopted = all_but(here).into_iter().filter(|process| process.parent == here && !own.contains(&process.pid));
        let (alive, dead): (Vec<Process>, Vec<Process>) = adopted.partition(Process::is_alive);
        dead.iter().for_each(|process| reap(process.pid));
        if alive.is_empty() || Instant::now() >= deadline {
            return ended;
        }
        // Their children become ours when they are gone, so repeat until none is left.
        ended.extend(alive.iter().filter(|process| process.end()).map(Process::describe));
        sweep.wait(alive, deadline).await;
    }
}

/// Whether orphans of our descendants are reparented to this process.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Makes orphans of our descendants our children, so that their end can be seen and they can be reaped.
pub fn become_subreaper() {
    // Only if the kernel supports it; otherwise orphans go to init, and the sweep finds them there.
    let adopts = rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok();
    ADOPTS.store(adopts, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, cookie: Option<&str>) -> Process {
        Process {
            pid,
            parent,
            group: pid,
            session: 1,
            start: 1,
            state: 'S',
            name: "p".into(),
            rank: None,
            cookie: cookie.map(str::to_owned),
        }
    }

    #[test]
    fn a_stat_line_with_a_wild_name_is_read() {
        let stat = "42 (a) b (c)) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1";
        let process = parse_stat(stat).unwrap();
        assert_eq!((process.pid, process.parent, process.state, process.start), (42, 7, 'S', 98765));
        assert_eq!(process.name, "a) b (c)");
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn coordinators_and_what_they_started_have_their_turn_when_all_others_are_gone() {
        let coordinator = process(10, 1, Some("r/1/coordinator"));
        let successor = process(11, 10, None);
        let (rank, child) = (process(20, 1, Some("r/1")), process(21, 20, None));
        let all = vec![coordinator.clone(), successor.clone(), rank.clone(), child.clone()];
        assert_eq!(coordinators_last(all), (vec![rank, child], vec![coordinator.clone(), successor.clone()]));
        let left = vec![coordinator, successor];
        assert_eq!(coordinators_last(left.clone()), (left, Vec::new()));
        assert_eq!(coordinators_last(Vec::new()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn marked_processes_and_descendants_belong_and_spared_ones_do_not() {
        let all = vec![
            process(1, 0, None),
            process(10, 1, Some("r/1")),
            process(11, 10, None),
            process(12, 11, None),
            process(20, 1, Some("r/10")),
            process(30, 1, Some("r/1/x")),
            process(31, 30, None),
        ];
        let pids = |spared: &[i32]| {
            let mut sweep = Sweep::new(Cookie::from_text("r/1"));
            sweep.spared = spared.iter().copied().collect();
            sweep.belonging(all.clone(), 1).iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids(&[]), [10, 11, 12, 30, 31]);
        assert_eq!(pids(&[30]), [10, 11, 12]);
    }

    #[test]
    fn an_orphan_without_mark_belongs_to_the_group_that_it_is_in() {
        let (own, leader) = (1, 40);
        let orphan = |pid, parent, group| Process { group, ..process(pid, parent, None) };
        // The last two are another process's child in a group with that number, and the leader, which is awaited
        // elsewhere.
        let all = vec![orphan(41, own, leader), orphan(42, 41, 42), orphan(43, 7, leader), orphan(leader, own, leader)];
        let mut sweep = Sweep::new(Cookie::from_text("r/1"));
        sweep.groups.insert(leader);
        sweep.awaited.insert(leader);
        assert_eq!(sweep.belonging(all, own).iter().map(|process| process.pid).collect::<Vec<_>>(), [41, 42]);
    }

    #[test]
    fn a_name_cannot_write_to_the_terminal() {
        let mut wild = process(5, 1, None);
        wild.name = "a\n\u{1b}[2J".into();
        assert_eq!(wild.describe(), "a??[2J (pid 5)");
    }
}
