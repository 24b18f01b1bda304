//! This process's one connection to the coordinator: requests with deadlines, batches of operation records, and the lifeline.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use protocol::frame;
use protocol::ids::SiteId;
use protocol::launcher::Launcher;
use protocol::message::{ProcessInfo, Role, ToCoordinator, ToRank, UNREACHABLE_AFTER, VERSION};
use protocol::plan::ClusterPlan;
use protocol::record::{ErrorCode, OperationRecord};
use protocol::secrecy::{self, Secret};
use protocol::site;

use crate::failure::Failure;
use crate::host;
use crate::lock::{Condvar, Mutex};
use crate::operation::timing::monotonic_ns;
use crate::process::backlog::Backlog;
use crate::process::stream::Stream;
use crate::refusal;
use crate::settings::{Address, Settings};
use crate::sockets::wire::KNOCKS;

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

/// Words with a bit for each number of a place.
const PLACE_WORDS: usize = site::MOST as usize / 64 + 1;

/// What the coordinator sends unasked.
pub(crate) type Notices = Box<dyn Fn(ToRank) + Send + Sync>;

/// The connection.
pub(crate) struct Session {
    writer: Mutex<Stream>,
    /// Kept to interrupt nothing, only to learn our own address.
    local: Option<IpAddr>,
    /// What was made of the token, if the coordinator is on another host.
    secret: Option<Secret>,
    /// From this host's clock to the coordinator's.
    offset_ns: i64,
    pending: Mutex<Pending>,
    filled: Condvar,
    answers: Mutex<HashMap<u64, mpsc::Sender<ToRank>>>,
    next: AtomicU64,
    /// Either side said that the end of the connection is not an alarm.
    closing: AtomicBool,
    /// Nothing comes any more.
    ended: (Mutex<bool>, Condvar),
    cluster: OnceLock<ClusterPlan>,
    notices: OnceLock<Notices>,
    name: String,
    /// Places that the coordinator knows, a bit for each.
    placed: [AtomicU64; PLACE_WORDS],
}

/// Records that were not sent.
struct Pending {
    records: Vec<OperationRecord>,
    /// They are there as well, and stay there until they were sent. None where the system refused it.
    backlog: Option<Backlog>,
}

impl Session {
    /// Connects, sends its hello and waits for the welcome.
    pub(crate) fn connect(address: &Address, settings: &Settings) -> Result<Arc<Self>, Failure> {
        let failed = |error: io::Error| {
            let place = match address {
                Address::Unix(path) => path.clone(),
                Address::Tcp(host) => host.clone(),
            };
            if secrecy::is_other_token(&error) {
                let detail = format!(
                    "the coordinator at {place} has a different token; FAKEGPU_COORDINATOR_TOKEN must be the one it was started with"
                );
                return Failure::new(ErrorCode::System, detail);
            }
            Failure::system(&format!("cannot reach the coordinator at {place} (FAKEGPU_COORDINATOR_ADDR)"), &error)
        };
        let backlog = Backlog::create().ok();
        let launcher = Launcher::read_or_task(|name| std::env::var(name).ok());
        let info = ProcessInfo {
            pid: std::process::id(),
            rank: launcher.rank,
            world_size: launcher.world_size,
            program: program(),
            backlog: backlog.as_ref().map(Backlog::address),
        };
        let name = info.rank.map_or_else(|| format!("process {}", info.pid), |rank| format!("rank {rank}"));
        let hello = ToCoordinator::Hello { version: VERSION, token: settings.token.clone(), role: Role::Process(info) };
        let mut buffer = Vec::new();
        let mut secret = None;
        let (stream, welcome, asked_ns) =
            say_hello(address, &hello, &settings.token, &mut secret, &mut buffer).map_err(failed)?;
        let cluster = OnceLock::new();
        let offset_ns;
        match welcome {
            ToRank::Welcome { version: VERSION, cluster: plan, clock } => {
                offset_ns = clock.offset_ns(&host::boot(), asked_ns, monotonic_ns());
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
            secret,
            offset_ns,
            writer: Mutex::new(stream),
            pending: Mutex::new(Pending { records: Vec::new(), backlog }),
            filled: Condvar::new(),
            answers: Mutex::default(),
            next: AtomicU64::new(1),
            closing: AtomicBool::new(false),
            ended: (Mutex::new(false), Condvar::new()),
            cluster,
            notices: OnceLock::new(),
            name,
            placed: [const { AtomicU64::new(0) }; PLACE_WORDS],
        });
        let (reading, flushing) = (Arc::clone(&session), Arc::clone(&session));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let none = |error| {
            let detail = refusal::explain_thread("no thread for the session with the coordinator", &error);
            Failure::new(ErrorCode::System, detail)
        };
        thread("ftest-session").spawn(move || reading.read(reader, buffer)).map_err(none)?;
        thread("ftest-flush").spawn(move || flushing.flush_in_time()).map_err(none)?;
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

    /// What ranks prove to each other that they have: the token, and on a network what was made of it.
    pub(crate) fn between_ranks(&self) -> Option<String> {
        self.secret.as_ref().map(Secret::between_ranks)
    }

    /// Receives messages that answer no request. Set once, before the first request.
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
        self.answers.lock().insert(number, sender);
        self.send(&message(number));
        let answer = receiver.recv_timeout(timeout + ANSWER_MARGIN);
        self.answers.lock().remove(&number);
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
        let mut writer = self.writer.lock();
        self.flush_to(&mut writer);
        // A broken connection shows itself to the reader, which knows what to do.
        let _ = writer.write_all(&frame::encode(message));
    }

