//! The resources of this machine: memory that this process may use, CPUs, shared memory.

use std::io;
use std::path::{Path, PathBuf};

use protocol::limit::{self, Limit};
use rustix::process::{Resource, getrlimit};

/// Limits that processes of the case started with, if any, and what the machine did to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Addresses, bytes.
    pub address_space: Option<u64>,
    /// Maximum size of one file, bytes.
    pub file_size: Option<u64>,
    /// Maximum CPU time of one process, s.
    pub cpu_time: Option<u64>,
    /// Size of `/dev/shm`, bytes.
    pub shared_memory: Option<u64>,
    /// Why no program can have shared memory.
    pub no_shared_memory: Option<String>,
    /// Why 127.0.0.1 cannot be reached.
    pub no_loopback: Option<String>,
    /// A description of each full disk that the case may have written to.
    pub full: Vec<String>,
    /// A message if the kernel ended processes because memory ran out.
    pub out_of_memory: Option<String>,
}

/// The machine's name, as the kernel has it; empty if `/proc` does not show it.
pub fn name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Bytes of memory: the machine's total, or less if a cgroup limits us. `None` if `/proc` does not show it.
pub fn memory() -> Option<u64> {
    let installed = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text))?;
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(limits(&own, Path::new("/sys/fs/cgroup")).into_iter().fold(installed, u64::min))
}

fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The memory limits of the groups that `/proc/self/cgroup` names, and of those above them. Version 1 has a separate hierarchy
/// for memory.
fn limits(own: &str, root: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (base, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            names if names.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut group: PathBuf = base.join(path.trim_start_matches('/'));
        loop {
            // `max`, or a missing file, means no limit.
            let limit = std::fs::read_to_string(group.join(file)).ok();
            found.extend(limit.and_then(|text| text.trim().parse::<u64>().ok()));
            if group == base || !group.pop() {
                break;
            }
        }
    }
    found
}

/// The limit on this process and those that it starts; `None` if there is none.
pub fn limit_of(limit: Limit) -> Option<u64> {
    let resource = match limit {
        Limit::AddressSpace => Resource::As,
        Limit::FileSize => Resource::Fsize,
        Limit::Descriptors => Resource::Nofile,
        Limit::Processes => Resource::Nproc,
        Limit::CpuTime => Resource::Cpu,
    };
    getrlimit(resource).current
}

/// Bytes of address space that ftest needs to run cases. With less, an allocation fails anywhere, and the process with it.
const ADDRESSES: u64 = 128 << 20;

/// If cases cannot be run under the limits of this process: why, and what to do.
pub fn too_small() -> Option<String> {
    let limit = limit_of(Limit::AddressSpace).filter(|limit| *limit < ADDRESSES)?;
    let (limit, needed) = (describe(limit), describe(ADDRESSES));
    Some(format!("the limit on addresses (`ulimit -v`) is {limit}, and ftest itself needs {needed}: raise it"))
}

/// `error`, and what to do about it if a resource is exhausted.
pub fn explained(error: &io::Error) -> String {
    // An error with its own message no longer has the error number of its cause.
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => 28,
        io::ErrorKind::FileTooLarge => 27,
        io::ErrorKind::OutOfMemory => 12,
        _ => 0,
    };
    match limit::advice(error.raw_os_error().unwrap_or(kind), limit_of) {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    }
}

/// A description of the limits set for this process that programs inherit; `None` if nothing unusual is set.
pub fn inherited_limits() -> Option<String> {
    const STACK: u64 = 1 << 20;
    const PROCESSES: u64 = 1024;
    let limits = [Limit::AddressSpace, Limit::FileSize, Limit::CpuTime, Limit::Processes];
    let set = limits.into_iter().filter_map(|limit| Some((limit, limit_of(limit)?)));
    // Every machine has some limit on the number of processes.
    let mut inherited: Vec<String> = set
        .filter(|(limit, value)| *limit != Limit::Processes || *value < PROCESSES)
        .map(|(limit, value)| format!("{limit} (`{}`) {value}", limit.flag()))
        .collect();
    inherited.extend(getrlimit(Resource::Data).current.map(|value| format!("data (`ulimit -d`) {value}")));
    let stack = getrlimit(Resource::Stack).current.filter(|value| *value < STACK);
    inherited.extend(stack.map(|value| format!("stacks (`ulimit -s`) {value}")));
    (!inherited.is_empty())
        .then(|| format!("ftest was started under limits that programs inherit: {}", inherited.join(", ")))
}

