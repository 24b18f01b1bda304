//! A communicator as one of its ranks holds it: runs operations in order, keeps the first failure, hears of lost ranks.

mod leaving;
mod resizes;
mod ticket;
mod turns;
mod windows;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use protocol::activity::Activity;
use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::Member;
use protocol::record::{BufferTransport, ErrorCode, FailureRecord, OperationRecord};

use crate::arena::Arena;
use crate::call::Call;
use crate::failure::Failure;
use crate::fault::{self, Armed, Site};
use crate::journal::Journal;
use crate::one_sided::{self, Inbox};
use crate::operation::context::{OpContext, Timing};
use crate::operation::history::OpHistory;
use crate::settings::Settings;
use crate::shared;
use crate::shared::collectives::Shared;
use crate::shared::segment::Segment;
use crate::sockets;
use crate::sockets::listener::Listener;
use crate::sockets::mesh::{Mesh, Stop};
use crate::wake::Wake;

pub use resizes::{GrowTicket, ShrinkTicket};
pub use ticket::Ticket;

use resizes::Resizes;
use turns::Turns;

/// Connections on which ranks agree how to move bytes.
const SETUP_CHANNEL: u8 = 255;

/// What a rendezvous answers.
#[derive(Clone, Debug)]
pub struct Formed {
    /// Identity in the run.
    pub communicator: CommunicatorId,
    /// The receiver's rank.
    pub rank: Rank,
    /// Everybody, in rank order.
    pub members: Vec<Member>,
}

/// A rank that will not come again, why, and that in a sentence.
pub(crate) type Loss = (u32, ErrorCode, String);

/// One rank's end of a communicator.
pub struct Communicator {
    id: CommunicatorId,
    rank: u32,
    members: Vec<Member>,
    settings: Settings,
    journal: Arc<dyn Journal>,
    turns: Turns,
    history: OpHistory,
    running: Mutex<Running>,
    /// Set when bytes move through shared memory.
    segment: OnceLock<Segment>,
    failure: Mutex<Option<Failure>>,
    lost: Mutex<BTreeMap<u32, (ErrorCode, String)>>,
    wake: Arc<Wake>,
    listener: Arc<Listener>,
    inbox: Arc<Inbox>,
    left: AtomicBool,
    revoked: AtomicBool,
    /// Splits asked for so far.
    splits: Mutex<u64>,
    resizes: Mutex<Resizes>,
    faults: Vec<Armed>,
}

/// What only the running operation touches.
struct Running {
    sequence: u64,
    shared: Shared,
    mesh: Mesh,
    memory: sockets::transfers::Memory,
    one_sided: one_sided::Memory,
    counted: fault::Counted,
}

