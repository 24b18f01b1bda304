//! This process's one connection to the coordinator: requests with deadlines, batches of operation records, and the lifeline.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use protocol::frame;
use protocol::message::{ErrorCode, OperationRecord, ProcessInfo, Role, ToCoordinator, ToRank, VERSION};
use protocol::plan::ClusterPlan;

use crate::failure::Failure;
use crate::settings::{Address, Settings};

/// A batch of this many records is sent at once.
const BATCH: usize = 256;
/// A smaller batch is sent this long after its first record.
const LINGER: Duration = Duration::from_millis(50);
/// The coordinator answers a late rendezvous itself, with the names of the missing; this much later we stop waiting for it.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);
/// How long a coordinator may take to welcome us.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(30);
/// What a process whose coordinator is gone exits with.
pub const ORPHAN_EXIT: i32 = 70;

/// What the coordinator says without being asked.
pub(crate) type Notices = Box<dyn Fn(ToRank) + Send + Sync>;

/// The connection.
pub(crate) struct Session {
    writer: Mutex<Stream>,
    /// Kept to interrupt nothing, only to be told our own address.
    local: Option<IpAddr>,
    pending: Mutex<Vec<OperationRecord>>,
    filled: Condvar,
    answers: Mutex<HashMap<u64, mpsc::Sender<ToRank>>>,
    next: AtomicU64,
    /// Either side said that the end of the connection is no alarm.
    closing: AtomicBool,
    cluster: OnceLock<ClusterPlan>,
    notices: OnceLock<Notices>,
    name: String,
}

impl Session {
    /// Connects, says hello and waits for the welcome.
    pub(crate) fn connect(address: &Address, settings: &Settings) -> Result<Arc<Self>, Failure> {
        let failed = |error: io::Error| {
            let place = match address {
                Address::Unix(path) => path.clone(),
                Address::Tcp(host) => host.clone(),
            };
            Failure::system(&format!("cannot reach the coordinator at {place} (FAKEGPU_COORDINATOR_ADDR)"), &error)
        };
        let mut stream = Stream::connect(address).map_err(failed)?;
        let number = |name| std::env::var(name).ok().and_then(|value| value.trim().parse::<u32>().ok());
        let info = ProcessInfo {
            pid: std::process::id(),
            rank: number("RANK").map(protocol::ids::Rank),
            world_size: number("WORLD_SIZE"),
            program: program(),
        };
        let name = info.rank.map_or_else(|| format!("process {}", info.pid), |rank| format!("rank {rank}"));
        let hello = ToCoordinator::Hello { version: VERSION, token: settings.token.clone(), role: Role::Process(info) };
        stream.write_all(&frame::encode(&hello)).map_err(failed)?;
        stream.set_read_timeout(Some(WELCOME_TIMEOUT)).map_err(failed)?;
        let mut buffer = Vec::new();
        let welcome = read_message(&mut stream, &mut buffer).map_err(failed)?;
        let cluster = OnceLock::new();
        match welcome {
            ToRank::Welcome { version: VERSION, cluster: plan } => {
                if let Some(plan) = plan {
                    let _ = cluster.set(plan);
                }
            }
            ToRank::Welcome { version, .. } => {
                let detail = format!("the coordinator speaks protocol version {version}, this library {VERSION}");
                return Err(Failure::new(ErrorCode::System, detail));
            }
            ToRank::Refused { reason } => {
                return Err(Failure::new(ErrorCode::System, format!("the coordinator refused this process: {reason}")));
            }
            other => {
                let detail = format!("the coordinator answered hello with {}", other.kind());
                return Err(Failure::new(ErrorCode::System, detail));
            }
        }
        stream.set_read_timeout(None).map_err(failed)?;
        let reader = stream.try_clone().map_err(failed)?;
        let session = Arc::new(Self {
            local: stream.local(),
            writer: Mutex::new(stream),
            pending: Mutex::default(),
            filled: Condvar::new(),
            answers: Mutex::default(),
            next: AtomicU64::new(1),
            closing: AtomicBool::new(false),
            cluster,
            notices: OnceLock::new(),
            name,
        });
        let (reading, flushing) = (Arc::clone(&session), Arc::clone(&session));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("ftest-session").spawn(move || reading.read(reader, buffer)).map_err(failed)?;
        thread("ftest-flush").spawn(move || flushing.flush_in_time()).map_err(failed)?;
        Ok(session)
    }

    /// The cluster, when the coordinator was given one.
    pub(crate) fn cluster(&self) -> Option<&ClusterPlan> {
        self.cluster.get()
    }

    /// Our address as the coordinator's host sees it, on tcp.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// Who hears what the coordinator says unasked. Set once, before the first request.
    pub(crate) fn listen(&self, notices: Notices) {
        let _ = self.notices.set(notices);
    }

