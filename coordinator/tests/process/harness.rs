//! Starts a coordinator process and talks to it. Every wait has a deadline; everything started is ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use protocol::datatype::{Datatype, Operation};
use protocol::frame::{self, MAX_TO_RANK};
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::message::{Member, ProcessInfo, Role, ToCoordinator, ToRank, VERSION};
use protocol::record::{BufferTransport, Issue, OperationRecord};
use protocol::report::ClusterReport;
use tempfile::TempDir;

/// Nothing here takes longer on a machine that works.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A running coordinator and its directory.
pub(crate) struct Coordinator {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) address: String,
    pub(crate) directory: TempDir,
}

/// `fakegpu-coordinator` with an environment of its own.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fakegpu-coordinator"));
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Coordinator {
    /// On a unix socket or a free port, with a cluster of two nodes of two ranks and a report.
    pub(crate) fn start(transport: &str) -> Self {
        Self::start_with(transport, |_| {})
    }

    /// `transport` may also be the path to listen at.
    pub(crate) fn start_with(transport: &str, change: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = match transport {
            "unix" => directory.path().join("socket").display().to_string(),
            "tcp" => "127.0.0.1:0".to_owned(),
            path => path.to_owned(),
        };
        let config = directory.path().join("cluster.yaml");
        std::fs::write(&config, "nodes: 2\ngpus_per_node: 2\nprofile: a100\n").unwrap();
        let mut command = command();
        command.args(["--address", &address]);
        command.arg("--cluster-config").arg(config).arg("--report").arg(directory.path().join("report.json"));
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        // A coordinator that does not get ready ends, and its stdout with it.
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("fakegpu-coordinator listening on ").unwrap_or_default().to_owned();
        let coordinator = Self { child, stdout, address, directory };
        assert!(!coordinator.address.is_empty(), "not ready: {line}");
        coordinator
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn report_path(&self) -> PathBuf {
        self.directory.path().join("report.json")
    }

    pub(crate) fn report(&self) -> ClusterReport {
        read_report(&self.report_path())
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = self.child.id().to_string();
        let signal = format!("-{signal}");
        assert!(Command::new("kill").args([&signal, &pid]).status().unwrap().success());
    }

    /// The next line of its stdout.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// Waits for the process to end by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    pub(crate) fn connect(&self) -> Client {
        let stream = if self.address.starts_with('/') {
            Stream::Unix(UnixStream::connect(&self.address).unwrap())
        } else {
            Stream::Tcp(TcpStream::connect(&self.address).unwrap())
        };
        stream.set_read_timeout(DEADLINE);
        Client { stream, buffer: Vec::new() }
    }

    /// A process of `pid` that was welcomed.
    pub(crate) fn process(&self, pid: u32) -> Client {
        let mut client = self.connect();
        client.hello("", Role::Process(info(pid)));
        assert!(matches!(client.receive(), Some(ToRank::Welcome { version: VERSION, cluster: Some(_), .. })));
        client
    }

    pub(crate) fn control(&self) -> Client {
        let mut client = self.connect();
        client.hello("", Role::Control);
        assert!(matches!(client.receive(), Some(ToRank::Welcome { .. })));
        client
    }

    /// A world of all four ranks in communicator 1.
    pub(crate) fn world(&self) -> Vec<Client> {
        let mut clients: Vec<Client> = (0..4).map(|rank| self.process(100 + rank)).collect();
        for (rank, client) in clients.iter_mut().enumerate() {
            client.init(7, 4, rank as u32);
        }
        for client in &mut clients {
            assert!(matches!(client.receive(), Some(ToRank::CommunicatorFormed { .. })));
        }
        clients
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // Already ended in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn read_report(path: &Path) -> ClusterReport {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Waits for a process to end by itself; polling, for lack of a wait with a deadline in std.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < DEADLINE, "the coordinator does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn info(pid: u32) -> ProcessInfo {
    ProcessInfo { pid, rank: None, world_size: None, program: "test".to_owned(), backlog: None }
}

/// An all_reduce in communicator 1.
pub(crate) fn record(rank: u32, sequence: u64) -> OperationRecord {
    OperationRecord {
        communicator: CommunicatorId(1),
        sequence: Sequence(sequence),
        rank: Rank(rank),
        operation: Operation::AllReduce,
        count: 4,
        datatype: Datatype::Float32,
        reduction_op: None,
        root: None,
        peer: None,
        transport: BufferTransport::SharedMemory,
        wait_us: 1.0,
        execute_us: 1.0,
        ended_ns: 0,
        site: SiteId::default(),
        issue: Issue::default(),
    }
}

/// Rank `rank` of `size` asks for a communicator.
pub(crate) fn init(id: u8, size: u32, rank: u32) -> ToCoordinator {
    let member = Member {
        global_rank: Rank(rank),
        device: 0,
        pid: 100 + rank,
        host: "host".to_owned(),
        arena: None,
        control: None,
        data_address: "unix:@x".to_owned(),
        site: SiteId::default(),
        gpu: u64::from(rank),
        is_only: true,
    };
    ToCoordinator::InitCommunicator { request: 1, unique_id: vec![id; 128], size, rank: Rank(rank), member }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: Stream,
    buffer: Vec<u8>,
}

pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_read_timeout(&self, timeout: Duration) {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(Some(timeout)),
            Self::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
        }
        .unwrap();
    }

    pub(crate) fn set_nonblocking(&self) {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => stream.set_nonblocking(true),
        }
        .unwrap();
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Client {
    pub(crate) fn from_stream(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { stream: Stream::Unix(stream), buffer: Vec::new() }
    }

    pub(crate) fn into_socket(self) -> OwnedFd {
        match self.stream {
            Stream::Unix(stream) => stream.into(),
            Stream::Tcp(stream) => stream.into(),
        }
    }

    pub(crate) fn send(&mut self, message: &ToCoordinator) {
        self.stream.write(&frame::encode(message)).unwrap();
    }

    /// The next message; `None` when the coordinator closed the connection.
    pub(crate) fn receive(&mut self) -> Option<ToRank> {
        loop {
            if let Some(message) = frame::decode(&mut self.buffer, MAX_TO_RANK).unwrap() {
                return Some(message);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(read) => self.buffer.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// The next message that does not ask what was completed; those that do are answered.
    pub(crate) fn news(&mut self) -> Option<ToRank> {
        loop {
            match self.receive() {
                Some(ToRank::Flush { request }) => self.send(&ToCoordinator::Flushed { request }),
                news => return news,
            }
        }
    }

    pub(crate) fn hello(&mut self, token: &str, role: Role) {
        self.send(&ToCoordinator::Hello { version: VERSION, token: token.to_owned(), role });
    }

    pub(crate) fn init(&mut self, id: u8, size: u32, rank: u32) {
        self.send(&init(id, size, rank));
    }

    pub(crate) fn done(&mut self, rank: u32, sequence: u64) {
        self.send(&ToCoordinator::Completed { records: vec![record(rank, sequence)] });
    }

    /// A round trip: everything sent before has been dealt with.
    pub(crate) fn status(&mut self) -> String {
        self.send(&ToCoordinator::QueryStatus);
        loop {
            match self.receive() {
                Some(ToRank::Status { json }) => return json,
                Some(ToRank::Flush { request }) => self.send(&ToCoordinator::Flushed { request }),
                other => panic!("no status but {other:?}"),
            }
        }
    }
}
