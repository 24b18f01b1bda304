//! One rank's handle of a communicator: runs operations in order, keeps the first failure, records lost ranks.

mod books;
mod leaving;
mod resizes;
mod ticket;
mod turns;
mod windows;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use protocol::activity::Activity;
use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::Member;
use protocol::ready::Ready;
use protocol::record::{BufferTransport, ErrorCode, FailureRecord, OperationRecord};

use crate::alone::{self, Alone};
use crate::arena::Arena;
use crate::call::Call;
use crate::failure::Failure;
use crate::fault::{self, Armed, Site};
use crate::journal::Journal;
use crate::lock::Mutex;
use crate::losses::{Loss, Losses};
use crate::operation::context::OpContext;
use crate::operation::history::OpHistory;
use crate::operation::timing::Timing;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::sockets::Sockets;
use crate::sockets::listener::Listener;
use crate::transport::{Transport, may_share};
use crate::wake::Wake;

pub use resizes::{GrowTicket, ShrinkTicket};
pub use ticket::Ticket;

use resizes::Resizes;
use turns::Turns;

/// The result of a rendezvous.
#[derive(Clone, Debug)]
pub struct Formed {
    /// Identity in the run.
    pub communicator: CommunicatorId,
    /// The receiver's rank.
    pub rank: Rank,
    /// All members, in rank order.
    pub members: Vec<Member>,
}

/// One rank's end of a communicator.
pub struct Communicator {
    id: CommunicatorId,
    rank: u32,
    members: Vec<Member>,
    /// The nodes of the members, by rank; empty if the cluster is not known.
    nodes: Vec<String>,
    settings: Settings,
    journal: Arc<dyn Journal>,
    turns: Turns,
    history: OpHistory,
    running: Mutex<Running>,
    sockets: Sockets,
    /// Set if bytes move through shared memory; the sockets are idle then.
    shared: OnceLock<Shared>,
    /// Set if the other ranks do not exist.
    alone: Option<Alone>,
    failure: Mutex<Option<Failure>>,
    losses: Losses,
    left: AtomicBool,
    revoked: AtomicBool,
    /// Number of splits requested so far.
    splits: Mutex<u64>,
    resizes: Mutex<Resizes>,
    faults: Vec<Armed>,
}

/// How often the links to other nodes are measured.
const MEASURED_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// State that only the running operation touches.
struct Running {
    /// Sequence number of the last collective.
    sequence: u64,
    counted: fault::Counted,
    /// When the links were measured last.
    measured: Option<Instant>,
}

impl Communicator {
    /// Sets up the transport between the members: shared memory if all of them are on one host and can map each other's
    /// memory, else sockets. Every rank makes the same decision. `control` is the memory file this rank offered; `register`
    /// registers the communicator and returns the losses that were reported earlier.
    ///
    /// # Errors
    /// A lost member, the deadline, or a system error.
    pub(crate) fn form(
        (formed, nodes): (Formed, Vec<String>),
        control: Arena,
        settings: Settings,
        journal: Arc<dyn Journal>,
        listener: &Arc<Listener>,
        faults: Vec<Armed>,
        register: &dyn Fn(&Arc<Self>) -> Vec<Loss>,
    ) -> Result<Arc<Self>, Failure> {
        let (rank, size) = (formed.rank.0, formed.members.len() as u32);
        let system = |error| Failure::system("cannot make an event descriptor", &error);
        let wake = Arc::new(Wake::new().map_err(system)?);
        let sockets = Sockets::new(formed.communicator.0, rank, &settings, listener, &wake);
        let communicator = Arc::new(Self {
            id: formed.communicator,
            rank,
            members: formed.members,
            nodes,
            journal,
            turns: Turns::default(),
            history: OpHistory::default(),
            running: Mutex::new(Running { sequence: 0, counted: fault::Counted::default(), measured: None }),
            sockets,
            shared: OnceLock::new(),
            alone: settings.is_alone.then(Alone::default),
            failure: Mutex::new(None),
            losses: Losses::new(wake),
            left: AtomicBool::new(false),
            revoked: AtomicBool::new(false),
            settings,
            splits: Mutex::new(0),
            resizes: Mutex::default(),
            faults,
        });
        for (rank, code, detail) in register(&communicator) {
            communicator.lose(rank, code, &detail);
        }
        if communicator.alone.is_some() {
            return Ok(communicator);
        }
        if may_share(&communicator.members) {
            // What this rank offered stays open until everybody has looked at it.
            let (shared, _offered) = Shared::map(rank, &communicator.members, control);
            if size == 1 || communicator.sockets.all_say(&communicator.context(0), shared.is_some())? {
                if let Some(shared) = shared {
                    let _ = communicator.shared.set(shared);
                }
                // The segment was not there yet when these losses came.
                for (rank, code, detail) in communicator.losses.all() {
                    communicator.lose(rank, code, &detail);
                }
            }
        }
        if communicator.shared.get().is_none() {
            communicator.sockets.take_puts();
        }
        Ok(communicator)
    }