    /// Sends what `message` makes of a request number and waits for the answer.
    pub(crate) fn request(
        &self,
        what: &str,
        timeout: Duration,
        message: impl FnOnce(u64) -> ToCoordinator,
    ) -> Result<ToRank, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(number, sender);
        self.send(&message(number));
        let answer = receiver.recv_timeout(timeout + ANSWER_MARGIN);
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        match answer {
            Ok(ToRank::RequestFailed { code, detail, .. }) => Err(Failure::new(code, detail)),
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                let detail = format!("the coordinator did not answer {what} within {} ms", timeout.as_millis());
                Err(Failure::new(ErrorCode::TimeoutWaitingForRanks, detail))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Failure::new(ErrorCode::System, format!("the coordinator shut down during {what}")))
            }
        }
    }

    /// Sends a message after all records noted so far.
    pub(crate) fn send(&self, message: &ToCoordinator) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_to(&mut writer);
        // A broken connection shows itself to the reader, which knows what to do.
        let _ = writer.write_all(&frame::encode(message));
    }

    /// Notes a record; it is sent with others.
    pub(crate) fn record(&self, record: OperationRecord) {
        let full = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.push(record);
            if pending.len() == 1 {
                self.filled.notify_one();
            }
            pending.len() >= BATCH
        };
        if full {
            self.flush();
        }
    }

    /// Sends all records noted so far.
    pub(crate) fn flush(&self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_to(&mut writer);
    }

    fn flush_to(&self, writer: &mut Stream) {
        let mut records = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(4 * BATCH));
            let _ = writer.write_all(&frame::encode(&ToCoordinator::Completed { records }));
            records = rest;
        }
    }

    /// Sends what is left and says that this process ends on purpose.
    pub(crate) fn goodbye(&self) {
        if !self.closing.swap(true, Ordering::AcqRel) {
            self.send(&ToCoordinator::Goodbye);
        }
    }

    /// Sends small batches a while after their first record.
    fn flush_in_time(&self) {
        loop {
            {
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                while pending.is_empty() {
                    pending = self.filled.wait(pending).unwrap_or_else(PoisonError::into_inner);
                }
            }
            std::thread::sleep(LINGER);
            self.flush();
        }
    }

    fn read(&self, mut stream: Stream, mut buffer: Vec<u8>) {
        loop {
            match read_message(&mut stream, &mut buffer) {
                Ok(message) => self.hear(message),
                Err(error) => {
                    self.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    if !self.closing.load(Ordering::Acquire) {
                        self.orphaned(&error);
                    }
                    return;
                }
            }
        }
    }

    fn hear(&self, message: ToRank) {
        let number = match &message {
            ToRank::CommunicatorFormed { request, .. }
            | ToRank::NoCommunicator { request }
            | ToRank::RequestFailed { request, .. }
            | ToRank::FaultNoted { request, .. } => Some(*request),
            _ => None,
        };
        if let Some(number) = number {
            let sender = self.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            if let Some(sender) = sender {
                let _ = sender.send(message);
            }
            return;
        }
        match message {
            ToRank::Flush { request } => self.send(&ToCoordinator::Flushed { request }),
            ToRank::ShuttingDown => {
                self.closing.store(true, Ordering::Release);
                self.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            other => {
                if let Some(notices) = self.notices.get() {
                    notices(other);
                }
            }
        }
    }

    /// The coordinator is gone without a word: whoever started it is gone too, and nobody would end this process.
    fn orphaned(&self, error: &io::Error) -> ! {
        let reason = if error.kind() == io::ErrorKind::UnexpectedEof { String::new() } else { format!(" ({error})") };
        let line = format!("[ftest] {}: the coordinator is gone{reason}; exiting\n", self.name);
        let _ = io::stderr().write_all(line.as_bytes());
        // SAFETY: ends the process at once; exit handlers could wait for threads that wait for the coordinator.
        unsafe { libc::_exit(ORPHAN_EXIT) }
    }
}

fn program() -> String {
    let mut arguments = std::env::args_os();
    let name = |path: std::ffi::OsString| {
        std::path::Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    arguments.next().map(name).unwrap_or_default()
}

fn read_message(stream: &mut Stream, buffer: &mut Vec<u8>) -> io::Result<ToRank> {
    let mut piece = [0; 16 * 1024];
    loop {
        let decoded = frame::decode(buffer, frame::MAX_TO_RANK);
        if let Some(message) = decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))? {
            return Ok(message);
        }
        match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => buffer.extend_from_slice(&piece[..got]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Address::Tcp(host) => {
                let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the host has no address");
                let deadline = Instant::now() + WELCOME_TIMEOUT;
                for target in host.to_socket_addrs()? {
                    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                    match TcpStream::connect_timeout(&target, left) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            return Ok(Self::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    fn local(&self) -> Option<IpAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(stream) => stream.local_addr().ok().map(|address| address.ip()),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Rust ignores SIGPIPE only in programs of its own; this library lives in others.
        let fd = match self {
            Self::Unix(stream) => std::os::fd::AsRawFd::as_raw_fd(stream),
            Self::Tcp(stream) => std::os::fd::AsRawFd::as_raw_fd(stream),
        };
        let mut sent = 0;
        while sent < bytes.len() {
            // SAFETY: the range lies within `bytes`.
            let result =
                unsafe { libc::send(fd, bytes[sent..].as_ptr().cast(), bytes.len() - sent, libc::MSG_NOSIGNAL) };
            if result < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            sent += result as usize;
        }
        Ok(())
    }
}