/// How many processes the kernel has ended because memory ran out: in our control group, or on the whole machine if the group
/// does not count them.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    killed: Option<u64>,
}

impl Memory {
    /// Until now.
    pub fn now() -> Memory {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let group = killed_in_group(&own, Path::new("/sys/fs/cgroup"));
        let machine = || counter(&std::fs::read_to_string("/proc/vmstat").ok()?);
        Memory { killed: group.or_else(machine) }
    }

    /// What this machine allows, and what it has done since then.
    pub fn machine(&self) -> Machine {
        Machine {
            address_space: limit_of(Limit::AddressSpace),
            file_size: limit_of(Limit::FileSize),
            cpu_time: limit_of(Limit::CpuTime),
            shared_memory: shm_size(),
            out_of_memory: self.since(),
            ..Machine::default()
        }
    }

    /// A description of what has happened since then.
    fn since(&self) -> Option<String> {
        let killed = Memory::now().killed?.checked_sub(self.killed?).filter(|killed| *killed > 0)?;
        let processes = if killed == 1 { "process" } else { "processes" };
        let room = memory().map(|bytes| format!(" of {}", describe(bytes))).unwrap_or_default();
        Some(format!("memory{room} ran out, and the kernel ended {killed} {processes} while the case ran"))
    }
}

/// The count of the group that `/proc/self/cgroup` names.
fn killed_in_group(own: &str, root: &Path) -> Option<u64> {
    own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = path.trim_start_matches('/');
        let file = match controllers {
            "" => root.join(path).join("memory.events"),
            names if names.split(',').any(|name| name == "memory") => {
                root.join("memory").join(path).join("memory.oom_control")
            }
            _ => return None,
        };
        counter(&std::fs::read_to_string(file).ok()?)
    })
}

/// The line `oom_kill N`.
fn counter(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// CPUs that this process may use.
pub fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}

/// Bytes free in `/dev/shm`; 0 if it does not exist.
pub fn shm() -> u64 {
    rustix::fs::statvfs("/dev/shm").map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Total bytes of `/dev/shm`; `None` if it does not exist.
pub fn shm_size() -> Option<u64> {
    rustix::fs::statvfs("/dev/shm").ok().map(|stat| stat.f_blocks.saturating_mul(stat.f_frsize))
}

/// `1.5 GiB`.
pub fn describe(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let number = format!("{value:.1}");
    format!("{} {}", number.trim_end_matches(".0"), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "4096\n");
        write("memory/x/memory.limit_in_bytes", "8192\n");
        assert_eq!(limits("0::/a/b\n", root.path()), [4096]);
        assert_eq!(limits("5:cpu:/x\n4:blkio,memory:/x/y\n", root.path()), [8192]);
        assert_eq!(limits("", root.path()), Vec::<u64>::new());
    }

    #[test]
    fn kills_for_want_of_memory_are_those_of_our_group() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n");
        write("memory/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
        assert_eq!(killed_in_group("0::/a\n", root.path()), Some(3));
        assert_eq!(killed_in_group("9:name=systemd:/\n4:memory:/b\n0::/\n", root.path()), Some(5));
        // The root of all groups counts nothing.
        assert_eq!(killed_in_group("0::/\n", root.path()), None);
        assert_eq!(counter("pgmajfault 12\noom_kill 4\n"), Some(4));
        let before = Memory { killed: Memory::now().killed.map(|killed| killed.saturating_sub(1)) };
        assert!(Memory { killed: None }.since().is_none() && Memory::now().killed.is_some());
        assert!(before.since().is_none_or(|sentence| sentence.contains("ran out, and the kernel ended")));
    }

    #[test]
    fn this_machine_has_something() {
        assert_eq!(mem_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20) && cpus() > 0);
        assert_eq!((describe(1536), describe(8 << 30)), ("1.5 KiB".to_owned(), "8 GiB".to_owned()));
    }
}