    /// Sends where the place `id` is, unless the coordinator knows it.
    pub(crate) fn place(&self, id: SiteId) {
        let (word, bit) = (&self.placed[id.0 as usize / 64], 1 << (id.0 % 64));
        if id == SiteId::default() || word.load(Ordering::Relaxed) & bit != 0 {
            return;
        }
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0
            && let Some(site) = crate::site::of(id)
        {
            self.send(&ToCoordinator::Site { id, site });
        }
    }

    /// Notes a record; it is sent with others.
    pub(crate) fn record(&self, mut record: OperationRecord) {
        record.ended_ns = record.ended_ns.saturating_add_signed(self.offset_ns);
        self.place(record.site);
        let full = {
            let mut pending = self.pending();
            if let Some(backlog) = &mut pending.backlog {
                backlog.note(&record);
            }
            pending.records.push(record);
            if pending.records.len() == 1 {
                self.filled.notify_one();
            }
            pending.records.len() >= BATCH
        };
        if full {
            self.flush();
        }
    }

    /// Sends all records noted so far.
    pub(crate) fn flush(&self) {
        let mut writer = self.writer.lock();
        self.flush_to(&mut writer);
    }

    fn flush_to(&self, writer: &mut Stream) {
        let mut records = std::mem::take(&mut self.pending().records);
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(4 * BATCH));
            let count = records.len();
            let sent = writer.write_all(&frame::encode(&ToCoordinator::Completed { records }));
            if let (Ok(()), Some(backlog)) = (sent, &mut self.pending().backlog) {
                backlog.mark_reported(count);
            }
            records = rest;
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock()
    }

    /// Sends what is left and announces that this process ends on purpose. Over a network it waits until the coordinator has closed
    /// the connection, for at most [`UNREACHABLE_AFTER`]: what arrives after this process ended makes the system reset the connection,
    /// and what was not delivered by then is lost.
    pub(crate) fn goodbye(&self) {
        if self.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.send(&ToCoordinator::Goodbye);
        let is_remote = self.writer.lock().say_no_more();
        if !is_remote {
            return;
        }
        let (ended, changed) = &self.ended;
        let deadline = Instant::now() + UNREACHABLE_AFTER;
        let mut has_ended = ended.lock();
        while !*has_ended && Instant::now() < deadline {
            has_ended = changed.wait_timeout(has_ended, deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Whether this process has announced that it ends.
    pub(crate) fn is_leaving(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Sends small batches a while after their first record.
    fn flush_in_time(&self) {
        loop {
            {
                let mut pending = self.pending();
                while pending.records.is_empty() {
                    pending = self.filled.wait(pending);
                }
            }
            std::thread::sleep(LINGER);
            self.flush();
        }
    }

    fn read(&self, mut stream: Stream, mut buffer: Vec<u8>) {
        loop {
            match read_message(&mut stream, &mut buffer) {
                Ok(message) => self.dispatch(message),
                Err(error) => {
                    self.answers.lock().clear();
                    if !self.closing.load(Ordering::Acquire) {
                        self.orphaned(&error);
                    }
                    *self.ended.0.lock() = true;
                    self.ended.1.notify_all();
                    return;
                }
            }
        }
    }

    fn dispatch(&self, message: ToRank) {
        let number = match &message {
            ToRank::CommunicatorFormed { request, .. }
            | ToRank::NoCommunicator { request }
            | ToRank::RequestFailed { request, .. }
            | ToRank::FaultNoted { request, .. } => Some(*request),
            _ => None,
        };
        if let Some(number) = number {
            let sender = self.answers.lock().remove(&number);
            if let Some(sender) = sender {
                let _ = sender.send(message);
            }
            return;
        }
        match message {
            ToRank::Flush { request } => self.send(&ToCoordinator::Flushed { request }),
            ToRank::ShuttingDown => {
                self.closing.store(true, Ordering::Release);
                self.answers.lock().clear();
            }
            ToRank::RunLost => self.end("ftest is gone"),
            other => {
                if let Some(notices) = self.notices.get() {
                    notices(other);
                }
            }
        }
    }

    /// The coordinator is gone without a farewell: the program that started it is gone too, and nothing would end this process.
    fn orphaned(&self, error: &io::Error) -> ! {
        self.end(&match error.kind() {
            io::ErrorKind::UnexpectedEof => "the coordinator is gone".to_owned(),
            io::ErrorKind::TimedOut => {
                format!("the coordinator cannot be reached for {} s", UNREACHABLE_AFTER.as_secs())
            }
            _ => format!("the coordinator is gone ({error})"),
        })
    }

    /// Ends the process at once: exit handlers could wait for threads that wait for the coordinator.
    fn end(&self, why: &str) -> ! {
        let line = format!("[ftest] {}: {why}; exiting\n", self.name);
        let _ = io::stderr().write_all(line.as_bytes());
        // SAFETY: no preconditions.
        unsafe { libc::_exit(ORPHAN_EXIT) }
    }
}

/// Connects, sends `hello`, and returns the answer and when it was asked for, ns of this host's monotonic clock. A connection that
/// ended before any answer came is made again: too many connections without a hello may have evicted it at the coordinator.
/// `secret` is made of the token when it is needed.
fn say_hello(
    address: &Address,
    hello: &ToCoordinator,
    token: &str,
    secret: &mut Option<Secret>,
    buffer: &mut Vec<u8>,
) -> io::Result<(Stream, ToRank, u64)> {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let mut knocks = 0;
    loop {
        let stream = Stream::connect(address, WELCOME_TIMEOUT)?;
        stream.set_read_timeout(Some(WELCOME_TIMEOUT))?;
        let answer = stream.secure(token, secret).and_then(|mut stream| {
            let asked_ns = monotonic_ns();
            stream.write_all(&frame::encode(hello))?;
            read_message(&mut stream, buffer).map(|answer| (stream, answer, asked_ns))
        });
        match answer {
            Ok(answer) => return Ok(answer),
            Err(error)
                if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
                    && buffer.is_empty()
                    && knocks < KNOCKS =>
            {
                knocks += 1;
            }
            Err(error) => return Err(error),
        }
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    use protocol::message::Clock;

    use super::*;

    /// What a rank says last crosses a slow network, and is lost where the rank ends before it has arrived.
    #[test]
    fn a_goodbye_over_a_network_has_arrived_when_it_was_said() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(door.local_addr().unwrap().to_string());
        let heard = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = door.accept().unwrap();
                let mut buffer = Vec::new();
                let mut next = |stream: &mut TcpStream| {
                    let mut piece = [0; 4096];
                    loop {
                        if let Some(message) =
                            frame::decode::<ToCoordinator>(&mut buffer, frame::MAX_TO_COORDINATOR).unwrap()
                        {
                            return Some(message);
                        }
                        match stream.read(&mut piece).unwrap() {
                            0 => return None,
                            got => buffer.extend_from_slice(&piece[..got]),
                        }
                    }
                };
                assert!(matches!(next(&mut stream), Some(ToCoordinator::Hello { .. })));
                stream
                    .write_all(&frame::encode(&ToRank::Welcome {
                        version: VERSION,
                        cluster: None,
                        clock: Box::default(),
                    }))
                    .unwrap();
                std::thread::sleep(Duration::from_millis(200));
                // It comes to a rank that has said goodbye already.
                stream.write_all(&frame::encode(&ToRank::Flush { request: 7 })).unwrap();
                let said: Vec<ToCoordinator> = std::iter::from_fn(|| next(&mut stream)).collect();
                heard.store(said.contains(&ToCoordinator::Goodbye), Ordering::Release);
            });
            Session::connect(&address, &Settings::default()).map(|session| session.goodbye()).unwrap();
            assert!(heard.load(Ordering::Acquire));
        });
    }

    /// A rank on a host whose clock is an hour behind the coordinator's.
    #[test]
    fn what_ended_is_told_by_the_clock_of_the_coordinator() {
        const HOUR_US: u64 = 3_600_000_000;
        let path = std::env::temp_dir().join(format!("ftest-clock-{:016x}", crate::unique::random_u64().unwrap()));
        let door = UnixListener::bind(&path).unwrap();
        let address = Address::Unix(path.to_str().unwrap().to_owned());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = door.accept().unwrap();
                let now_us = monotonic_ns() / 1000 + HOUR_US;
                let clock = Box::new(Clock { boot: "another host".to_owned(), now_us });
                stream.write_all(&frame::encode(&ToRank::Welcome { version: VERSION, cluster: None, clock })).unwrap();
                // Until it says goodbye.
                stream.read_to_end(&mut Vec::new()).unwrap();
            });
            let before = monotonic_ns();
            let session = Session::connect(&address, &Settings::default()).unwrap();
            let error_ns = (monotonic_ns() - before) as i64;
            let hour_ns = HOUR_US as i64 * 1000;
            assert!((session.offset_ns - hour_ns).abs() <= error_ns, "{} ns", session.offset_ns);
            session.goodbye();
            let writer = session.writer.lock();
            let Stream::Unix(stream) = &*writer else { panic!("not a socket file") };
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        });
        std::fs::remove_file(path).unwrap();
    }

    /// Too many connections without a hello evict the oldest at the coordinator, which may be a rank's.
    #[test]
    fn a_rank_that_was_pushed_out_before_it_was_heard_comes_again() {
        let path = std::env::temp_dir().join(format!("ftest-session-{:016x}", crate::unique::random_u64().unwrap()));
        let door = UnixListener::bind(&path).unwrap();
        let address = Address::Unix(path.to_str().unwrap().to_owned());
        let hello = ToCoordinator::Flushed { request: 7 };
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3 {
                    drop(door.accept().unwrap());
                }
                let (mut stream, _) = door.accept().unwrap();
                let mut bytes = vec![0; frame::encode(&hello).len()];
                stream.read_exact(&mut bytes).unwrap();
                assert_eq!(bytes, frame::encode(&hello));
                stream.write_all(&frame::encode(&ToRank::ShuttingDown)).unwrap();
            });
            say_hello(&address, &hello, "", &mut None, &mut Vec::new()).map(|(_, answer, _)| answer)
        });
        std::fs::remove_file(path).unwrap();
        assert_eq!(answer.unwrap(), ToRank::ShuttingDown);
    }
}