impl Communicator {
    /// Sets up the bytes' way between the members: shared memory when all of them are on one host and can map each other's
    /// memory, else sockets. Every rank comes to the same decision. `control` is the memory file this rank offered; `register`
    /// makes the communicator known and answers the losses heard of before.
    ///
    /// # Errors
    /// A lost member, the deadline, or the system's refusal.
    pub(crate) fn form(
        formed: Formed,
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
        listener.watch(formed.communicator.0, rank, &wake);
        let mesh = |wake| {
            let (token, chunk) = (settings.token.clone(), settings.chunk_bytes);
            Mesh::new(formed.communicator.0, token, chunk, Arc::clone(listener), wake)
        };
        let communicator = Arc::new(Self {
            id: formed.communicator,
            rank,
            members: formed.members,
            journal,
            turns: Turns::default(),
            history: OpHistory::default(),
            running: Mutex::new(Running {
                sequence: 0,
                shared: Shared::new(),
                mesh: mesh(Arc::clone(&wake)),
                memory: sockets::transfers::Memory::default(),
                one_sided: one_sided::Memory::default(),
                counted: fault::Counted::default(),
            }),
            segment: OnceLock::new(),
            failure: Mutex::new(None),
            lost: Mutex::default(),
            inbox: Inbox::new(Arc::clone(&wake), settings.timeout),
            wake,
            listener: Arc::clone(listener),
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
        let one_host = communicator.members.iter().all(|member| {
            member.arena.is_some() && member.control.is_some() && member.host == communicator.members[0].host
        });
        if one_host {
            // What we offered stays open until everybody has looked at it.
            let (segment, _offered) = communicator.map_segment(control, size);
            if size == 1 || communicator.agree(segment.is_some())? {
                if let Some(segment) = segment {
                    let _ = communicator.segment.set(segment);
                }
                // Losses that came before the segment was there.
                let lost = communicator.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
                for (rank, (code, detail)) in lost {
                    communicator.lose(rank, code, &detail);
                }
            }
        }
        if communicator.segment.get().is_none() {
            listener.take_puts(communicator.id.0, rank, &communicator.inbox);
        }
        Ok(communicator)
    }

    /// Rank 0's segment, when this process can map it and everybody else's memory; and `control`, unless it became it.
    fn map_segment(&self, control: Arena, size: u32) -> (Option<Segment>, Option<Arena>) {
        if self.rank == 0 {
            return (Some(Segment::found(control, size)), None);
        }
        let reachable = self.members.iter().all(|member| {
            let fd = member.control.map_or(-1, |file| file.fd);
            std::fs::OpenOptions::new().read(true).write(true).open(format!("/proc/{}/fd/{fd}", member.pid)).is_ok()
        });
        let host = &self.members[0];
        let fd = host.control.map_or(-1, |file| file.fd);
        let segment = if reachable { Segment::join(host.pid, fd, size).ok() } else { None };
        (segment, Some(control))
    }

    /// Asks every rank, through rank 0, whether it could map what it must. Also keeps rank 0 alive until all have mapped it.
    fn agree(&self, mapped: bool) -> Result<bool, Failure> {
        let context = self.context(0);
        let lost = |rank| self.why_lost(rank);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mesh = &mut running.mesh;
        let stopped = |stop: Stop| {
            stop.failure(&context, "setting up the communicator", |missing| {
                let detail = format!(
                    "rank {} waited {} ms for {} to set up the communicator",
                    context.rank,
                    context.timeout_ms(),
                    crate::failure::name_ranks(&missing)
                );
                Failure::new(ErrorCode::TimeoutWaitingForRanks, detail).blaming(missing)
            })
        };
        let mut all = mapped;
        if self.rank == 0 {
            let answers: Vec<_> = (1..context.size).map(|other| mesh.receive_own(other, SETUP_CHANNEL, 1)).collect();
            mesh.finish(&context, &lost).map_err(stopped)?;
            for answer in answers {
                all &= mesh.taken(answer) == [1];
            }
            for other in 1..context.size {
                mesh.send_own(other, SETUP_CHANNEL, vec![u8::from(all)]);
            }
            mesh.finish(&context, &lost).map_err(stopped)?;
        } else {
            mesh.send_own(0, SETUP_CHANNEL, vec![u8::from(mapped)]);
            let answer = mesh.receive_own(0, SETUP_CHANNEL, 1);
            mesh.finish(&context, &lost).map_err(stopped)?;
            all = mesh.taken(answer) == [1];
        }
        mesh.hang_up(SETUP_CHANNEL);
        Ok(all)
    }

    fn context(&self, sequence: u64) -> OpContext<'_> {
        OpContext {
            rank: self.rank,
            size: self.members.len() as u32,
            members: &self.members,
            sequence,
            deadline: Instant::now() + self.settings.timeout,
            timeout: self.settings.timeout,
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
            wake: &self.wake,
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

    /// Everybody, in rank order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How bytes move between its ranks.
    pub fn transport(&self) -> BufferTransport {
        if self.segment.get().is_some() { BufferTransport::SharedMemory } else { BufferTransport::SocketPayload }
    }

    /// How long an operation waits for other ranks.
    pub fn patience(&self) -> std::time::Duration {
        self.settings.timeout
    }

    /// The first failure; it stays.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What this rank is in here, and what it did last.
    pub fn activity(&self) -> Activity {
        let (current, recent) = self.history.read();
        let queued = self.turns.behind(!current.is_empty());
        Activity { communicator: self.id, rank: Rank(self.rank), current, queued, recent }
    }

    /// Number of the next split of this communicator, from 1; taken when the program asks for the split.
    pub fn split_ticket(&self) -> Sequence {
        let mut splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
        *splits += 1;
        Sequence(*splits)
    }

    /// Checks a call's arguments, as far as this rank can tell alone.
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
    /// The failure, which stays: later operations answer it at once.
    pub fn run(self: &Arc<Self>, calls: &[Call]) -> Result<(), Failure> {
        self.ticket().run(calls)
    }

    fn execute(&self, calls: &[Call]) -> Result<(), Failure> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for call in calls.iter().filter(|call| !call.operation.is_for_two()) {
            // NCCL returns at once from a collective of nothing; only our own barrier has no elements.
            if call.count == 0 && call.operation != Operation::Barrier {
                continue;
            }
            running.sequence += 1;
            let sequence = running.sequence;
            let result = self.collective(&mut running, sequence, call);
            self.history.end(result.is_ok());
            match result {
                Ok(timing) => self.note(sequence, call, timing),
                Err(failure) => return Err(self.fail(&mut running, failure, call, sequence)),
            }
        }
        let transfers: Vec<Call> = calls.iter().copied().filter(is_transfer).collect();
        if !transfers.is_empty() {
            let result = self.transfers(&mut running, &transfers);
            self.concluded(&mut running, &transfers, result)?;
        }
        let one_sided: Vec<Call> = calls.iter().copied().filter(|call| call.operation.is_one_sided()).collect();
        let mut rest = &one_sided[..];
        while !rest.is_empty() {
            let result = self.one_sided(&mut running, rest);
            let done = self.concluded(&mut running, rest, result)?;
            rest = &rest[done..];
        }
        Ok(())
    }

    /// Notes what became of the first of `calls`, as many as have a timing; their number.
    fn concluded(
        &self,
        running: &mut Running,
        calls: &[Call],
        result: Result<Vec<Timing>, Failure>,
    ) -> Result<usize, Failure> {
        self.history.end(result.is_ok());
        match result {
            Ok(timings) => {
                calls.iter().zip(&timings).for_each(|(call, timing)| self.note(timing.transfer, call, *timing));
                Ok(timings.len())
            }
            Err(failure) => Err(self.fail(running, failure, &calls[0], 0)),
        }
    }

    fn collective(&self, running: &mut Running, sequence: u64, call: &Call) -> Result<Timing, Failure> {
        call.check(self.rank, self.size())?;
        let corrupted = if self.faults.is_empty() {
            None
        } else {
            fault::before_collective(&self.faults, &self.site(&|| self.failure()), sequence, call)?
        };
        let call = corrupted.as_ref().map_or(call, |corrupted| &corrupted.call);
        // A rank that a fault holds has not come.
        self.history.begin(sequence, std::slice::from_ref(call));
        let context = self.context(sequence);
        match self.segment.get() {
            Some(segment) => running.shared.collective(segment, &context, call),
            None => {
                self.refuse_large_pieces(call.send_bytes(self.rank, context.size))?;
                sockets::collectives::collective(&mut running.mesh, &context, &|rank| self.why_lost(rank), call)
            }
        }
    }

    fn transfers(&self, running: &mut Running, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        for call in calls {
            call.check(self.rank, self.size())?;
        }
        if self.faults.is_empty() {
            return self.transfer(running, calls);
        }
        let failure = || self.failure();
        let site = self.site(&failure);
        let spoiled = fault::before_transfers(&self.faults, &site, &mut running.counted, calls)?;
        let timings = self.transfer(running, &spoiled.calls)?;
        spoiled.finish();
        Ok(timings)
    }

    fn transfer(&self, running: &mut Running, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        self.history.begin(0, calls);
        let context = self.context(0);
        match self.segment.get() {
            Some(segment) => shared::transfers::run(segment, &mut running.shared.mappings, &context, calls),
            None => {
                for call in calls {
                    self.refuse_large_pieces(call.send_bytes(self.rank, context.size))?;
                }
                let Running { mesh, memory, .. } = running;
                sockets::transfers::run(mesh, memory, &context, &|rank| self.why_lost(rank), calls)
            }
        }
    }

    fn refuse_large_pieces(&self, bytes: usize) -> Result<(), Failure> {
        let piece = bytes.min(self.settings.chunk_bytes);
        match self.settings.max_bytes {
            Some(max) if piece > max && self.size() > 1 => Err(Failure::new(
                ErrorCode::InvalidArgument,
                format!(
                    "a piece of {piece} bytes exceeds FAKEGPU_STAGING_MAX_BYTES={max}; \
                     lower FAKEGPU_STAGING_CHUNK_BYTES (now {}) to {max} or raise the limit",
                    self.settings.chunk_bytes
                ),
            )),
            _ => Ok(()),
        }
    }

    fn note(&self, sequence: u64, call: &Call, timing: Timing) {
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
        });
    }

