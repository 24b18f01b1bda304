//! Connections that have no business there, on every port that a run has open.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, UnixStream};
use std::time::{Duration, Instant};

use protocol::frame;
use protocol::message::{Role, ToCoordinator, VERSION};

use super::attempts::attempts;
use super::command::PATIENCE;
use super::command::Started;
use super::tally::Tally;
use super::workspace::Workspace;

/// This many strangers hold their connection until they are cut off.
const HELD: usize = 300;
/// Additional memory that a process may need because of them, KiB.
const MEMORY: u64 = 64 << 10;
/// Maximum number of descriptors and threads of a process in the meantime.
const MOST: usize = 400;

/// A port that somebody listens on.
#[derive(Clone, Debug)]
enum Door {
    Tcp(SocketAddr),
    Path(String),
    Abstract(String),
}

/// A connection of a stranger.
enum Stranger {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Door {
    fn knock(&self) -> std::io::Result<Stranger> {
        let limit = Some(Duration::from_secs(1));
        let stranger = match self {
            Door::Tcp(address) => Stranger::Tcp(TcpStream::connect_timeout(address, Duration::from_secs(5))?),
            Door::Path(path) => Stranger::Unix(UnixStream::connect(path)?),
            Door::Abstract(name) => {
                Stranger::Unix(UnixStream::connect_addr(&net::SocketAddr::from_abstract_name(name)?)?)
            }
        };
        match &stranger {
            Stranger::Tcp(stream) => stream.set_write_timeout(limit).and(stream.set_read_timeout(limit)),
            Stranger::Unix(stream) => stream.set_write_timeout(limit).and(stream.set_read_timeout(limit)),
        }?;
        Ok(stranger)
    }
}

impl Stranger {
    /// Sends something. The listener may have hung up by then.
    fn send(&mut self, bytes: &[u8]) {
        let _ = match self {
            Stranger::Tcp(stream) => stream.write_all(bytes),
            Stranger::Unix(stream) => stream.write_all(bytes),
        };
    }

    /// Waits at most one second for an answer.
    fn receive(&mut self) {
        let mut buffer = [0; 4096];
        let _ = match self {
            Stranger::Tcp(stream) => stream.read(&mut buffer),
            Stranger::Unix(stream) => stream.read(&mut buffer),
        };
    }
}

/// What strangers send, by number.
fn words(number: usize) -> Vec<u8> {
    let hello = frame::encode(&ToCoordinator::Hello {
        version: VERSION,
        token: "not the token".to_owned(),
        role: Role::Control,
    });
    match number % 8 {
        0 => Vec::new(),
        1 => vec![0],
        2 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        3 => u32::MAX.to_le_bytes().to_vec(),
        4 => vec![0xa5; 64 << 10],
        5 => hello,
        6 => hello[..hello.len() / 2].to_vec(),
        _ => [&b"adtf"[..], &1024_u16.to_le_bytes(), &[b'x'; 500]].concat(),
    }
}

/// The doors of process `pid`.
fn doors(pid: u32) -> Vec<Door> {
    let mut sockets = BTreeMap::new();
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    for line in read("tcp").lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // 0A is LISTEN; the address is hexadecimal, in the machine's order.
        if let [_, local, _, "0A", _, _, _, _, _, inode, ..] = fields[..]
            && let Some((host, port)) = local.split_once(':')
            && let (Ok(host), Ok(port)) = (u32::from_str_radix(host, 16), u16::from_str_radix(port, 16))
        {
            sockets.insert(inode.to_owned(), Door::Tcp(SocketAddr::from((host.to_ne_bytes(), port))));
        }
    }
    for line in read("unix").lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // The flag of a socket that listens.
        if let [_, _, _, "00010000", _, _, inode, path] = fields[..] {
            let door =
                path.strip_prefix('@').map_or_else(|| Door::Path(path.into()), |name| Door::Abstract(name.into()));
            sockets.insert(inode.to_owned(), door);
        }
    }
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let inodes =
        targets.filter_map(|path| Some(path.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()));
    inodes.filter_map(|inode| sockets.remove(&inode)).collect()
}

/// Memory in KiB, descriptors and threads of a process; `None` if it is gone.
fn size(pid: u32) -> Option<(u64, usize, usize)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some((field("RssAnon:")?, descriptors, field("Threads:")? as usize))
}

/// "1 thread", "2 threads".
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Ranks that wait at a gate, then work.
fn suite(transport: &str, calls: usize) -> String {
    format!(
        "ftest: 1
suite: strangers
cases:
  - id: crowded
    cluster: {{ nodes: 2, gpus_per_node: 2, profile: a100 }}
    transport: {transport}
    timeout: 400s
    env: {{ FAKEGPU_STAGING_FORCE_SOCKET: '1' }}
    launch:
      argv: [bash, -c, 'touch here.$RANK; read -r line < gate; exec fixture-bench -b 4K -e 4K -n {calls}']
      ranks: 4
"
    )
}

/// A case whose ranks wait at the gate.
struct Crowded<'a> {
    workspace: &'a Workspace,
    run: Started,
    /// Held open for writing, so that no rank reads its end before we leave.
    gate: fs::File,
}

impl<'a> Crowded<'a> {
    fn start(workspace: &'a Workspace, transport: &str, calls: usize) -> Result<Self, String> {
        workspace.write("strangers.yaml", suite(transport, calls))?;
        let made = workspace.run(&mut workspace.command("mkfifo", &["gate"]), PATIENCE)?;
        made.expect(&[0])?;
        let mut options = fs::OpenOptions::new();
        let gate = options.read(true).write(true).open(workspace.path("gate")).map_err(|error| error.to_string())?;
        let run = workspace.start(&mut workspace.ftest(&["run", "strangers.yaml", "--runs-dir", "runs"]))?;
        let crowded = Crowded { workspace, run, gate };
        crowded.until("the ranks are there", || {
            (0..4).all(|rank| workspace.path(&format!("here.{rank}")).exists()).then_some(())
        })?;
        Ok(crowded)
    }

    fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(found) = look() {
                return Ok(found);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("not so within {} s: {what}", PATIENCE.as_secs()))
    }

    fn open(&mut self) -> Result<(), String> {
        self.gate.write_all(b"\n\n\n\n").map_err(|error| error.to_string())
    }

    /// The processes of this program that have doors, and the doors.
    fn hosts(&self, program: &str, count: usize) -> Result<Vec<(u32, Vec<Door>)>, String> {
        self.until(&format!("{count} of {program} listen"), || {
            let ours = self.workspace.processes().into_iter().filter(|(_, name)| name == program);
            let with_doors: Vec<_> =
                ours.map(|(pid, _)| (pid, doors(pid))).filter(|(_, doors)| !doors.is_empty()).collect();
            (with_doors.len() == count).then_some(with_doors)
        })
    }

    /// Strangers knock at all doors, this many times or until the hosts are gone; measures what the hosts need in the
    /// meantime.
    fn crowd(&self, hosts: &[(u32, Vec<Door>)], times: usize, tally: &mut Tally) -> Result<(), String> {
        let before = self.settled(hosts)?;
        let all: Vec<&Door> = hosts.iter().flat_map(|(_, doors)| doors).collect();
        let (mut held, mut most) = (VecDeque::new(), (0, 0, 0));
        let (mut tried, mut refused, mut measured) = (0, 0, 0);
        'crowd: for number in 0..times {
            let began = Instant::now();
            match all[number % all.len()].knock() {
                Ok(mut stranger) => {
                    stranger.send(&words(number / all.len()));
                    if number % 5000 == 5 {
                        stranger.receive();
                    }
                    held.push_back(stranger);
                }
                Err(_) => refused += 1,
            }
            tried += 1;
            tally.add("a stranger", began.elapsed(), Ok(()));
            if held.len() > HELD {
                held.pop_front();
            }
            if number % 200 == 199 {
                for (pid, _) in hosts {
                    let Some((memory, descriptors, threads)) = size(*pid) else { break 'crowd };
                    let more = memory.saturating_sub(before.get(pid).copied().unwrap_or_default());
                    most = (most.0.max(more), most.1.max(descriptors), most.2.max(threads));
                }
                measured += 1;
            }
        }
        if measured < 5 {
            tally.fault(format!("the ranks were done after {tried} strangers"));
        }
        let (memory, descriptors, threads) = most;
        let opened = format!("{}, {}", counted(descriptors, "descriptor"), counted(threads, "thread"));
        if memory > MEMORY || descriptors > MOST || threads > MOST {
            tally.fault(format!("{memory} KiB more memory, {opened}"));
        }
        if refused > tried / 10 {
            tally.fault(format!("{refused} of {tried} could not even connect"));
        }
        tally.note(format!("{} MiB more memory, {opened}", memory.div_ceil(1024)));
        Ok(())
    }

    /// The memory of the hosts once it is stable for a second, because their own set-up does not count for the strangers.
    fn settled(&self, hosts: &[(u32, Vec<Door>)]) -> Result<BTreeMap<u32, u64>, String> {
        let look =
            || hosts.iter().filter_map(|(pid, _)| Some((*pid, size(*pid)?.0 / 1024))).collect::<BTreeMap<_, _>>();
        let (mut last, mut since) = (look(), Instant::now());
        let settled = self.until("the memory of the processes stays the same", || {
            let now = look();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            (since.elapsed() > Duration::from_secs(1)).then(|| last.clone())
        })?;
        Ok(settled.into_iter().map(|(pid, mebibytes)| (pid, mebibytes * 1024)).collect())
    }

    /// The case must have passed.
    fn end(self, tally: &mut Tally) -> Result<(), String> {
        let ended = self.run.end(4 * PATIENCE)?;
        let (_, attempts) = attempts(&self.workspace.path("runs"))?;
        match ended.expect(&[0]) {
            Ok(()) if attempts.len() == 1 => tally.note("every element right".to_owned()),
            Ok(()) => tally.fault("no case was run".to_owned()),
            Err(why) => tally.fault(why),
        }
        Ok(())
    }
}

/// The coordinator's port, before its ranks come and while they work.
pub(super) fn coordinator(workspace: &Workspace) -> Result<Tally, String> {
    let mut tally = Tally::new("connections");
    let mut crowded = Crowded::start(workspace, "tcp", workspace.times(5_000, 25_000, 50_000))?;
    let hosts = crowded.hosts("fakegpu-coordinator", 1)?;
    crowded.crowd(&hosts, workspace.times(1_000, 20_000, 50_000), &mut tally)?;
    crowded.open()?;
    crowded.hosts("fixture-bench", 4)?;
    crowded.crowd(&hosts, workspace.times(1_000, 20_000, 50_000), &mut tally)?;
    crowded.end(&mut tally)?;
    Ok(tally)
}

/// The ports on which ranks exchange their data.
pub(super) fn ranks(workspace: &Workspace) -> Result<Tally, String> {
    let mut tally = Tally::new("connections");
    let mut crowded = Crowded::start(workspace, "tcp", workspace.times(5_000, 50_000, 100_000))?;
    crowded.open()?;
    let hosts = crowded.hosts("fixture-bench", 4)?;
    crowded.crowd(&hosts, workspace.times(1_000, 20_000, 50_000), &mut tally)?;
    crowded.end(&mut tally)?;
    Ok(tally)
}