    fn context(&self, sequence: u64) -> OpContext<'_> {
        OpContext {
            rank: self.rank,
            size: self.members.len() as u32,
            members: &self.members,
            nodes: &self.nodes,
            sequence,
            deadline: Instant::now() + self.settings.timeout,
            timeout: self.settings.timeout,
            losses: &self.losses,
            history: &self.history,
        }
    }

    fn site<'a>(&'a self, failure: &'a dyn Fn() -> Option<Failure>) -> Site<'a> {
        Site {
            communicator: self.id,
            rank: self.rank,
            global_rank: self.members[self.rank as usize].global_rank,
            size: self.size(),
            journal: &*self.journal,
            wake: self.losses.wake(),
            failure,
            timeout: self.settings.timeout,
        }
    }

    /// Identity in the run.
    pub fn id(&self) -> CommunicatorId {
        self.id
    }

    /// This process's rank in it.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// All members, in rank order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How bytes move between its ranks.
    pub fn transport(&self) -> BufferTransport {
        if self.settings.keeps_books { BufferTransport::ProxyOnly } else { self.carrier().kind() }
    }

    /// The transport that the ranks agreed on.
    fn carrier(&self) -> &dyn Transport {
        match (&self.alone, self.shared.get()) {
            (Some(alone), _) => alone,
            (None, Some(shared)) => shared,
            (None, None) => &self.sockets,
        }
    }

    /// How long an operation waits for other ranks.
    pub fn patience(&self) -> std::time::Duration {
        self.settings.timeout
    }

    /// The first failure; later ones do not replace it.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.lock().clone()
    }

    /// The operation this rank is in, and the last ones it completed.
    pub fn activity(&self) -> Activity {
        let (current, recent) = self.history.read();
        let queued = self.turns.behind(!current.is_empty());
        Activity { communicator: self.id, rank: Rank(self.rank), current, queued, recent }
    }

    /// Number of the next split of this communicator, from 1; taken when the program requests the split.
    pub fn split_ticket(&self) -> Sequence {
        let mut splits = self.splits.lock();
        *splits += 1;
        Sequence(*splits)
    }

    /// Checks a call's arguments, as far as this rank can check them alone.
    ///
    /// # Errors
    /// `InvalidArgument`; the communicator stays usable.
    pub fn check(&self, call: &Call) -> Result<(), Failure> {
        call.check(self.rank, self.size())
    }

    /// Takes a place in the order of operations. A dropped ticket gives the place back.
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket::new(self)
    }

    /// Runs `calls` now: collectives in order, then all sends and recvs at once.
    ///
    /// # Errors
    /// The failure, which is permanent: later operations return it immediately.
    pub fn run(self: &Arc<Self>, calls: &[Call]) -> Result<(), Failure> {
        self.ticket().run(calls).map(drop)
    }

    fn execute(&self, calls: &[Call]) -> Result<Ready, Failure> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let rewritten = self.alone.is_some().then(|| alone::grouped(self.rank, calls));
        let calls = rewritten.as_deref().unwrap_or(calls);
        let mut running = self.running.lock();
        let own = calls.iter().map(|call| call.ready(self.rank)).reduce(Ready::or_later);
        let mut latest = own.unwrap_or_default();
        for call in calls.iter().filter(|call| !call.operation.is_for_two()) {
            // NCCL returns at once from a collective of nothing; only our own barrier has no elements.
            if call.count == 0 && call.operation != Operation::Barrier {
                continue;
            }
            running.sequence += 1;
            let sequence = running.sequence;
            let result = self.collective(sequence, call);
            self.history.end(result.is_ok());
            match result {
                Ok(timing) => {
                    latest = latest.or_later(timing.latest);
                    self.note(sequence, call, timing);
                }
                Err(failure) => return Err(self.fail(failure, call, sequence)),
            }
        }
        let transfers: Vec<Call> = calls.iter().copied().filter(is_transfer).collect();
        if !transfers.is_empty() {
            let result = self.transfers(&mut running, &transfers);
            latest = latest.or_later(self.concluded(&transfers, result)?.1.unwrap_or(latest));
        }
        let one_sided: Vec<Call> = calls.iter().copied().filter(|call| call.operation.is_one_sided()).collect();
        let mut rest = &one_sided[..];
        while !rest.is_empty() {
            let result = self.one_sided(&mut running, rest);
            let (done, _) = self.concluded(rest, result)?;
            rest = &rest[done..];
        }
        if self.shared.get().is_none() && running.measured.is_none_or(|last| last.elapsed() >= MEASURED_EVERY) {
            running.measured = Some(Instant::now());
            self.measure();
        }
        Ok(latest)
    }

    /// Reports what was measured of the links to other nodes.
    pub(crate) fn measure(&self) {
        let paths = self.sockets.paths(&self.context(0));
        if !paths.is_empty() {
            self.journal.measured(self.id, Rank(self.rank), paths);
        }
    }

    /// Records the outcome of the first `calls`, as many as have a timing; returns their number and the latest
    /// [`Timing::latest`].
    fn concluded(
        &self,
        calls: &[Call],
        result: Result<Vec<Timing>, Failure>,
    ) -> Result<(usize, Option<Ready>), Failure> {
        self.history.end(result.is_ok());
        match result {
            Ok(timings) => {
                calls.iter().zip(&timings).for_each(|(call, timing)| self.note(timing.transfer, call, *timing));
                Ok((timings.len(), timings.iter().map(|timing| timing.latest).reduce(Ready::or_later)))
            }
            Err(failure) => Err(self.fail(failure, &calls[0], 0)),
        }
    }

    fn collective(&self, sequence: u64, call: &Call) -> Result<Timing, Failure> {
        call.check(self.rank, self.size())?;
        let corrupted = if self.faults.is_empty() {
            None
        } else {
            fault::before_collective(&self.faults, &self.site(&|| self.failure()), sequence, call)?
        };
        let call = corrupted.as_ref().map_or(call, |corrupted| &corrupted.call);
        // A rank that a fault holds has not come.
        self.history.begin(sequence, std::slice::from_ref(call));
        if self.settings.keeps_books {
            return self.agree(sequence, call);
        }
        self.carrier().collective(&self.context(sequence), &self.moved(call))
    }

    fn transfers(&self, running: &mut Running, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        for call in calls {
            call.check(self.rank, self.size())?;
        }
        if self.faults.is_empty() {
            return self.transfer(calls);
        }
        let failure = || self.failure();
        let site = self.site(&failure);
        let spoiled = fault::before_transfers(&self.faults, &site, &mut running.counted, calls)?;
        let timings = self.transfer(&spoiled.calls)?;
        spoiled.finish();
        Ok(timings)
    }

    fn transfer(&self, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        self.history.begin(0, calls);
        if self.settings.keeps_books {
            return self.agree_on_transfers(calls);
        }
        let moved: Vec<Call> = calls.iter().map(|call| self.moved(call)).collect();
        self.carrier().transfers(&self.context(0), &moved)
    }

    /// The part of a call that is actually moved: less if memory is to stay untouched.
    fn moved(&self, call: &Call) -> Call {
        let most = self.settings.most_moved.map(|bytes| (bytes / call.datatype.size()) as u64);
        Call { count: call.count.min(most.unwrap_or(u64::MAX)), ..*call }
    }

    fn note(&self, sequence: u64, call: &Call, timing: Timing) {
        if self.alone.is_some() {
            return alone::note(self.id.0, self.rank, self.size(), call);
        }
        let alone = self.size() == 1 || call.operation == Operation::Barrier;
        self.journal.completed(OperationRecord {
            communicator: self.id,
            sequence: Sequence(sequence),
            rank: Rank(self.rank),
            operation: call.operation,
            count: call.count,
            datatype: call.datatype,
            reduction_op: call.reduction,
            root: call.root.map(Rank),
            peer: call.peer.map(Rank),
            transport: if alone { BufferTransport::Control } else { self.transport() },
            wait_us: timing.wait_us,
            execute_us: timing.execute_us,
            ended_ns: timing.ended_ns,
            site: call.site,
            issue: call.issue,
        });
    }

    /// Keeps the first failure, notifies the others and the journal, and returns the kept failure.
    fn fail(&self, failure: Failure, call: &Call, sequence: u64) -> Failure {
        let kept = {
            let mut held = self.failure.lock();
            held.get_or_insert_with(|| Failure { site: call.site, ..failure }).clone()
        };
        // This has to happen before the connections go.
        self.measure();
        let detail = format!("rank {} failed: {}", self.rank, kept.detail);
        self.carrier().fail(&self.context(sequence), kept.code, &detail);
        self.journal.failed(FailureRecord {
            communicator: Some(self.id),
            sequence: Sequence(sequence),
            rank: Rank(self.rank),
            operation: call.operation,
            code: kept.code,
            detail: kept.detail.clone(),
            culprits: kept.culprits.clone(),
            attempted_bytes: call.send_bytes(self.rank, self.size()) as u64,
            site: call.site,
        });
        kept
    }

    /// Records that a member will not come again, and wakes its waiters. Operations that do not need it go on.
    pub fn lose(&self, rank: u32, code: ErrorCode, detail: &str) {
        // A revoke is local to its rank: its waiters go on waiting.
        if rank >= self.size() || (code == ErrorCode::Revoked && rank != self.rank) {
            return;
        }
        self.losses.note(rank, code, detail);
        self.carrier().lose(rank, code, detail);
    }
}

fn is_transfer(call: &Call) -> bool {
    matches!(call.operation, Operation::Send | Operation::Recv)
}
