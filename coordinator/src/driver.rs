//! The single task that owns the cluster: everything that happens goes through here, one event at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use model::cluster::Cluster;
use model::exchange::{ConnectionId, Input, Output};
use protocol::announcement::Announcement;
use protocol::message::{Clock, ToCoordinator, ToRank};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::console;
use crate::conversation::LAST_WORDS;
use crate::event::{Event, Opener};
use crate::inquiry::{Inquiry, Quiet};
use crate::left_behind::LeftBehind;
use crate::machine::{self, Machine};
use crate::report_file::{ReportError, ReportFile};

/// The report is refreshed at most this often.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Refreshing takes at most one part in this many of the time, because writing a long timeline takes long.
const REFRESH_SHARE: u32 = 20;
/// Ranks have this long to hand over the operations that they completed.
const FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Why a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A client or a signal asked for the end: ranks are finished, or can continue without the coordinator.
    Asked,
    /// The program that started the run is gone: nothing else would end the ranks.
    RunLost,
}

/// The task's state.
pub(crate) struct Driver {
    cluster: Cluster,
    clients: BTreeMap<ConnectionId, Client>,
    /// When the cluster's time was zero.
    started: Instant,
    /// When the cluster's time was zero, by the machine's monotonic clock.
    started_us: u64,
    report: Option<ReportFile>,
    written_revision: u64,
    /// When the next refresh may happen.
    refresh_from: Instant,
    flush: Option<Flush>,
    flushes: u64,
    inquiry: Option<Inquiry>,
    inquiries: u64,
    quiet: Quiet,
    /// Whether the run is ending, so that the flush in progress is the last.
    ending: bool,
    /// Whether a refresh has failed; it is reported once.
    refresh_failed: bool,
    /// Connections of processes that are known to be dead, and when they are closed if they do not close by themselves.
    doomed: Vec<(Instant, ConnectionId)>,
    machine: Machine,
}

struct Client {
    outbound: mpsc::Sender<ToRank>,
    is_process: bool,
    left_behind: Option<LeftBehind>,
}

/// Processes that were asked for the operations they completed.
struct Flush {
    request: u64,
    missing: BTreeSet<ConnectionId>,
    deadline: Instant,
}

impl Driver {
    /// Writes the report of the idle cluster at once, so a bad path is known before ranks start.
    pub(crate) fn new(
        cluster: Cluster,
        report: Option<ReportFile>,
        idle: Option<Duration>,
        machine: Machine,
    ) -> Result<Self, ReportError> {
        if let Some(report) = &report {
            report.write(&cluster)?;
        }
        let now = Instant::now();
        Ok(Self {
            written_revision: cluster.revision(),
            cluster,
            clients: BTreeMap::new(),
            started: now,
            started_us: machine::now_us(),
            report,
            refresh_from: now + REFRESH_INTERVAL,
            flush: None,
            flushes: 0,
            inquiry: None,
            inquiries: 0,
            quiet: Quiet::new(idle),
            ending: false,
            refresh_failed: false,
            doomed: Vec::new(),
            machine,
        })
    }

