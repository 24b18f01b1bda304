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
use protocol::resumption::SessionKey;
use protocol::secrecy::{self, Secret};
use protocol::site;

use crate::failure::Failure;
use crate::host;
use crate::lock::{Condvar, Mutex};
use crate::operation::timing::monotonic_ns;
use crate::process::backlog::Backlog;
use crate::process::dial::Caller;
use crate::process::line::{Ear, Line, Out};
use crate::process::stream::Stream;
use crate::refusal;
use crate::settings::{Address, Settings};
use crate::threads;

/// A batch of this many records is sent at once.
const BATCH: usize = 256;
/// A smaller batch is sent this long after its first record in a job of up to [`FEW_RANKS`], and later in a larger one: the
/// coordinator then gets no more messages a second, however many ranks there are.
const LINGER: Duration = Duration::from_millis(50);
/// The most ranks that send their batches so early.
const FEW_RANKS: u32 = 32;
/// The coordinator itself answers a late rendezvous, with the names of the missing ranks. This much later we stop waiting for it.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);
/// How long a coordinator may take to welcome us.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(30);
/// The exit code of a process whose coordinator is gone.
pub const ORPHAN_EXIT: i32 = 70;

/// Words with one bit for each place number.
const PLACE_WORDS: usize = site::MOST as usize / 64 + 1;

/// Receives what the coordinator sends without being asked.
pub(crate) type Notices = Box<dyn Fn(ToRank) + Send + Sync>;

/// The connection to the coordinator.
pub(crate) struct Session {
    line: Line,
    /// Our own address, on tcp.
    local: Option<IpAddr>,
    /// Derived from the token, if the coordinator is on another host.
    secret: Option<Secret>,
    /// What is added to a time of this host's clock to get that of the coordinator's.
    offset_ns: i64,
    pending: Mutex<Pending>,
    filled: Condvar,
    answers: Mutex<HashMap<u64, mpsc::Sender<ToRank>>>,
    next: AtomicU64,
    /// Whether either side announced that the connection will end.
    closing: AtomicBool,
    /// Whether the coordinator announced it.
    dismissed: AtomicBool,
    /// Whether nothing more will arrive.
    ended: (Mutex<bool>, Condvar),
    cluster: OnceLock<ClusterPlan>,
    notices: OnceLock<Notices>,
    name: String,
    /// How long a batch of records waits for more.
    linger: Duration,
    /// Places that the coordinator knows, one bit for each.
    placed: [AtomicU64; PLACE_WORDS],
}

/// Records that have not been sent.
struct Pending {
    records: Vec<OperationRecord>,
    /// The backlog, where the records are as well until they are sent. `None` if the system refused to create it.
    backlog: Option<Backlog>,
}

impl Session {
    /// Connects, sends its hello and waits for the welcome.
    pub(crate) fn connect(address: &Address, settings: &Settings) -> Result<Arc<Self>, Failure> {
        Self::over(address, settings, Stream::crosses_network)
    }