    /// Keeps the first failure, tells the others and the journal, and returns what is kept.
    fn fail(&self, running: &mut Running, failure: Failure, call: &Call, sequence: u64) -> Failure {
        let kept = {
            let mut held = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            held.get_or_insert_with(|| failure.clone()).clone()
        };
        let detail = format!("rank {} failed: {}", self.rank, kept.detail);
        if let Some(segment) = self.segment.get() {
            segment.lose(self.rank, kept.code, &detail);
        } else if kept.code == ErrorCode::Revoked {
            running.mesh.clear();
        } else {
            let context = self.context(sequence);
            running.mesh.close(&context, kept.code, &detail);
            self.inbox.close(kept.code, &detail);
        }
        self.journal.failed(FailureRecord {
            communicator: Some(self.id),
            sequence: Sequence(sequence),
            rank: Rank(self.rank),
            operation: call.operation,
            code: kept.code,
            detail: kept.detail.clone(),
            culprits: kept.culprits.clone(),
            attempted_bytes: call.send_bytes(self.rank, self.size()) as u64,
        });
        kept
    }

    fn why_lost(&self, rank: u32) -> Option<(ErrorCode, String)> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).get(&rank).cloned()
    }

    /// A member will not come again: wakes those who wait for it. Operations that do not need it go on.
    pub fn lose(&self, rank: u32, code: ErrorCode, detail: &str) {
        // Another rank's revoke is its own: who waits for it waits on.
        if rank >= self.size() || (code == ErrorCode::Revoked && rank != self.rank) {
            return;
        }
        self.lost
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(rank)
            .or_insert_with(|| (code, detail.to_owned()));
        // It keeps the first reason, too, and learns here of one that aborted and then ended.
        if let Some(segment) = self.segment.get() {
            segment.lose(rank, code, detail);
        }
        self.wake.ring();
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.listener.forget(self.id.0, self.rank);
    }
}

fn is_transfer(call: &Call) -> bool {
    matches!(call.operation, Operation::Send | Operation::Recv)
}
