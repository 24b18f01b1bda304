//! What a process waits for, by the system call of its main thread: the other end of a socket or a pipe, a file, a lock, a child.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};

use crate::execute::process_tree::sweep::Process;
use crate::host::variable;

/// Descriptors of one call that are named at most.
const NAMED: usize = 4;
/// The longest path that is read.
const LONGEST: usize = 256;

/// The descriptors that processes hold, by what is open there: `socket:[4711]`.
pub(in crate::execute) struct Holders(BTreeMap<String, Vec<String>>);

impl Holders {
    /// What each of `processes` holds, under its own name.
    pub(in crate::execute) fn from_processes(processes: &[(String, i32)]) -> Holders {
        let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, pid) in processes {
            for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
                let Ok(target) = fs::read_link(entry.path()) else { continue };
                let names = holders.entry(target.display().to_string()).or_default();
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        Holders(holders)
    }

    /// "rank 1 and torchrun", without `but`.
    fn names(&self, what: &str, but: &str) -> String {
        let names = self.0.get(what).into_iter().flatten().filter(|name| *name != but).cloned();
        names.collect::<Vec<String>>().join(" and ")
    }
}

/// What the main thread of `process`, called `name`, waits for, to complete "waits for ..."; `None` if it does not wait, or
/// nothing is known.
pub(in crate::execute) fn describe(process: &Process, name: &str, holders: &Holders) -> Option<String> {
    let pid = process.pid;
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/syscall")).ok()?;
    let mut words = text.split_ascii_whitespace();
    let number: libc::c_long = words.next()?.parse().ok()?;
    let arguments: Vec<u64> =
        words.filter_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
    let argument = |at: usize| arguments.get(at).copied();
    let at = |descriptor: u64| descriptor_of(pid, descriptor, name, holders);
    match number {
        libc::SYS_futex => Some("a lock or another thread of its own".to_owned()),
        libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 | libc::SYS_recvfrom | libc::SYS_recvmsg => {
            Some(format!("data from {}", at(argument(0)?)?))
        }
        libc::SYS_accept | libc::SYS_accept4 => Some(format!("a connection to {}", at(argument(0)?)?)),
        libc::SYS_connect => Some("a connection that it makes".to_owned()),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
            Some(format!("room to write to {}", at(argument(0)?)?))
        }
        libc::SYS_flock | libc::SYS_fcntl => Some(format!("the lock on {}", at(argument(0)?)?)),
        libc::SYS_wait4 | libc::SYS_waitid => Some("a child process".to_owned()),
        libc::SYS_openat => Some(format!("the other end of {}", string(pid, argument(1)?)?)),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => named(&polled(pid, argument(0)?), at),
        libc::SYS_ppoll => named(&polled_in_array(pid, argument(0)?, argument(1)?), at),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => named(&polled_in_array(pid, argument(0)?, argument(1)?), at),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => named(&polled(pid, argument(0)?), at),
        libc::SYS_pselect6 => named(&selected(pid, argument(0)?, argument(1)?), at),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => named(&selected(pid, argument(0)?, argument(1)?), at),
        _ => None,
    }
}

fn named(descriptors: &[u64], at: impl Fn(u64) -> Option<String>) -> Option<String> {
    let mut names: Vec<String> = descriptors.iter().filter_map(|descriptor| at(*descriptor)).collect();
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!names.is_empty()).then(|| format!("data from {}{rest}", names.join(" or ")))
}

/// What is open at a descriptor; `None` for what a library made for itself.
fn descriptor_of(pid: i32, descriptor: u64, name: &str, holders: &Holders) -> Option<String> {
    let target = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?.display().to_string();
    if let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
        return Some(socket(pid, inode, holders));
    }
    if target.starts_with("anon_inode:") {
        return None;
    }
    let what = match descriptor {
        0 => "its standard input".to_owned(),
        _ if target.starts_with("pipe:") => "a pipe".to_owned(),
        _ => target.clone(),
    };
    let others = holders.names(&target, name);
    let is_told = others.is_empty() || descriptor == 0;
    Some(if is_told { what } else { format!("{what} ({others} has it open)") })
}

/// The other end of a connection, and who holds it.
fn socket(pid: i32, inode: &str, holders: &Holders) -> String {
    let tables =
        ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    // sl, local address, remote address, state, queues, timer, retransmissions, uid, timeout, inode
    let rows =
        || tables.iter().flat_map(|table| table.lines().skip(1)).map(|line| line.split_ascii_whitespace().collect());
    let rows = || rows().filter(|row: &Vec<&str>| row.len() > 9);
    let Some(own) = rows().find(|row| row[9] == inode) else { return "a local socket".to_owned() };
    let (local, remote) = (port(own[1]), port(own[2]));
    if remote == 0 {
        return format!("port {local}");
    }
    let of_store = master_port(pid).is_some_and(|master| master == remote);
    let what = if of_store { format!("the store at port {remote} (MASTER_PORT)") } else { format!("port {remote}") };
    let other = rows().find(|row| (port(row[1]), port(row[2])) == (remote, local));
    let holder = other.map(|row| holders.names(&format!("socket:[{}]", row[9]), "")).unwrap_or_default();
    if holder.is_empty() { what } else { format!("{what}, which {holder} has open") }
}

/// The port in `0100007F:7304`.
fn port(address: &str) -> u32 {
    address.rsplit(':').next().and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

fn master_port(pid: i32) -> Option<u32> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    variable::in_environ(&environ, "MASTER_PORT")?.parse().ok()
}

/// The descriptors that `epoll` watches.
fn polled(pid: i32, epoll: u64) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{epoll}")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
    lines.filter_map(|line| line.split_ascii_whitespace().next()?.parse().ok()).collect()
}

/// Those in an array of `struct pollfd`.
fn polled_in_array(pid: i32, address: u64, count: u64) -> Vec<u64> {
    const ENTRY: usize = 8;
    let count = usize::try_from(count).unwrap_or(0).min(64);
    let bytes = memory(pid, address, count * ENTRY);
    let entries = bytes.chunks_exact(ENTRY).filter_map(|entry| entry.first_chunk::<4>());
    entries.filter_map(|descriptor| u64::try_from(i32::from_ne_bytes(*descriptor)).ok()).collect()
}

/// Those in an `fd_set` for reading.
fn selected(pid: i32, count: u64, address: u64) -> Vec<u64> {
    let count = if address == 0 { 0 } else { count.min(1024) };
    let bytes = memory(pid, address, count.div_ceil(8) as usize);
    let is_set =
        |descriptor: &u64| bytes.get((descriptor / 8) as usize).is_some_and(|byte| byte >> (descriptor % 8) & 1 == 1);
    (0..count).filter(is_set).collect()
}

fn string(pid: i32, address: u64) -> Option<String> {
    let bytes = memory(pid, address, LONGEST);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// Memory of a process, as much as can be read there: its kernel may not allow it.
fn memory(pid: i32, address: u64, bytes: usize) -> Vec<u8> {
    let read = || {
        let mut file = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
        file.seek(SeekFrom::Start(address)).ok()?;
        let mut found = vec![0; bytes];
        let count = file.read(&mut found).ok()?;
        found.truncate(count);
        Some(found)
    };
    read().unwrap_or_default()
}