    /// As [`Self::connect`]. If the connection `may_break`, it is made again after a reset.
    fn over(address: &Address, settings: &Settings, may_break: fn(&Stream) -> bool) -> Result<Arc<Self>, Failure> {
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
        let mut caller = Caller { address: address.clone(), token: settings.token.clone(), secret: None };
        let mut key = None;
        let token = settings.token.clone();
        // Each attempt is a new session.
        let hello = |stream: &Stream| {
            key = new_key().filter(|_| may_break(stream));
            let role = match key {
                Some(session) => Role::Distant { info: info.clone(), session },
                None => Role::Process(info.clone()),
            };
            ToCoordinator::Hello { version: VERSION, token: token.clone(), role }
        };
        let answered = caller.call(WELCOME_TIMEOUT, hello).map_err(failed)?;
        let cluster = OnceLock::new();
        let offset_ns;
        match &answered.answer {
            ToRank::Welcome { version: VERSION, cluster: plan, clock } => {
                offset_ns = clock.offset_ns(&host::boot(), answered.asked_ns, monotonic_ns());
                if let Some(plan) = plan {
                    let _ = cluster.set(plan.clone());
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
        let secret = caller.secret.clone();
        let (line, ear) = Line::over(caller, answered, key).map_err(failed)?;
        let session = Arc::new(Self {
            local: line.local(),
            secret,
            offset_ns,
            line,
            pending: Mutex::new(Pending { records: Vec::new(), backlog }),
            filled: Condvar::new(),
            answers: Mutex::default(),
            next: AtomicU64::new(1),
            closing: AtomicBool::new(false),
            dismissed: AtomicBool::new(false),
            ended: (Mutex::new(false), Condvar::new()),
            cluster,
            notices: OnceLock::new(),
            name,
            linger: linger(launcher.world_size),
            placed: [const { AtomicU64::new(0) }; PLACE_WORDS],
        });
        let (reading, flushing) = (Arc::clone(&session), Arc::clone(&session));
        let none = |error| {
            let detail = refusal::explain_thread("no thread for the session with the coordinator", &error);
            Failure::new(ErrorCode::System, detail)
        };
        threads::start("ftest-session", move || reading.read(ear)).map_err(none)?;
        threads::start("ftest-flush", move || flushing.flush_in_time()).map_err(none)?;
        Ok(session)
    }

    /// The cluster, if the coordinator was given one.
    pub(crate) fn cluster(&self) -> Option<&ClusterPlan> {
        self.cluster.get()
    }

    /// Our address as the coordinator's host sees it, on tcp.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// The secret that ranks prove to each other that they have, derived from the token; none if the coordinator is on this host.
    pub(crate) fn between_ranks(&self) -> Option<String> {
        self.secret.as_ref().map(Secret::between_ranks)
    }

    /// Receives messages that answer no request. Set once, before the first request.
    pub(crate) fn listen(&self, notices: Notices) {
        let _ = self.notices.set(notices);
    }

    /// Sends the `message` for a new request number and waits for the answer.
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
        let mut out = self.line.out();
        self.flush_to(&mut out);
        out.say(frame::encode(message));
    }

    /// Tells the coordinator where the place `id` is, unless it knows.
    pub(crate) fn place(&self, id: SiteId) {
        let (word, bit) = (&self.placed[id.0 as usize / 64], 1 << (id.0 % 64));
        if id == SiteId::default() || word.load(Ordering::Relaxed) & bit != 0 {
            return;
        }
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0
            && let Some(site) = crate::site::find(id)
        {
            self.send(&ToCoordinator::Site { id, site });
        }
    }

    /// Notes a record, which is sent together with others.
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
            self.line.wait_for_room();
            self.flush();
        }
    }

    /// Sends all records noted so far.
    pub(crate) fn flush(&self) {
        self.flush_to(&mut self.line.out());
    }

    fn flush_to(&self, out: &mut Out) {
        let mut records = std::mem::take(&mut self.pending().records);
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(4 * BATCH));
            let count = records.len();
            let sent = out.say(frame::encode(&ToCoordinator::Completed { records }));
            if let Some(backlog) = self.pending().backlog.as_mut().filter(|_| sent) {
                backlog.mark_reported(count);
            }
            records = rest;
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock()
    }

    /// Sends what is left and announces that this process ends on purpose. Over a network, it waits until the coordinator has
    /// closed the connection, for at most [`UNREACHABLE_AFTER`]: if something arrives after this process has ended, the system
    /// resets the connection, and whatever was not delivered by then is lost.
    pub(crate) fn goodbye(&self) {
        if self.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.send(&ToCoordinator::Goodbye);
        let is_remote = self.line.say_no_more();
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

    /// Sends small batches some time after their first record.
    fn flush_in_time(&self) {
        loop {
            {
                let mut pending = self.pending();
                while pending.records.is_empty() {
                    pending = self.filled.wait(pending);
                }
            }
            std::thread::sleep(self.linger);
            self.line.wait_for_room();
            self.flush();
        }
    }

    fn read(&self, mut ear: Ear) {
        loop {
            let error = match ear.next(&self.line) {
                Ok(message) => {
                    self.dispatch(message);
                    ear.take(&self.line);
                    continue;
                }
                Err(error) => error,
            };
            // A coordinator that has ended does not come back.
            let mended =
                if self.dismissed.load(Ordering::Acquire) { Err(error) } else { self.line.mend(&mut ear, error) };
            match mended {
                Ok(()) => {}
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
                self.dismissed.store(true, Ordering::Release);
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

    /// The coordinator is gone without a goodbye. The program that started it is gone too, so nothing else would end this
    /// process.
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

/// See [`LINGER`].
fn linger(world_size: Option<u32>) -> Duration {
    LINGER * world_size.unwrap_or(1).div_ceil(FEW_RANKS).max(1)
}

/// None if the system has no randomness. The session then cannot return after a reset.
fn new_key() -> Option<SessionKey> {
    let mut key = SessionKey::default();
    crate::unique::fill(&mut key).ok().map(|()| key)
}

fn program() -> String {
    let mut arguments = std::env::args_os();
    let name = |path: std::ffi::OsString| {
        std::path::Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    arguments.next().map(name).unwrap_or_default()
}

#[cfg(test)]
mod tests;