    /// Runs until `stop` or a control client's Shutdown, then collects, writes the report and sends the farewells that this kind
    /// of end calls for.
    pub(crate) async fn drive(
        mut self,
        events: &mut mpsc::Receiver<Event>,
        stop: impl Future<Output = End>,
    ) -> Result<(), ReportError> {
        let mut stop = pin!(stop);
        let mut farewell = ToRank::ShuttingDown;
        // The user stopped the whole run (Ctrl-Z) and let it go on.
        let mut resumed = Resumed::listen();
        loop {
            let wake = self.wake();
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.handle(event),
                    // No client is left to send anything, so waiting for a flush would be of no use.
                    None => {
                        self.end();
                        self.flush.iter_mut().for_each(|flush| flush.missing.clear());
                    }
                },
                () = due(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    // A timer that rang because everybody was stopped means nothing.
                    if resumed.has_come().await {
                        self.quiet.resume();
                    } else {
                        self.expire();
                    }
                }
                () = resumed.comes() => self.quiet.resume(),
                end = &mut stop, if !self.ending => {
                    if end == End::RunLost {
                        farewell = ToRank::RunLost;
                    }
                    self.end();
                }
            }
            self.quiet.note_revision(self.cluster.revision());
            if self.inquiry.as_ref().is_some_and(Inquiry::is_over) {
                self.conclude();
            }
            if self.flush.as_ref().is_some_and(|flush| flush.missing.is_empty()) {
                self.flush = None;
                if self.ending {
                    break;
                }
                self.refresh();
            }
        }
        // A process that did not answer may be stopped, or dead.
        for connection in self.processes() {
            self.take_what_is_left(connection);
        }
        self.machine.look(&mut self.cluster);
        let written = self.report.as_ref().map_or(Ok(()), |report| report.write(&self.cluster));
        for client in self.clients.values() {
            // A peer whose queue is full has stopped reading; closing the connection has the same meaning.
            let _ = client.outbound.try_send(farewell.clone());
        }
        written
    }

    fn now_us(&self) -> u64 {
        self.started_us + self.started.elapsed().as_micros() as u64
    }

    /// When something is due even if no event arrives.
    fn wake(&self) -> Option<Instant> {
        let cluster =
            self.cluster.deadline().map(|us| self.started + Duration::from_micros(us.saturating_sub(self.started_us)));
        let flush = self.flush.as_ref().map(|flush| flush.deadline);
        let stale = self.report.is_some() && self.flush.is_none() && self.cluster.revision() != self.written_revision;
        let refresh = stale.then_some(self.refresh_from);
        let inquiry = match &self.inquiry {
            Some(inquiry) => Some(inquiry.deadline),
            None => self.quiet.deadline(),
        };
        let doom = self.doomed.iter().map(|(when, _)| *when).min();
        [cluster, flush, refresh, inquiry, doom].into_iter().flatten().min()
    }

    fn expire(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.doomed).into_iter().partition(|(when, _)| *when <= now);
        self.doomed = later;
        for (_, connection) in due {
            self.drop_client(connection, None);
        }
        if self.cluster.deadline().is_some_and(|us| us <= self.now_us()) {
            self.step(Input::Tick);
        }
        match &mut self.inquiry {
            Some(inquiry) if inquiry.deadline <= now => inquiry.time_is_up(),
            Some(_) => {}
            None if self.quiet.deadline().is_some_and(|deadline| deadline <= now) => self.inquire(Vec::new()),
            None => {}
        }
        match &mut self.flush {
            Some(flush) if flush.deadline <= now => flush.missing.clear(),
            Some(_) => {}
            None if self.refresh_from <= now && self.cluster.revision() != self.written_revision => {
                self.begin_flush();
            }
            None => {}
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Opened { connection, opener, outbound } => {
                let (is_process, left_behind) = match &opener {
                    Opener::Process(info) => (true, LeftBehind::from_process(info)),
                    Opener::Control => (false, None),
                };
                self.clients.insert(connection, Client { outbound, is_process, left_behind });
                match opener {
                    Opener::Process(info) => self.step(Input::Joined { connection, info }),
                    Opener::Control => {
                        let cluster = self.cluster.plan().cloned();
                        let clock = Box::new(Clock { now_us: self.now_us(), ..Clock::default() });
                        self.send(connection, ToRank::Welcome { version: protocol::message::VERSION, cluster, clock });
                    }
                }
            }
            Event::Received { connection, message } => self.receive(connection, message),
            Event::Closed { connection, reason } => self.drop_client(connection, reason),
            Event::Unreachable { connection } => {
                if self.forget(connection, None).is_some() {
                    self.step(Input::Unreachable { connection });
                }
            }
        }
    }

    fn receive(&mut self, connection: ConnectionId, message: ToCoordinator) {
        let Some(client) = self.clients.get(&connection) else { return };
        match message {
            ToCoordinator::Flushed { request } => {
                if let Some(flush) = self.flush.as_mut().filter(|flush| flush.request == request) {
                    flush.missing.remove(&connection);
                }
            }
            ToCoordinator::Active { request, activities } => {
                if let Some(inquiry) = &mut self.inquiry {
                    inquiry.answer(connection, request, activities);
                }
            }
            ToCoordinator::Diagnose { last } if !client.is_process => {
                match &mut self.inquiry {
                    Some(inquiry) => inquiry.askers.push(connection),
                    None => self.inquire(vec![connection]),
                }
                if let Some(inquiry) = &mut self.inquiry {
                    inquiry.last |= last;
                }
                if last {
                    self.quiet.stop();
                }
            }
            ToCoordinator::Shutdown if !client.is_process => self.end(),
            ToCoordinator::RankEnded { rank, pid, how } if !client.is_process => {
                self.step(Input::RankEnded { rank, pid, how });
                if let Some(connection) = self.cluster.connection_of_ended(rank) {
                    self.doomed.push((Instant::now() + LAST_WORDS, connection));
                }
            }
            ToCoordinator::QueryStatus => {
                let json = self.cluster.status().to_string();
                self.send(connection, ToRank::Status { json });
            }
            message if client.is_process => self.step(Input::Message { connection, message }),
            _ => self.drop_client(connection, Some("a control client must not act as a rank".to_owned())),
        }
    }

    fn step(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for output in self.cluster.step(input, self.now_us()) {
                match output {
                    Output::Send { connection, message } => {
                        if let Some(reason) = self.try_send(connection, message) {
                            inputs.extend(self.forget(connection, Some(reason)));
                        }
                    }
                    Output::Close { connection, reason } => inputs.extend(self.forget(connection, Some(reason))),
                }
            }
        }
    }

    fn send(&mut self, connection: ConnectionId, message: ToRank) {
        if let Some(reason) = self.try_send(connection, message) {
            self.drop_client(connection, Some(reason));
        }
    }

    /// Why the peer cannot continue, if it cannot.
    fn try_send(&self, connection: ConnectionId, message: ToRank) -> Option<String> {
        let client = self.clients.get(&connection)?;
        match client.outbound.try_send(message) {
            // If the queue is closed, the end of the session is on the way as an event.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
            Err(mpsc::error::TrySendError::Full(_)) => Some("does not read what it is sent".to_owned()),
        }
    }

    fn drop_client(&mut self, connection: ConnectionId, reason: Option<String>) {
        if reason.is_none() {
            self.take_what_is_left(connection);
        }
        if let Some(input) = self.forget(connection, reason) {
            self.step(input);
        }
    }

    /// Takes a client off the list, which ends its session; returns what the cluster must be told about it.
    fn forget(&mut self, connection: ConnectionId, reason: Option<String>) -> Option<Input> {
        let client = self.clients.remove(&connection)?;
        if let Some(flush) = &mut self.flush {
            flush.missing.remove(&connection);
        }
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.gone(connection);
        }
        client.is_process.then_some(Input::Disconnected { connection, reason })
    }

    /// Books operations that a process completed but did not report, because it died or does not answer.
    fn take_what_is_left(&mut self, connection: ConnectionId) {
        let left_behind = self.clients.get(&connection).and_then(|client| client.left_behind.as_ref());
        let records = left_behind.map(LeftBehind::records).unwrap_or_default();
        if !records.is_empty() {
            self.step(Input::LeftBehind { connection, records });
        }
    }

    fn processes(&self) -> BTreeSet<ConnectionId> {
        self.clients.iter().filter(|(_, client)| client.is_process).map(|(connection, _)| *connection).collect()
    }

    /// Asks every process which operation it is in.
    fn inquire(&mut self, askers: Vec<ConnectionId>) {
        self.inquiries += 1;
        let request = self.inquiries;
        let processes = self.processes();
        self.inquiry = Some(Inquiry::new(request, processes.clone(), askers));
        for connection in processes {
            self.send(connection, ToRank::Inquire { request });
        }
    }

    /// Judges the answers to an inquiry, when all processes have answered or had their time to answer.
    fn conclude(&mut self) {
        let Some(inquiry) = self.inquiry.take() else { return };
        let (quiet, now_us) = (self.quiet.lasted(), self.now_us());
        let root = self.report.as_ref().and_then(|report| report.facts.source_root.as_deref());
        let (found, diagnosis) = inquiry.judge(&self.cluster, root, quiet, now_us);
        let hang = found.is_some();
        if let Some(found) = found.as_ref().filter(|_| inquiry.askers.is_empty()) {
            let seconds = quiet.as_secs_f64();
            let sentence = format!("nothing has moved for {seconds:.1} s: {}", found.hang.sentence);
            console::announce(&Announcement::Hang(sentence));
        }
        if inquiry.is_for_report(found.as_ref()) {
            self.cluster.hangs(found);
        }
        // A client that only watches does not disturb the clock.
        if inquiry.askers.is_empty() {
            self.quiet.asked(self.cluster.revision(), hang);
        }
        if inquiry.askers.is_empty() {
            return;
        }
        match serde_json::to_string(&diagnosis) {
            Ok(json) => {
                inquiry.askers.iter().for_each(|asker| self.send(*asker, ToRank::Diagnosis { json: json.clone() }))
            }
            Err(error) => console::complain(&format!("cannot write a diagnosis: {error}")),
        }
    }

    fn begin_flush(&mut self) {
        self.flushes += 1;
        let request = self.flushes;
        let processes = self.processes();
        self.flush = Some(Flush { request, missing: processes.clone(), deadline: Instant::now() + FLUSH_DEADLINE });
        for connection in processes {
            self.send(connection, ToRank::Flush { request });
        }
    }

    fn end(&mut self) {
        if !self.ending {
            self.ending = true;
            self.begin_flush();
        }
    }

    fn refresh(&mut self) {
        let Some(report) = &self.report else { return };
        let start = Instant::now();
        self.written_revision = self.cluster.revision();
        let result = report.write(&self.cluster);
        let end = Instant::now();
        self.refresh_from = end + REFRESH_INTERVAL.max((end - start) * REFRESH_SHARE);
        if let Err(error) = result
            && !std::mem::replace(&mut self.refresh_failed, true)
        {
            console::complain(&error.to_string());
        }
    }
}

/// Waits until `wake`, and until a signal that came in the meantime can be seen.
async fn due(wake: Instant) {
    sleep_until(wake).await;
    tokio::task::yield_now().await;
}

/// Notices SIGCONT; holds nothing if the signal cannot be caught.
struct Resumed(Option<Signal>);

impl Resumed {
    fn listen() -> Self {
        Self(signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())).ok())
    }

    /// Waits until the signal arrives.
    async fn comes(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }

    /// Whether the signal has arrived and was not seen yet.
    async fn has_come(&mut self) -> bool {
        let Some(signal) = &mut self.0 else { return false };
        poll_fn(|context| Poll::Ready(signal.poll_recv(context).is_ready())).await
    }
}
